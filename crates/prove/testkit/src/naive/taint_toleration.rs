//! `TaintToleration`: `NoSchedule` and `NoExecute` taints must be tolerated, `PreferNoSchedule` ones should be.

use berth_api::object::{Node, Pod, Taint, Toleration};

use super::{Code, Question, Verdict, normalize, reject};

/// The integer in a value, as it is usually written: no sign but a minus, no zero in front.
fn integer(value: &str) -> Option<i64> {
    value.parse().ok().filter(|number: &i64| number.to_string() == value)
}

/// Whether a toleration covers a taint. An empty key or effect covers every one. `compares`: whether `Gt` and `Lt` are known,
/// which cover values that are greater and less than the toleration's.
pub fn tolerates(toleration: &Toleration, taint: &Taint, compares: bool) -> bool {
    let integers = integer(&taint.value).zip(integer(&toleration.value)).filter(|_| compares);
    let key = toleration.key.is_empty() || toleration.key == taint.key;
    let effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let value = match toleration.operator.as_str() {
        "" | "Equal" => toleration.value == taint.value,
        "Exists" => true,
        "Gt" => integers.is_some_and(|(taint, bound)| taint > bound),
        "Lt" => integers.is_some_and(|(taint, bound)| taint < bound),
        _ => false,
    };
    key && effect && value
}

pub fn is_tolerated(taint: &Taint, pod: &Pod, compares: bool) -> bool {
    pod.spec.tolerations.iter().any(|toleration| tolerates(toleration, taint, compares))
}

/// The first taint of a node that prevents scheduling and that the pod does not tolerate.
pub fn untolerated<'n>(pod: &Pod, node: &'n Node, compares: bool) -> Option<&'n Taint> {
    let mut hard = node.spec.taints.iter().filter(|t| t.effect == "NoSchedule" || t.effect == "NoExecute");
    hard.find(|taint| !is_tolerated(taint, pod, compares))
}

fn compares(q: Question) -> bool {
    q.options.feature_gates.taint_toleration_comparison_operators
}

/// Whether the pod tolerates all taints of the node that prevent scheduling.
pub fn tolerates_node(q: Question, node: &Node) -> bool {
    untolerated(q.pod, node, compares(q)).is_none()
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
        soft.filter(|taint| !is_tolerated(taint, q.pod, compares(q))).count() as i64
    };
    normalize(&feasible.iter().map(|node| untolerated(node)).collect::<Vec<_>>(), true)
}
