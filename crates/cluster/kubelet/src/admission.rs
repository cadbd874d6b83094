//! Node admission: a node checks the pods that are bound to it.
//!
//! It checks what a kubelet checks (operating system, resources, node affinity and selector, host ports, `NoExecute` taints), and the
//! proposals' required-during-execution rules whose topology is the node. The engine evaluates the rules; its state here
//! holds only the nodes of this process and the pods that they have accepted.

use std::hash::{BuildHasher, RandomState};

use berth_api::object::{Namespace, NamespacedName, Node};
use berth_engine::{Cluster, Settings};

use crate::pod::rejection::Rejection;
use crate::pod::view::PodView;

pub(crate) struct NodeAdmission {
    cluster: Cluster,
    hasher: RandomState,
}

/// Hash of the mutable fields of a pod that rules of other pods read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

impl NodeAdmission {
    pub(crate) fn new(settings: Settings) -> Self {
        NodeAdmission { cluster: Cluster::new(settings), hasher: RandomState::new() }
    }

    pub(crate) fn set_namespace(&mut self, namespace: &Namespace) {
        self.cluster.set_namespace(namespace);
    }

    pub(crate) fn remove_namespace(&mut self, name: &str) {
        self.cluster.remove_namespace(name);
    }

    pub(crate) fn set_node(&mut self, node: &Node) {
        self.cluster.set_node(node);
    }

    pub(crate) fn remove_node(&mut self, name: &str) {
        self.cluster.remove_node(name);
    }

    /// Checks a pod against its node and the pods that the node has accepted so far.
    pub(crate) fn check(&mut self, pod: &PodView) -> Result<(), Rejection> {
        let prepared = self.cluster.prepare(&pod.to_placed());
        let admission = self.cluster.node_admission(&prepared, &pod.spec.node_name);
        admission.map_err(|rejection| Rejection { reason: rejection.reason, message: rejection.message })
    }

    /// Adds an accepted pod to the state, or updates it there.
    pub(crate) fn accept(&mut self, pod: &PodView) -> Fingerprint {
        self.cluster.set_pod(&pod.to_placed());
        self.fingerprint(pod)
    }

    /// The fingerprint covers labels and deletion: requests and rules of a bound pod are immutable.
    pub(crate) fn fingerprint(&self, pod: &PodView) -> Fingerprint {
        let metadata = &pod.metadata;
        Fingerprint(self.hasher.hash_one((&metadata.labels, metadata.deletion_timestamp.is_some())))
    }

    /// Removes a pod that has ended or is deleted.
    pub(crate) fn release(&mut self, pod: &NamespacedName) {
        self.cluster.remove_pod(pod.namespace(), pod.name());
    }
}
