//! Pods with `spec.nodeName` that do not run on that node.

use serde::Serialize;

/// Why a pod with `spec.nodeName` does not run on that node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Unadmitted {
    /// What keeps it from running.
    pub state: UnadmittedState,
    /// The node that it names.
    pub node: String,
    /// `status.reason` of a rejected pod, such as `OutOfcpu`.
    pub reason: Option<String>,
    /// `status.message` of a rejected pod, or what is wrong with the name of the node.
    pub message: String,
}

/// What keeps a pod with `spec.nodeName` from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UnadmittedState {
    /// The node rejects it: the pod fails.
    Rejected,
    /// It waits for a node that does not exist.
    Waiting,
}

impl Unadmitted {
    /// `rejected by kube-01: OutOfcpu`.
    pub fn short(&self) -> String {
        match &self.reason {
            Some(reason) => format!("rejected by {}: {reason}", self.node),
            None => format!("waiting for node {}, which does not exist", self.node),
        }
    }
}

/// Pods of one workload, or pods without one, that do not run for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotRunning {
    /// Namespace.
    pub namespace: String,
    /// Kind and name of the workload.
    pub workload: Option<String>,
    /// Why; the message is that of the first pod.
    #[serde(flatten)]
    pub why: Unadmitted,
    /// The pods, `namespace/name`.
    pub pods: Vec<String>,
}
