//! Taints: how long pods stay on nodes that have them, and the one of cordoned nodes.

use berth_api::feature_gates::FeatureGates;
use berth_api::object::{NodeSpec, Taint, Toleration, UNSCHEDULABLE_TAINT};
use berth_rules::TolerationRule;

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
    let (key, effect) = ("node.kubernetes.io/unreachable".to_owned(), effect.to_owned());
    Taint { key, effect, value: String::new() }
}

/// Removes the taints that controllers set by the state of a node: a new one has none of them.
pub fn remove_of_state(node: &mut NodeSpec) {
    node.taints.retain(|taint| !taint.key.starts_with("node.kubernetes.io/"));
}

/// Sets the taints of a node that cannot be reached.
pub fn taint_unreachable(node: &mut NodeSpec) {
    for taint in ["NoSchedule", "NoExecute"].map(unreachable) {
        if !node.taints.contains(&taint) {
            node.taints.push(taint);
        }
    }
}

/// Sets or removes the taint of a cordoned node, as the node controller does at once.
pub fn taint_cordoned(node: &mut NodeSpec) {
    let is_cordon = |taint: &Taint| taint.key == UNSCHEDULABLE_TAINT && taint.effect == "NoSchedule";
    if !node.unschedulable {
        node.taints.retain(|taint| !is_cordon(taint));
    } else if !node.taints.iter().any(is_cordon) {
        let (key, effect) = (UNSCHEDULABLE_TAINT.to_owned(), "NoSchedule".to_owned());
        node.taints.push(Taint { key, effect, value: String::new() });
    }
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
    fn cordoned_nodes_have_the_taint_once() {
        let mut node = NodeSpec { unschedulable: true, ..NodeSpec::default() };
        taint_cordoned(&mut node);
        taint_cordoned(&mut node);
        assert_eq!(node.taints.len(), 1);
        node.unschedulable = false;
        taint_cordoned(&mut node);
        assert_eq!(node.taints, []);
    }
}
