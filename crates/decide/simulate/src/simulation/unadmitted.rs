//! Why pods do not run on the node that they name.

use std::collections::HashMap;
use std::fmt;

use berth_api::object::{NamespacedName, Pod};
use berth_engine::NodeRejection;
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
    /// It waits for a claim that is bound once a scheduler has selected a node, which none does.
    Unbound,
}

impl Unadmitted {
    pub(super) fn rejected(node: &str, NodeRejection { reason, message }: NodeRejection) -> Unadmitted {
        let state = UnadmittedState::Rejected;
        Unadmitted { state, node: node.to_owned(), reason: Some(reason), message }
    }

    /// What the node of a failed pod has written to its status, unless a controller replaces the pod.
    pub(super) fn written(pod: &Pod) -> Option<Unadmitted> {
        let (reason, message) = pod.lasting_rejection()?;
        let rejection = NodeRejection { reason: reason.to_owned(), message: message.to_owned() };
        Some(Unadmitted::rejected(&pod.spec.node_name, rejection))
    }

    pub(super) fn waiting(node: &str) -> Unadmitted {
        let message = format!(
            "spec.nodeName: node {node} does not exist: add it, name another node, or remove the field"
        );
        Unadmitted { state: UnadmittedState::Waiting, node: node.to_owned(), reason: None, message }
    }

    pub(super) fn unbound(node: &str, claim: &NamespacedName) -> Unadmitted {
        let message = format!(
            "spec.nodeName: the claim {claim} waits for a scheduler to select a node (volumeBindingMode: WaitForFirstConsumer), \
             and no scheduler decides about a pod that names its node"
        );
        Unadmitted { state: UnadmittedState::Unbound, node: node.to_owned(), reason: None, message }
    }

    /// What its author can do.
    pub(crate) fn hint(&self) -> String {
        let node = &self.node;
        match self.state {
            UnadmittedState::Rejected => format!(
                "remove spec.nodeName, so that a scheduler selects a node; or change the pod or {node} as the reason says"
            ),
            UnadmittedState::Unbound => format!(
                "replace spec.nodeName by spec.nodeSelector {{kubernetes.io/hostname: {node}}}, so that a scheduler selects the node; or name \
                 a volume in spec.volumeName of the claim"
            ),
            UnadmittedState::Waiting => {
                format!(
                    "remove spec.nodeName, so that a scheduler selects a node; or add {node}, or name another node"
                )
            }
        }
    }

    /// The resource, or else the check of the node, that limits the number of such pods.
    pub(crate) fn limit(&self) -> String {
        let reason = self.reason.as_deref().unwrap_or("spec.nodeName");
        reason.strip_prefix("OutOf").unwrap_or(reason).to_owned()
    }

    /// Whether it runs once something else exists.
    pub fn waits(&self) -> bool {
        self.state != UnadmittedState::Rejected
    }

    /// `rejected by kube-01: OutOfcpu`.
    pub fn short(&self) -> String {
        let node = &self.node;
        match (self.state, &self.reason) {
            (UnadmittedState::Unbound, _) => format!("waiting on {node} for a claim that is not bound"),
            (UnadmittedState::Waiting, _) => format!("waiting for node {node}, which does not exist"),
            (UnadmittedState::Rejected, reason) => {
                format!("rejected by {node}: {}", reason.as_deref().unwrap_or_default())
            }
        }
    }
}

impl fmt::Display for Unadmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.state {
            UnadmittedState::Waiting => f.write_str(&self.short()),
            _ => write!(f, "{}: {}", self.short(), self.message),
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

impl NotRunning {
    /// Groups pods by workload, node and reason, in the order of the first of each.
    pub fn group(
        pods: impl IntoIterator<Item = (NamespacedName, Option<String>, Unadmitted)>,
    ) -> Vec<NotRunning> {
        let mut groups: Vec<NotRunning> = Vec::new();
        let mut positions = HashMap::new();
        for (pod, workload, why) in pods {
            let namespace = pod.namespace().to_owned();
            let key =
                (namespace.clone(), workload.clone(), why.node.clone(), (why.state, why.reason.clone()));
            let at = *positions.entry(key).or_insert(groups.len());
            if at == groups.len() {
                groups.push(NotRunning { namespace, workload, why, pods: Vec::new() });
            }
            groups[at].pods.push(pod.to_string());
        }
        groups
    }

    /// The number of pods that their nodes reject, and of those that wait.
    pub fn n_pods(groups: &[NotRunning]) -> [usize; 2] {
        let n = |waits| {
            groups.iter().filter(|group| group.why.waits() == waits).map(|group| group.pods.len()).sum()
        };
        [n(false), n(true)]
    }
}
