//! Why pods do not run on the node that they name, or are not created.

use std::collections::HashMap;
use std::fmt;

use berth_api::object::{NamespacedName, Pod};
use berth_control::pod_gc::QUARANTINE;
use berth_engine::NodeRejection;
use serde::Serialize;

/// Why a pod with `spec.nodeName` does not run on that node, or why a pod is not created.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Unadmitted {
    /// What keeps it from running.
    pub state: UnadmittedState,
    /// The node that it names; empty for a pod that is not created.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// `status.reason` of a rejected pod, such as `OutOfcpu`; `FailedMount`; the object that refuses a pod that is not created, such as
    /// `ResourceQuota q`.
    pub reason: Option<String>,
    /// `status.message` of a rejected pod, what is wrong with the name of the node, or why the pod is not created.
    pub message: String,
}

/// What keeps a pod from running beside the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum UnadmittedState {
    /// The node rejects it: the pod fails.
    Rejected,
    /// It waits for a node that does not exist.
    Waiting,
    /// It waits for a claim that is bound once a scheduler has selected a node, which none does, or for volumes that its node cannot mount.
    Unbound,
    /// Its controller cannot create it, or waits for another pod.
    NotCreated,
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
            "spec.nodeName: node {node} does not exist, so that the pod is deleted after {} s: add the node, name another one, or remove \
             the field",
            QUARANTINE.as_secs()
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

    /// The kubelet's `FailedMount`.
    pub(super) fn unmounted(node: &str, why: &str) -> Unadmitted {
        let message = format!("spec.nodeName: {node} cannot mount the volumes of the pod: {why}");
        let reason = Some("FailedMount".to_owned());
        Unadmitted { state: UnadmittedState::Unbound, node: node.to_owned(), reason, message }
    }

    pub(super) fn not_created(by: String, message: String) -> Unadmitted {
        Unadmitted { state: UnadmittedState::NotCreated, node: String::new(), reason: Some(by), message }
    }

    pub(super) fn not_created_yet(predecessor: &str) -> Unadmitted {
        let message = format!("waits for {predecessor}");
        Unadmitted { state: UnadmittedState::NotCreated, node: String::new(), reason: None, message }
    }

    /// Whether a StatefulSet creates the pod once those before it are available.
    pub(crate) fn is_created_later(&self) -> bool {
        self.state == UnadmittedState::NotCreated && self.reason.is_none()
    }

    /// What its author can do.
    pub(crate) fn hint(&self) -> String {
        let node = &self.node;
        match self.state {
            UnadmittedState::Rejected => format!(
                "remove spec.nodeName, so that a scheduler selects a node; or change the pod or {node} as the reason says"
            ),
            UnadmittedState::Unbound if self.reason.is_some() => {
                format!("create the claim, or use volumes that {node} can reach; or name another node, or none")
            }
            UnadmittedState::Unbound => format!(
                "replace spec.nodeName by spec.nodeSelector {{kubernetes.io/hostname: {node}}}, so that a scheduler selects the node; or name \
                 a volume in spec.volumeName of the claim"
            ),
            UnadmittedState::Waiting => {
                format!(
                    "remove spec.nodeName, so that a scheduler selects a node; or add {node}, or name another node"
                )
            }
            UnadmittedState::NotCreated => match &self.reason {
                Some(by) => format!("change the {by} of the namespace, or the number and the requests of its pods"),
                None => "a StatefulSet creates a pod when those before it are available: explain the pod that it waits for, or \
                         create the StatefulSet again with spec.podManagementPolicy: Parallel"
                    .to_owned(),
            },
        }
    }

    /// The resource, or else the check of the node, that limits the number of such pods.
    pub(crate) fn limit(&self) -> String {
        let reason = self.reason.as_deref().unwrap_or("spec.nodeName");
        reason.strip_prefix("OutOf").unwrap_or(reason).to_owned()
    }

    /// The state that it is counted under: what waits for a claim waits.
    pub fn counted_as(&self) -> UnadmittedState {
        match self.state {
            UnadmittedState::Unbound => UnadmittedState::Waiting,
            state => state,
        }
    }

    /// `rejected by kube-01: OutOfcpu`.
    pub fn short(&self) -> String {
        let node = &self.node;
        match (self.state, &self.reason) {
            (UnadmittedState::Unbound, Some(_)) => format!("waiting on {node} for its volumes"),
            (UnadmittedState::Unbound, None) => format!("waiting on {node} for a claim that is not bound"),
            (UnadmittedState::Waiting, _) => format!("waiting for node {node}, which does not exist"),
            (UnadmittedState::NotCreated, Some(_)) => "not created".to_owned(),
            (UnadmittedState::NotCreated, None) => format!("not created yet ({})", self.message),
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
            _ if self.is_created_later() => f.write_str(&self.short()),
            _ => write!(f, "{}: {}", self.short(), self.message),
        }
    }
}

/// Pods of one workload, or pods without one, that do not run, or are not created, for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotRunning {
    pub namespace: String,
    /// Kind and name of the workload.
    pub workload: Option<String>,
    /// Why; the message is that of the first pod.
    #[serde(flatten)]
    pub why: Unadmitted,
    /// The pods, `namespace/name`.
    pub pods: Vec<String>,
    /// How many pods the workload is to have, if these are not created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<usize>,
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
                groups.push(NotRunning { namespace, workload, why, pods: Vec::new(), of: None });
            }
            groups[at].pods.push(pod.to_string());
        }
        groups
    }

    /// The number of pods that are counted under a state.
    pub fn n_pods(groups: &[NotRunning], state: UnadmittedState) -> usize {
        groups.iter().filter(|group| group.why.counted_as() == state).map(|group| group.pods.len()).sum()
    }
}
