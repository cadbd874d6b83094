//! How much of the limits is in use, for reports.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::entry::Entry;
use super::eviction_limiter::{EvictionLimiter, limit};
use super::times::{after, of_millis};

/// The evictions within the window that a limit counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitInUse {
    /// What is limited, such as `node worker-1`.
    pub limited: String,
    pub n_evictions: usize,
    /// The allowed number; none without a limit.
    pub most: Option<usize>,
    /// When the oldest of them counts no more.
    pub next: Timestamp,
}

impl EvictionLimiter {
    /// The limits that count an eviction now: of the cluster, of nodes, of namespaces and of workloads. `n_pods` is the number of pods of
    /// a workload.
    pub(crate) fn in_use(&self, n_pods: impl Fn(&str) -> usize) -> Vec<LimitInUse> {
        let options = &self.options;
        let (per_node, per_namespace) = (options.max_per_node as usize, options.max_per_namespace as usize);
        // By time: the first is the oldest.
        let mut used: BTreeMap<(usize, &str), LimitInUse> = BTreeMap::new();
        for entry in &self.entries {
            let Entry { at, node, namespace, workload, .. } = entry;
            let of_workload = limit(options.max_workload_share, n_pods(workload), 1);
            for (rank, (kind, name, most)) in [
                ("cluster", "", self.cluster_limit),
                ("node ", node.as_str(), per_node),
                ("namespace ", namespace, per_namespace),
                ("workload ", workload, of_workload),
            ]
            .into_iter()
            .enumerate()
            {
                let most = Some(most).filter(|most| *most != usize::MAX);
                let next = after(of_millis(*at), options.window);
                let new = || LimitInUse { limited: format!("{kind}{name}"), n_evictions: 0, most, next };
                used.entry((rank, name)).or_insert_with(new).n_evictions += 1;
            }
        }
        used.into_values().collect()
    }

    /// Until when the cluster limit stops all evictions.
    pub(crate) fn stopped_until(&self) -> Option<Timestamp> {
        self.stopped_at.map(|at| after(at, self.options.window))
    }
}
