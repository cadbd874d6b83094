//! Why a pod is not moved.

use berth_api::object::Pod;
use berth_api::rules::KnownNamespaces;
use berth_engine::Cluster;
use jiff::Timestamp;

use crate::request::{Movable, RunningPod};

/// Pods of this priority and above belong to the system.
const SYSTEM_PRIORITY: i32 = 2_000_000_000;
/// Annotations that forbid the eviction of a pod, with their values.
const FORBIDDING: [(&str, &str); 3] = [
    ("scheduling.berth.dev/evictable", "false"),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
    ("karpenter.sh/do-not-disrupt", "true"),
];

/// Why a running pod must stay where it is, if it must.
pub(crate) fn reason(
    running: &RunningPod<'_>,
    cluster: &Cluster,
    namespaces: &KnownNamespaces,
    movable: &Movable,
    now: Timestamp,
) -> Option<String> {
    let Pod { metadata, spec, status, .. } = running.pod;
    let annotation = FORBIDDING.iter().find(|(key, value)| metadata.annotation(key) == Some(value));
    let is_system = spec.priority.is_some_and(|priority| priority >= SYSTEM_PRIORITY)
        || spec.priority_class_name.starts_with("system-");
    let settles = status.start_time.filter(|_| !running.is_settled).map(|start| now.duration_since(start));
    let reason = if metadata.is_deleting() {
        "it is being deleted".to_owned()
    } else if running.pod.belongs_to_node() {
        "it belongs to its node (a pod of a DaemonSet, or a mirror pod)".to_owned()
    } else if metadata.controller().is_none() {
        "it has no controller that creates it again".to_owned()
    } else if let Some(stays) = running.stays {
        stays.to_owned()
    } else if cluster.is_exempt(&metadata.namespace) {
        "its namespace is exempt from enforcement".to_owned()
    } else if cluster.is_disrupted_as_group(&metadata.namespace, &metadata.name) {
        "its group is disrupted as a whole".to_owned()
    } else if let Some((key, value)) = annotation {
        format!("it has the annotation {key}: \"{value}\"")
    } else if is_system {
        "it has a system priority".to_owned()
    } else if !spec.resource_claims.is_empty() || status.extended_resource_claim_status.is_some() {
        "devices are allocated to it".to_owned()
    } else if !movable.with_local_storage && spec.volumes.iter().any(|volume| volume.is_local()) {
        "it has local storage (emptyDir or hostPath)".to_owned()
    } else if movable
        .namespaces
        .as_ref()
        .is_some_and(|selector| !namespaces.matches(&metadata.namespace, selector))
    {
        "its namespace is not selected".to_owned()
    } else if settles.is_some_and(|running| running < movable.settle) {
        format!("it started less than {} ago", minutes(movable.settle))
    } else {
        return None;
    };
    Some(reason)
}

fn minutes(duration: jiff::SignedDuration) -> String {
    match duration.as_secs() {
        seconds if seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}
