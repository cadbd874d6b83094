//! Where a DaemonSet's pods go: the checks of the DaemonSet controller.

use super::draft::PodDraft;
use crate::object::{Node, NodeSelectorTerm, Pod, SelectorRequirement, Taint, Toleration};

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

/// Whether the controller makes a pod for this node. `pod` is not pinned yet.
pub(super) fn should_run_on(pod: &Pod, node: &Node) -> bool {
    let spec = &pod.spec;
    (spec.node_name.is_empty() || spec.node_name == node.metadata.name)
        && spec.node_selector.iter().all(|(key, value)| node.metadata.labels.get(key) == Some(value))
        && satisfies_required_node_affinity(pod, node)
        && node.spec.taints.iter().all(|taint| {
            !matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
                || spec.tolerations.iter().any(|toleration| tolerates(toleration, taint))
        })
}

/// The node a daemon pod is on, or meant for.
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
    required.is_none_or(|required| required.node_selector_terms.iter().any(|term| matches_term(term, node)))
}

fn matches_term(term: &NodeSelectorTerm, node: &Node) -> bool {
    let is_empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
    let labels = &node.metadata.labels;
    !is_empty
        && term.match_expressions.iter().all(|r| matches_value(r, labels.get(&r.key).map(String::as_str)))
        && term.match_fields.iter().all(|requirement| {
            requirement.key == "metadata.name"
                && matches!(requirement.operator.as_str(), "In" | "NotIn")
                && matches_value(requirement, Some(&node.metadata.name))
        })
}

/// Whether a requirement holds for the value of its key; an operator that is none never does.
pub(super) fn matches_value(requirement: &SelectorRequirement, value: Option<&str>) -> bool {
    let listed = |value: &str| requirement.values.iter().any(|v| v == value);
    let compared = |holds: fn(i64, i64) -> bool| {
        let [bound] = requirement.values.as_slice() else { return false };
        match (value.and_then(|value| value.parse().ok()), bound.parse().ok()) {
            (Some(value), Some(bound)) => holds(value, bound),
            _ => false,
        }
    };
    match requirement.operator.as_str() {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared(|value, bound| value > bound),
        "Lt" => compared(|value, bound| value < bound),
        _ => false,
    }
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    (toleration.effect.is_empty() || toleration.effect == taint.effect)
        && (toleration.key.is_empty() || toleration.key == taint.key)
        && match toleration.operator.as_str() {
            "" | "Equal" => toleration.value == taint.value,
            "Exists" => true,
            _ => false,
        }
}
