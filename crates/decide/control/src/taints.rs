//! Taints: how long pods stay on nodes that have them, and those that follow from the state of a node.

use std::borrow::Borrow;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::{NodeSpec, Taint, Toleration, UNSCHEDULABLE_TAINT};
use berth_rules::TolerationRule;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// How long a pod stays on a node; the shorter is the smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stay {
    /// It leaves at once.
    No,
    /// It stays for these seconds, at least one.
    Seconds(i64),
    Forever,
}

/// How long a pod stays on a node with this taint of the effect `NoExecute`. The first toleration of the list that matches counts,
/// whatever a later one says (`GetMatchingTolerations` of kube-controller-manager).
pub fn stay(tolerations: &[Toleration], taint: &Taint, gates: FeatureGates) -> Stay {
    let tolerates = |t: &&Toleration| TolerationRule::parse(t, gates).tolerates(taint);
    match tolerations.iter().find(tolerates).map(|toleration| toleration.toleration_seconds) {
        None => Stay::No,
        Some(None) => Stay::Forever,
        Some(Some(seconds)) if seconds <= 0 => Stay::No,
        Some(Some(seconds)) => Stay::Seconds(seconds),
    }
}

/// The taint with this effect of a node that cannot be reached.
pub fn unreachable(effect: &str) -> Taint {
    let (key, effect) = (UNREACHABLE.to_owned(), effect.to_owned());
    Taint { key, effect, value: String::new() }
}

/// Removes the taints that controllers set by the state of a node: a new one has none of them.
pub fn remove_of_state(node: &mut NodeSpec) {
    node.taints.retain(|taint| !taint.key.starts_with("node.kubernetes.io/"));
}

/// Whether a condition of a node has a status.
type Holds<'a> = &'a dyn Fn(&str, &str) -> bool;

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
pub enum Evict {
    /// Evict: the pods are evicted if the node is not ready.
    Now,
    /// Keep the taints, but remove the eviction taint of a node that is ready again.
    Keep,
    /// Evict no pod: if all nodes are not ready, the controller's own connection is the likely cause.
    Never,
}

/// The taint that evicts pods of a node that is not ready; `None` for a ready node.
pub fn eviction_taint(holds: Holds<'_>) -> Option<&'static str> {
    BY_CONDITION[..2].iter().find(|(kind, value, _)| holds(kind, value)).map(|(_, _, key)| *key)
}

/// Whether a taint evicts pods because their node is not ready.
pub fn is_eviction(taint: &Taint) -> bool {
    taint.effect == "NoExecute" && (taint.key == NOT_READY || taint.key == UNREACHABLE)
}

/// The taints of a node by its state. Other taints and the order are kept.
pub fn wanted<T: Borrow<Taint> + Clone>(
    taints: &[T],
    unschedulable: bool,
    holds: Holds<'_>,
    evict: Evict,
    new: impl Fn(Taint) -> T,
) -> Vec<T> {
    let by_condition = BY_CONDITION.iter().filter(|(kind, value, _)| holds(kind, value));
    let mut wanted: Vec<(&str, &str)> = by_condition.map(|(_, _, key)| (*key, "NoSchedule")).collect();
    if unschedulable {
        wanted.push((UNSCHEDULABLE_TAINT, "NoSchedule"));
    }
    let evicts = match evict {
        Evict::Now => true,
        Evict::Keep => taints.iter().any(|taint| is_eviction(taint.borrow())),
        Evict::Never => false,
    };
    wanted.extend(eviction_taint(holds).filter(|_| evicts).map(|key| (key, "NoExecute")));
    let is_of_state = |taint: &Taint| {
        let mut keys = BY_CONDITION.iter().map(|(_, _, key)| *key).chain([UNSCHEDULABLE_TAINT]);
        is_eviction(taint) || taint.effect == "NoSchedule" && keys.any(|key| taint.key == key)
    };
    let is_wanted = |taint: &Taint| wanted.contains(&(taint.key.as_str(), taint.effect.as_str()));
    let stays = |taint: &&T| !is_of_state((*taint).borrow()) || is_wanted((*taint).borrow());
    let mut all: Vec<T> = taints.iter().filter(stays).cloned().collect();
    for (key, effect) in wanted {
        let is_it = |taint: &T| taint.borrow().key == key && taint.borrow().effect == effect;
        if !all.iter().any(is_it) {
            all.push(new(Taint { key: key.to_owned(), value: String::new(), effect: effect.to_owned() }));
        }
    }
    all
}

/// Sets the taints of a node of which only taints tell the conditions, as the node controller does at once.
pub fn follow(node: &mut NodeSpec) {
    let has = |key: &str| node.taints.iter().any(|taint| taint.key == key);
    let holds = |kind: &str, value: &str| {
        BY_CONDITION.iter().any(|(of, when, key)| (*of, *when) == (kind, value) && has(key))
    };
    node.taints = wanted(&node.taints, node.unschedulable, &holds, Evict::Keep, |taint| taint);
}

/// Sets the taints of a node that cannot be reached.
pub fn taint_unreachable(node: &mut NodeSpec, evicts: bool) {
    let evict = if evicts { Evict::Now } else { Evict::Never };
    let holds = |kind: &str, value: &str| (kind, value) == ("Ready", "Unknown");
    node.taints = wanted(&node.taints, node.unschedulable, &holds, evict, |taint| taint);
}

/// Whether a node has the taint of one that cannot be reached.
pub fn is_unreachable(node: &NodeSpec) -> bool {
    node.taints.iter().any(|taint| taint.key == UNREACHABLE)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_first_matching_toleration_counts() {
        let key = |seconds: Value| json!({"key": "pool", "operator": "Exists", "tolerationSeconds": seconds});
        let any = |seconds: Value| json!({"operator": "Exists", "tolerationSeconds": seconds});
        for (tolerations, expected) in [
            (json!([]), Stay::No),
            (json!([{"key": "other", "operator": "Exists"}]), Stay::No),
            (json!([key(json!(5)), any(Value::Null)]), Stay::Seconds(5)),
            (json!([any(Value::Null), key(json!(5))]), Stay::Forever),
            (json!([key(json!(7)), any(json!(5))]), Stay::Seconds(7)),
            (json!([{"key": "other", "operator": "Exists"}, key(json!(0))]), Stay::No),
        ] {
            let taint = Taint { key: "pool".into(), value: "a".into(), effect: "NoExecute".into() };
            let given: Vec<Toleration> = serde_json::from_value(tolerations.clone()).unwrap();
            assert_eq!(stay(&given, &taint, FeatureGates::default()), expected, "{tolerations}");
        }
    }

    #[test]
    fn taints_match_the_conditions() {
        const LEAVE: &str = "node.kubernetes.io/unreachable:NoExecute";
        const AVOID: &str = "node.kubernetes.io/unreachable:NoSchedule";
        const LEAVE_UNREADY: &str = "node.kubernetes.io/not-ready:NoExecute";
        const AVOID_UNREADY: &str = "node.kubernetes.io/not-ready:NoSchedule";
        const CORDONED: &str = "node.kubernetes.io/unschedulable:NoSchedule";
        for (ready, cordoned, before, evict, after) in [
            ("True", false, vec![], Evict::Keep, vec![]),
            ("True", false, vec!["a:NoSchedule"], Evict::Keep, vec!["a:NoSchedule"]),
            ("True", true, vec!["a:NoSchedule"], Evict::Keep, vec!["a:NoSchedule", CORDONED]),
            ("True", false, vec![CORDONED, "a:NoSchedule"], Evict::Keep, vec!["a:NoSchedule"]),
            ("Unknown", false, vec![], Evict::Keep, vec![AVOID]),
            ("Unknown", false, vec![AVOID], Evict::Now, vec![AVOID, LEAVE]),
            ("Unknown", false, vec![AVOID, LEAVE], Evict::Keep, vec![AVOID, LEAVE]),
            ("Unknown", false, vec![AVOID, LEAVE], Evict::Never, vec![AVOID]),
            ("False", false, vec![AVOID, LEAVE], Evict::Keep, vec![AVOID_UNREADY, LEAVE_UNREADY]),
            ("True", false, vec![AVOID, LEAVE], Evict::Keep, vec![]),
            ("True", false, vec![AVOID, LEAVE], Evict::Now, vec![]),
        ] {
            let parsed = before.iter().map(|taint| taint.split_once(':').unwrap());
            let parsed: Vec<Taint> = parsed
                .map(|(key, effect)| Taint { key: key.into(), effect: effect.into(), value: String::new() })
                .collect();
            let holds = |kind: &str, value: &str| (kind, value) == ("Ready", ready);
            let taints = wanted(&parsed, cordoned, &holds, evict, |taint| taint);
            let taints: Vec<_> = taints.iter().map(|t| format!("{}:{}", t.key, t.effect)).collect();
            assert_eq!(taints, after, "{ready} {cordoned} {before:?} {evict:?}");
        }
    }

    #[test]
    fn cordons_that_a_file_has_without_their_taint_get_it() {
        let mut node = NodeSpec { unschedulable: true, ..NodeSpec::default() };
        for (cordoned, n_taints) in [(true, 1), (true, 1), (false, 0)] {
            node.unschedulable = cordoned;
            follow(&mut node);
            assert_eq!(node.taints.len(), n_taints);
        }
        // Of an unreachable node, as `--taint` sets it.
        node.taints.push(unreachable("NoExecute"));
        follow(&mut node);
        assert_eq!(node.taints, [unreachable("NoExecute"), unreachable("NoSchedule")]);
    }
}
