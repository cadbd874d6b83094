//! The nodes of a DaemonSet's pods, by the checks of the DaemonSet controller.

use super::draft::PodDraft;
use berth_api::object::{Node, Pod, UNSCHEDULABLE_TAINT};
use berth_rules::{Dialect, NodeSelectorRule, TaintEffect, Tolerations};

/// The tolerations of every daemon pod: taint keys and effects. The last one is only for pods on the node's network.
///
/// Source: `AddOrUpdateDaemonPodTolerations` of the DaemonSet controller.
const TOLERATIONS: [(&str, &str); 7] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    (UNSCHEDULABLE_TAINT, "NoSchedule"),
    ("node.kubernetes.io/network-unavailable", "NoSchedule"),
];

/// The tolerations that the DaemonSet controller adds to a pod: taint keys and effects.
pub fn daemon_tolerations(host_network: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    TOLERATIONS.into_iter().take(if host_network { 7 } else { 6 })
}

pub(super) fn add_standard_tolerations(draft: &mut PodDraft) {
    for (taint, effect) in daemon_tolerations(draft.pod.spec.host_network) {
        draft.tolerate(taint, effect);
    }
}

/// Whether the controller creates a pod for this node. `pod` is not pinned yet.
pub(super) fn should_run_on(pod: &Pod, node: &Node) -> bool {
    let spec = &pod.spec;
    (spec.node_name.is_empty() || spec.node_name == node.metadata.name)
        && spec.node_selector.iter().all(|(key, value)| node.metadata.labels.get(key) == Some(value))
        && satisfies_required_node_affinity(pod, node)
        && {
            let mut taints = node.spec.taints.iter();
            let tolerations = Tolerations::parse(&spec.tolerations);
            taints.all(|t| !TaintEffect::parse(&t.effect).forbids_scheduling() || tolerations.tolerate(t))
        }
}

/// Takes the node that a daemon pod is bound or pinned to out of it. Returns whether its controller creates such a pod for this node, as
/// far as the pod says.
pub fn is_daemon_of(pod: &mut Pod, node: &Node) -> bool {
    pod.spec.node_name.clear();
    if let Some(affinity) = &mut pod.spec.affinity
        && let Some(affinity) = &mut affinity.node_affinity
    {
        affinity.required_during_scheduling_ignored_during_execution = None;
    }
    should_run_on(pod, node)
}

/// The node that a daemon pod is bound or pinned to.
pub fn target_node(pod: &Pod) -> Option<&str> {
    if !pod.spec.node_name.is_empty() {
        return Some(&pod.spec.node_name);
    }
    let affinity = pod.spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let mut fields = required.node_selector_terms.iter().flat_map(|term| &term.match_fields);
    let pin = fields.find(|field| field.key == "metadata.name" && field.operator == "In")?;
    if let [node] = pin.values.as_slice() { Some(node) } else { None }
}

fn satisfies_required_node_affinity(pod: &Pod, node: &Node) -> bool {
    let affinity = pod.spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|required| {
        let rule = NodeSelectorRule::parse(required, String::new(), Dialect::V1, false);
        rule.matches(&node.metadata.name, &node.metadata.labels)
    })
}
