//! The limits that users set.

use std::time::Duration;

/// The cluster limit is at least this number of pods.
pub const LEAST_CLUSTER_LIMIT: usize = 5;
#[derive(Clone, Debug, PartialEq)]
pub struct LimitOptions {
    /// The window in which evictions are counted.
    pub window: Duration,
    /// Evictions per second, at most.
    pub evictions_per_second: f64,
    /// Evictions from one node within the window, at most.
    pub max_per_node: u32,
    /// Evictions from one namespace within the window, at most.
    pub max_per_namespace: u32,
    /// The share of the cluster's pods, between 0 and 1, that may be evicted within the window; at least 5 pods. If more
    /// would be evicted, all evictions stop for the length of a window, and then continue with this limit. 1 disables the
    /// limit.
    pub max_cluster_share: f64,
    /// The share of one workload's pods, between 0 and 1, that may be evicted within the window; at least one pod. 1
    /// disables the limit.
    pub max_workload_share: f64,
    /// How often a workload's pods may be evicted for the same term within `repeat_window` if each time the replacement
    /// violates it again.
    pub max_repeats: u32,
    pub repeat_window: Duration,
}

impl Default for LimitOptions {
    fn default() -> Self {
        LimitOptions {
            window: Duration::from_secs(600),
            evictions_per_second: 5.0,
            max_per_node: 10,
            max_per_namespace: 100,
            max_cluster_share: 0.1,
            max_workload_share: 0.5,
            max_repeats: 3,
            repeat_window: Duration::from_secs(3600),
        }
    }
}
