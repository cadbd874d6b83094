//! `TaintToleration`: `NoSchedule` and `NoExecute` taints must be tolerated, `PreferNoSchedule` ones should be.

use berth_api::object::{Node, Taint, Toleration};

use super::{Code, Question, Verdict, normalize, reject};

/// Whether a toleration covers a taint. An empty key or effect covers every one.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.is_empty() || toleration.key == taint.key;
    let effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let value = match toleration.operator.as_str() {
        "" | "Equal" => toleration.value == taint.value,
        "Exists" => true,
        _ => false,
    };
    key && effect && value
}

/// Whether the pod tolerates all taints of the node that prevent scheduling.
pub fn tolerates_node(q: Question, node: &Node) -> bool {
    let hard = node.spec.taints.iter().filter(|t| t.effect == "NoSchedule" || t.effect == "NoExecute");
    hard.into_iter().all(|taint| q.pod.spec.tolerations.iter().any(|t| tolerates(t, taint)))
}

pub fn filter(q: Question, node: &Node) -> Verdict {
    if tolerates_node(q, node) {
        Ok(())
    } else {
        reject(Code::UnschedulableAndUnresolvable, "node(s) had untolerated taint(s)")
    }
}

pub fn score(q: Question, feasible: &[&Node]) -> Vec<i64> {
    let untolerated = |node: &Node| {
        let soft = node.spec.taints.iter().filter(|t| t.effect == "PreferNoSchedule");
        soft.filter(|taint| !q.pod.spec.tolerations.iter().any(|t| tolerates(t, taint))).count() as i64
    };
    normalize(&feasible.iter().map(|node| untolerated(node)).collect::<Vec<_>>(), true)
}
