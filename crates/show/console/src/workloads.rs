//! The workloads by name.

use berth_simulate::SimulatedPod;

/// Namespace, and workload (such as `Deployment web`) or pod.
pub(crate) type WorkloadName = (String, String);

pub(crate) fn name_of(pod: &SimulatedPod) -> WorkloadName {
    let metadata = &pod.pod.metadata;
    let workload = pod.workload.clone().unwrap_or_else(|| format!("Pod {}", metadata.name));
    (metadata.namespace.clone(), workload)
}
