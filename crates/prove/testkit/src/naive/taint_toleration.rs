//! `TaintToleration`: `NoSchedule` and `NoExecute` taints must be tolerated, `PreferNoSchedule` ones should be.

use berth_api::object::{Node, Pod, Taint, Toleration};

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

/// Whether a pod tolerates a taint.
pub fn is_tolerated(taint: &Taint, pod: &Pod) -> bool {
    pod.spec.tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

/// The first taint of a node that prevents scheduling and that the pod does not tolerate.
pub fn untolerated<'n>(pod: &Pod, node: &'n Node) -> Option<&'n Taint> {
    let mut hard = node.spec.taints.iter().filter(|t| t.effect == "NoSchedule" || t.effect == "NoExecute");
    hard.find(|taint| !is_tolerated(taint, pod))
}

/// Whether the pod tolerates all taints of the node that prevent scheduling.
pub fn tolerates_node(q: Question, node: &Node) -> bool {
    untolerated(q.pod, node).is_none()
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
        soft.filter(|taint| !is_tolerated(taint, q.pod)).count() as i64
    };
    normalize(&feasible.iter().map(|node| untolerated(node)).collect::<Vec<_>>(), true)
}
