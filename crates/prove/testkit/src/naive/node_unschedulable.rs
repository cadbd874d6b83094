//! `NodeUnschedulable`: cordoned nodes accept only pods that tolerate it.

use berth_api::object::{Node, Taint};

use super::{Code, Question, Verdict, reject, taint_toleration};

pub fn filter(q: Question, node: &Node) -> Verdict {
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        value: String::new(),
        effect: "NoSchedule".to_owned(),
    };
    if !node.spec.unschedulable
        || q.pod.spec.tolerations.iter().any(|t| taint_toleration::tolerates(t, &cordon, false))
    {
        Ok(())
    } else {
        reject(Code::UnschedulableAndUnresolvable, "node(s) were unschedulable")
    }
}
