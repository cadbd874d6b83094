//! A node's own judgement of the pods that are bound to it.
//!
//! It is what kubelets check (node affinity and selector, taints that do not execute, resources, host ports), and the
//! proposals' required-during-execution rules whose topology is the node. The rules are the engine's; the state they
//! are judged by holds only the nodes of this process and the pods they have accepted.

use std::hash::{BuildHasher, RandomState};

use berth_api::object::{Namespace, NamespacedName, Node};
use berth_engine::{Cluster, Settings};

use crate::pod::life::Refusal;
use crate::pod::view::PodView;

pub(crate) struct NodeAdmission {
    cluster: Cluster,
    hasher: RandomState,
}

/// Stands for everything of a pod that rules of other pods look at; equal for pods no rule tells apart.
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

    /// Judges a pod against the pods its node has accepted so far.
    pub(crate) fn judge(&mut self, pod: &PodView) -> Result<(), Refusal> {
        let judged = self.cluster.node_admission(&pod.to_placed(), &pod.spec.node_name);
        judged.map_err(|rejection| Refusal { reason: rejection.reason, message: rejection.message })
    }

    /// Counts a pod as accepted, or counts it anew after a change of it.
    pub(crate) fn accept(&mut self, pod: &PodView) -> Fingerprint {
        self.cluster.set_pod(&pod.to_placed());
        self.fingerprint(pod)
    }

    /// Labels can change, and a pod that ends counts for less; requests and rules cannot change.
    pub(crate) fn fingerprint(&self, pod: &PodView) -> Fingerprint {
        let metadata = &pod.metadata;
        Fingerprint(self.hasher.hash_one((&metadata.labels, metadata.deletion_timestamp.is_some())))
    }

    /// The pod has ended or gone.
    pub(crate) fn release(&mut self, pod: &NamespacedName) {
        self.cluster.remove_pod(pod.namespace(), pod.name());
    }
}
