//! Pods that leave their nodes, and what their controllers create in their place.

use berth_api::feature_gates::FeatureGates;
use berth_api::object::{Node, Pod, PodStatus, TOPOLOGY_LABELS, find_condition};
use berth_control::replica_set::{DELETION_COST, Replica};
use berth_control::taints::{self, Stay, stay};

/// What happens to a pod that leaves its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It belongs to the node, or is being deleted already and has been replaced: nothing replaces it.
    Gone,
    /// Its controller creates it again.
    Recreated,
    /// It has no controller.
    Lost,
}

impl Fate {
    pub(crate) fn of(pod: &Pod) -> Fate {
        match pod.metadata.controller() {
            _ if pod.belongs_to_node() => Fate::Gone,
            // Its name becomes free.
            Some(owner) if owner.kind == "StatefulSet" => Fate::Recreated,
            _ if pod.metadata.is_deleting() => Fate::Gone,
            Some(_) => Fate::Recreated,
            None => Fate::Lost,
        }
    }
}

/// Why a pod stays on a node that cannot be reached.
pub(crate) const TOLERATES: &str = "stays on its unreachable node: it tolerates that for longer";
const NOT_EVICTED: &str = "stays on its unreachable node: too many nodes cannot be reached, so that the node controller evicts no pods";

/// A pod that is created for a node that cannot be reached: no kubelet runs it.
pub(crate) const NAMES_UNREACHABLE: &str = "does not run: spec.nodeName names a node that cannot be reached";

/// What happens to a pod whose node cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contact {
    /// It belongs to the node, and comes back with it.
    OfNode,
    /// It is not evicted, for this reason.
    Stays(&'static str),
    /// It is being deleted, and another one is created.
    Recreated,
    /// There is no other one, for this reason.
    Lost(&'static str),
}

/// What happens to a pod whose node cannot be reached for so many seconds, or for ever; `evicts`: the node gets the taint that evicts.
pub(crate) fn unreachable(pod: &Pod, seconds: Option<i64>, evicts: bool, gates: FeatureGates) -> Contact {
    let tolerates = match stay(&pod.spec.tolerations, &taints::unreachable("NoExecute"), gates) {
        Stay::Forever => true,
        Stay::Seconds(tolerated) => seconds.is_some_and(|seconds| seconds < tolerated),
        Stay::No => false,
    };
    match pod.metadata.controller() {
        _ if pod.belongs_to_node() => Contact::OfNode,
        _ if !evicts => Contact::Stays(NOT_EVICTED),
        _ if tolerates => Contact::Stays(TOLERATES),
        Some(owner) if owner.kind == "StatefulSet" => Contact::Lost(
            "the StatefulSet creates no other pod of this name before the unreachable node has ended this one",
        ),
        Some(_) if !pod.metadata.is_deleting() => Contact::Recreated,
        _ => Contact::Lost("has no controller: the unreachable node evicts it"),
    }
}

/// The pods that a drain of a node evicts: all but those that belong to the node and those that are being deleted.
pub fn evicted_by_drain<'a>(
    pods: impl Iterator<Item = &'a Pod>,
    node: &str,
) -> impl Iterator<Item = &'a Pod> {
    pods.filter(move |pod| {
        pod.spec.node_name == node && !pod.belongs_to_node() && !pod.metadata.is_deleting()
    })
}

/// Makes a running pod the pending one that its controller creates in its place, under the same name and with claims of
/// devices of the same names.
pub(crate) fn recreate(pod: &mut Pod, node: Option<&Node>) {
    let labels = labels_of_binding(pod, node);
    pod.spec.node_name.clear();
    (pod.metadata.deletion_timestamp, pod.metadata.deletion_grace_period_seconds) = (None, None);
    let resource_claim_statuses = std::mem::take(&mut pod.status.resource_claim_statuses);
    pod.status = PodStatus { resource_claim_statuses, ..PodStatus::default() }.into();
    for key in labels {
        pod.metadata.labels.remove(key);
    }
}

/// The keys of the labels that a pod got from its node when it was bound.
pub(crate) fn labels_of_binding(pod: &Pod, node: Option<&Node>) -> Vec<&'static str> {
    let has = |key: &&str| {
        let label = pod.metadata.label(key);
        label.is_some() && node.is_some_and(|node| node.metadata.label(key) == label)
    };
    TOPOLOGY_LABELS.into_iter().filter(has).collect()
}

/// What decides whether a ReplicaSet with too many pods deletes this one, which has this node.
pub(crate) fn replica<'a>(pod: &'a Pod, node: Option<&'a str>) -> Replica<'a> {
    let ready = find_condition(&pod.status.conditions, "Ready").filter(|c| c.is_true());
    Replica {
        name: &pod.metadata.name,
        uid: &pod.metadata.uid,
        created: pod.metadata.creation_timestamp,
        deletion_cost: pod.metadata.annotation(DELETION_COST),
        node: node.unwrap_or_default(),
        phase: &pod.status.phase,
        is_ready: ready.is_some(),
        ready_since: ready.and_then(|c| c.last_transition_time),
        // Not read.
        restarts: 0,
    }
}
