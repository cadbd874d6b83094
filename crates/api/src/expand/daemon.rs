//! The nodes of a DaemonSet's pods, by the checks of the DaemonSet controller.

use super::draft::PodDraft;
use crate::object::{Node, Pod};
use crate::rules::{Dialect, NodeSelectorRule, TaintEffect, TolerationRule};

/// Adds the tolerations that every daemon pod gets.
pub(super) fn add_standard_tolerations(draft: &mut PodDraft) {
    for (taint, effect) in [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ] {
        draft.tolerate(&format!("node.kubernetes.io/{taint}"), effect);
    }
    if draft.pod.spec.host_network {
        draft.tolerate("node.kubernetes.io/network-unavailable", "NoSchedule");
    }
}

/// Whether the controller creates a pod for this node. `pod` is not pinned yet.
pub(super) fn should_run_on(pod: &Pod, node: &Node) -> bool {
    let spec = &pod.spec;
    (spec.node_name.is_empty() || spec.node_name == node.metadata.name)
        && spec.node_selector.iter().all(|(key, value)| node.metadata.labels.get(key) == Some(value))
        && satisfies_required_node_affinity(pod, node)
        && node.spec.taints.iter().all(|taint| {
            !TaintEffect::parse(&taint.effect).forbids_scheduling()
                || spec
                    .tolerations
                    .iter()
                    .any(|toleration| TolerationRule::parse(toleration).tolerates(taint))
        })
}

/// The node that a daemon pod is bound or pinned to.
pub(super) fn target_node(pod: &Pod) -> Option<&str> {
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
