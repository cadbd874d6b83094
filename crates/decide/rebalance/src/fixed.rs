//! Why a pod is not moved.

use std::collections::HashMap;

use berth_api::object::{Node, Pod};
use berth_engine::Cluster;
use berth_rules::{KnownNamespaces, Selector};
use jiff::Timestamp;

use crate::movable::Movable;
use crate::request::RunningPod;

/// Pods of this priority and above belong to the system.
const SYSTEM_PRIORITY: i32 = 2_000_000_000;
/// Annotations that forbid the eviction of a pod, with their values.
const FORBIDDING: [(&str, &str); 3] = [
    ("scheduling.berth.dev/evictable", "false"),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
    ("karpenter.sh/do-not-disrupt", "true"),
];

/// Pods with this annotation stay if [`Movable::preferring_no_eviction`] is off, whatever its value.
const PREFERS_NO_EVICTION: &str = "descheduler.alpha.kubernetes.io/prefer-no-eviction";

/// The number of pods of each controller, which its namespace, kind and name identify.
#[derive(Default)]
pub(crate) struct Replicas<'a>(HashMap<(&'a str, &'a str, &'a str), usize>);

impl<'a> Replicas<'a> {
    pub(crate) fn of(pods: impl Iterator<Item = &'a Pod>) -> Replicas<'a> {
        let mut counts = HashMap::new();
        pods.filter_map(controller).for_each(|of| *counts.entry(of).or_default() += 1);
        Replicas(counts)
    }

    fn beside(&self, pod: &'a Pod) -> usize {
        controller(pod).and_then(|of| self.0.get(&of)).copied().unwrap_or(0)
    }
}

fn controller(pod: &Pod) -> Option<(&str, &str, &str)> {
    let owner = pod.metadata.controller()?;
    Some((&pod.metadata.namespace, &owner.kind, &owner.name))
}

/// What decides whether a pod may move, besides the pod.
pub(crate) struct Surroundings<'a> {
    pub(crate) namespaces: &'a KnownNamespaces,
    pub(crate) replicas: Replicas<'a>,
    pub(crate) now: Timestamp,
}

/// Why a running pod must stay where it is, if it must. `n_budgets` disruption budgets select it.
pub(crate) fn reason<'a>(
    running: &RunningPod<'a>,
    node: Option<&Node>,
    n_budgets: usize,
    around: &Surroundings<'a>,
    movable: &Movable,
) -> Option<String> {
    never(running).or_else(|| not_movable(running, node, n_budgets, around, movable)).or_else(|| {
        let several = "several PodDisruptionBudgets select it: the API server evicts no such pod";
        (n_budgets > 1).then(|| several.to_owned())
    })
}

/// Why the rules of the cluster keep a pod where it is.
pub(crate) fn by_rules(cluster: &Cluster, pod: &Pod) -> Option<&'static str> {
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    match (cluster.is_exempt(namespace), cluster.is_disrupted_as_group(namespace, name)) {
        (true, _) => Some("its namespace is exempt from enforcement"),
        (_, true) => Some("its group is disrupted as a whole"),
        _ => None,
    }
}

/// Why it stays whatever is asked for.
fn never(running: &RunningPod<'_>) -> Option<String> {
    let Pod { metadata, spec, status, .. } = running.pod;
    let annotation = FORBIDDING.iter().find(|(key, value)| metadata.annotation(key) == Some(value));
    let is_system = spec.priority.is_some_and(|priority| priority >= SYSTEM_PRIORITY)
        || spec.priority_class_name.starts_with("system-");
    let reason = if metadata.is_deleting() {
        "it is being deleted".to_owned()
    } else if running.pod.belongs_to_node() {
        "it belongs to its node (a pod of a DaemonSet, or a mirror pod)".to_owned()
    } else if !running.pod.is_recreated() {
        "it has no controller that creates it again".to_owned()
    } else if let Some(stays) = running.stays {
        stays.to_owned()
    } else if let Some((key, value)) = annotation {
        format!("it has the annotation {key}: \"{value}\"")
    } else if is_system {
        "it has a system priority".to_owned()
    } else if status.extended_resource_claim_status.is_some() {
        "devices are allocated to it as extended resources".to_owned()
    } else {
        return None;
    };
    Some(reason)
}

/// Why it is not among the pods that may move.
fn not_movable<'a>(
    running: &RunningPod<'a>,
    node: Option<&Node>,
    n_budgets: usize,
    around: &Surroundings<'a>,
    movable: &Movable,
) -> Option<String> {
    let pod = running.pod;
    let Pod { metadata, spec, status, .. } = pod;
    let is_outside = |selector: &Option<Selector>, matches: &dyn Fn(&Selector) -> bool| {
        selector.as_ref().is_some_and(|selector| !matches(selector))
    };
    let label = |key: &str| metadata.labels.get(key).map(String::as_str);
    let label_of_node = |key: &str| node.and_then(|node| node.metadata.label(key));
    // A pod that no kubelet has started yet has not been running for long.
    let start = status.start_time.or(metadata.creation_timestamp).filter(|_| !running.is_settled);
    let age = start.map(|start| around.now.duration_since(start));
    let reason = if !movable.with_local_storage && spec.volumes.iter().any(|volume| volume.is_local()) {
        "it has local storage (emptyDir or hostPath)".to_owned()
    } else if !movable.with_claims
        && spec.volumes.iter().any(|volume| volume.persistent_volume_claim.is_some())
    {
        "it has a PersistentVolumeClaim".to_owned()
    } else if is_outside(&movable.namespaces, &|all| around.namespaces.matches(&metadata.namespace, all)) {
        "its namespace is not selected".to_owned()
    } else if is_outside(&movable.pods, &|all| all.matches(label)) {
        "its labels are not selected".to_owned()
    } else if is_outside(&movable.nodes, &|all| all.matches(label_of_node)) {
        "its node is not selected".to_owned()
    } else if let Some(limit) = movable.below_priority.filter(|limit| spec.priority >= Some(*limit)) {
        format!("its priority is not below {limit}")
    } else if around.replicas.beside(pod) < movable.min_replicas {
        format!("its controller has fewer than {} pods", movable.min_replicas)
    } else if !movable.without_budget && n_budgets == 0 {
        "no PodDisruptionBudget selects it".to_owned()
    } else if !movable.preferring_no_eviction && metadata.annotation(PREFERS_NO_EVICTION).is_some() {
        format!("it has the annotation {PREFERS_NO_EVICTION}")
    } else if age.is_some_and(|age| age < movable.settle) {
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
