//! `NodeName`: a pod with `spec.nodeName` fits only on that node.

use berth_api::object::Node;

use super::{Code, Question, Verdict, reject};

pub fn filter(q: Question, node: &Node) -> Verdict {
    if q.pod.spec.node_name.is_empty() || q.pod.spec.node_name == node.metadata.name {
        Ok(())
    } else {
        reject(Code::UnschedulableAndUnresolvable, "node(s) didn't match the requested node name")
    }
}
