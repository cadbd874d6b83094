//! The taints of a node that follow from its conditions. Pure.

use berth_api::object::{Taint, UNSCHEDULABLE_TAINT};
use jiff::Timestamp;

use crate::view::{Node, NodeTaint, find_condition};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Conditions, the value that indicates a problem, and the matching taint.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];

/// The decision about the taints that evict pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evict {
    /// Evict: the pods are evicted if the node is not ready.
    Now,
    /// Keep the taints, but remove the eviction taint of a node that is ready again.
    Keep,
    /// Evict no pod: if all nodes are not ready, the controller's own connection is the likely cause.
    Never,
}

/// The taint that evicts pods of a node that is not ready; `None` for a ready node.
pub(super) fn eviction_taint(node: &Node) -> Option<&'static str> {
    match find_condition(&node.status.conditions, "Ready").map(|ready| ready.status.as_str()) {
        Some("False") => Some(NOT_READY),
        Some("Unknown") => Some(UNREACHABLE),
        _ => None,
    }
}

/// Whether a node has a taint that evicts its pods because it is not ready.
pub(super) fn is_evicting(node: &Node) -> bool {
    node.spec.taints.iter().any(|taint| is_eviction(&taint.taint))
}

fn is_eviction(taint: &Taint) -> bool {
    taint.effect == "NoExecute" && (taint.key == NOT_READY || taint.key == UNREACHABLE)
}

/// The wanted taints of a node; `None` if it has them. Other taints and the order are kept.
pub(super) fn wanted_taints(node: &Node, evict: Evict, now: Timestamp) -> Option<Vec<NodeTaint>> {
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    let holds = |kind: &str, value: &str| {
        find_condition(&node.status.conditions, kind).is_some_and(|c| c.status == value)
    };
    wanted.extend(
        BY_CONDITION
            .iter()
            .filter(|(kind, value, _)| holds(kind, value))
            .map(|(_, _, key)| (*key, "NoSchedule")),
    );
    if node.spec.unschedulable {
        wanted.push((UNSCHEDULABLE_TAINT, "NoSchedule"));
    }
    let evicts = match evict {
        Evict::Now => true,
        Evict::Keep => is_evicting(node),
        Evict::Never => false,
    };
    wanted.extend(eviction_taint(node).filter(|_| evicts).map(|key| (key, "NoExecute")));

    let is_ours = |taint: &Taint| {
        is_eviction(taint)
            || taint.effect == "NoSchedule"
                && (taint.key == UNSCHEDULABLE_TAINT
                    || BY_CONDITION.iter().any(|(_, _, key)| taint.key == *key))
    };
    let is_wanted = |taint: &Taint| wanted.contains(&(taint.key.as_str(), taint.effect.as_str()));
    let kept = node.spec.taints.iter().filter(|taint| !is_ours(&taint.taint) || is_wanted(&taint.taint));
    let mut taints: Vec<NodeTaint> = kept.cloned().collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| taint.taint.key == key && taint.taint.effect == effect) {
            let taint = Taint { key: key.to_owned(), value: String::new(), effect: effect.to_owned() };
            taints.push(NodeTaint { taint, time_added: Some(now) });
        }
    }
    (taints != node.spec.taints).then_some(taints)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(ready: &str, unschedulable: bool, taints: &[&str]) -> Node {
        let taints: Vec<Value> = taints
            .iter()
            .map(|taint| {
                let (key, effect) = taint.split_once(':').unwrap();
                json!({"key": key, "effect": effect})
            })
            .collect();
        serde_json::from_value(json!({
            "spec": {"unschedulable": unschedulable, "taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    }

    #[test]
    fn taints_match_the_conditions() {
        const LEAVE: &str = "node.kubernetes.io/unreachable:NoExecute";
        const AVOID: &str = "node.kubernetes.io/unreachable:NoSchedule";
        const LEAVE_UNREADY: &str = "node.kubernetes.io/not-ready:NoExecute";
        const AVOID_UNREADY: &str = "node.kubernetes.io/not-ready:NoSchedule";
        const CORDONED: &str = "node.kubernetes.io/unschedulable:NoSchedule";
        for (ready, cordoned, before, evict, after) in [
            ("True", false, vec![], Evict::Keep, None),
            ("True", false, vec!["a:NoSchedule"], Evict::Keep, None),
            ("True", true, vec!["a:NoSchedule"], Evict::Keep, Some(vec!["a:NoSchedule", CORDONED])),
            ("True", false, vec![CORDONED, "a:NoSchedule"], Evict::Keep, Some(vec!["a:NoSchedule"])),
            ("Unknown", false, vec![], Evict::Keep, Some(vec![AVOID])),
            ("Unknown", false, vec![AVOID], Evict::Now, Some(vec![AVOID, LEAVE])),
            ("Unknown", false, vec![AVOID, LEAVE], Evict::Keep, None),
            ("Unknown", false, vec![AVOID, LEAVE], Evict::Never, Some(vec![AVOID])),
            ("False", false, vec![AVOID, LEAVE], Evict::Keep, Some(vec![AVOID_UNREADY, LEAVE_UNREADY])),
            ("True", false, vec![AVOID, LEAVE], Evict::Keep, Some(vec![])),
            ("True", false, vec![AVOID, LEAVE], Evict::Now, Some(vec![])),
        ] {
            let now = Timestamp::UNIX_EPOCH;
            let taints = wanted_taints(&node(ready, cordoned, &before), evict, now);
            let taints = taints.map(|taints| -> Vec<String> {
                taints.iter().map(|t| format!("{}:{}", t.taint.key, t.taint.effect)).collect()
            });
            let after = after.map(|after| after.into_iter().map(str::to_owned).collect());
            assert_eq!(taints, after, "{ready} {cordoned} {before:?} {evict:?}");
        }
    }
}
