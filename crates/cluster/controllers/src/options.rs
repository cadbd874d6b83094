//! Options of the controllers.

use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_control::pod_gc::QUARANTINE;
use berth_control::zones::EvictionRates;

use crate::provisioner::ProvisionerOptions;

/// Options of [`run`](super::run). The defaults are those of kube-controller-manager where it has them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControllerOptions {
    pub n_workers: usize,
    /// How long a node may miss heartbeats before it counts as unreachable.
    pub node_monitor_grace_period: Duration,
    /// Interval of the heartbeat check.
    pub node_monitor_period: Duration,
    pub eviction_rates: EvictionRates,
    /// Maximum ended pods in the cluster; the oldest beyond it are deleted.
    pub terminated_pod_threshold: usize,
    /// How long a node must be missing before the pods bound to it are deleted.
    pub pod_gc_quarantine: Duration,
    /// Interval of the pod garbage collection.
    pub pod_gc_period: Duration,
    /// Interval at which autoscalers look at their metrics, besides changes of usage and readiness.
    pub autoscaler_sync_period: Duration,
    pub feature_gates: FeatureGates,
    /// The simulated provisioner of volumes; by default none runs.
    pub provisioner: Option<ProvisionerOptions>,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        ControllerOptions {
            n_workers: 4,
            node_monitor_grace_period: Duration::from_secs(40),
            node_monitor_period: Duration::from_secs(5),
            eviction_rates: EvictionRates::default(),
            terminated_pod_threshold: 12_500,
            pod_gc_quarantine: QUARANTINE,
            pod_gc_period: Duration::from_secs(20),
            autoscaler_sync_period: Duration::from_secs(15),
            feature_gates: FeatureGates::default(),
            provisioner: None,
        }
    }
}
