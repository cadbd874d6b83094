//! Changes of a cluster.

use berth_api::object::{
    Namespace, NamespacedName, Node, Pod, PodDisruptionBudget, Service, StringMap, VolumeKind, VolumeObject,
};

use super::objects;
use crate::naive::{WorkloadSelector, World};

/// A change to a cluster, or a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Adds a node; pods bound to it may already exist.
    AddNode(Box<Node>),
    /// Changes a node's labels, taints, allocatable, images or cordon.
    UpdateNode(Box<Node>),
    /// Removes a node; its pods stay, on an unknown node.
    RemoveNode(String),
    /// Adds a namespace, or changes its labels.
    SetNamespace(Namespace),
    /// Removes a namespace; its pods stay.
    RemoveNamespace(String),
    /// Adds a service.
    AddService(Service),
    /// Removes a service.
    RemoveService(NamespacedName),
    /// Adds a workload's selector.
    AddWorkload(WorkloadSelector),
    /// Adds a pod: running, or pending without a node.
    AddPod(Box<Pod>),
    /// Changes a pod's labels.
    RelabelPod(NamespacedName, StringMap),
    /// Sets a pod's deletion timestamp.
    TerminatePod(NamespacedName),
    /// Removes a pod.
    RemovePod(NamespacedName),
    /// Nominates a pending pod to the node in `spec.nodeName`, which may not exist.
    Nominate(Box<Pod>),
    /// Clears a pod's nomination.
    ClearNomination(NamespacedName),
    /// Adds or changes a disruption budget.
    SetBudget(PodDisruptionBudget),
    /// Adds or changes a volume, a claim, or another object that decides about them.
    SetVolumeObject(VolumeObject),
    /// Removes such an object.
    RemoveVolumeObject(VolumeKind, NamespacedName),
    /// Takes back an [`AssumedPlacement`](super::AssumedPlacement): the pod goes, and what was assumed about its claims. It is the number modulo
    /// the placements that the test has assumed; a world does not know them.
    RollBack(usize),
    /// Writes what was decided in an [`AssumedPlacement`](super::AssumedPlacement).
    Bind(usize),
    /// Decides about a pod that is not in the cluster. The cluster does not change; a test may then apply
    /// [`Operation::AddPod`] with the chosen node.
    Decide(Box<Pod>),
}

impl World {
    /// Applies a change. Operations on unknown objects have no effect.
    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::AddNode(node) => {
                self.nodes.retain(|n| n.metadata.name != node.metadata.name);
                self.nodes.push((**node).clone());
            }
            Operation::UpdateNode(node) => {
                for old in self.nodes.iter_mut().filter(|n| n.metadata.name == node.metadata.name) {
                    *old = (**node).clone();
                }
            }
            Operation::RemoveNode(name) => self.nodes.retain(|n| n.metadata.name != *name),
            Operation::SetNamespace(namespace) => {
                self.namespaces.retain(|n| n.metadata.name != namespace.metadata.name);
                self.namespaces.push(namespace.clone());
            }
            Operation::RemoveNamespace(name) => self.namespaces.retain(|n| n.metadata.name != *name),
            Operation::AddService(service) => {
                self.services.retain(|s| {
                    (&s.metadata.namespace, &s.metadata.name)
                        != (&service.metadata.namespace, &service.metadata.name)
                });
                self.services.push(service.clone());
            }
            Operation::RemoveService(key) => self.services.retain(|s| s.metadata.namespaced_name() != *key),
            Operation::AddWorkload(workload) => {
                let same = |w: &WorkloadSelector| {
                    (&w.kind, &w.namespace, &w.name) == (&workload.kind, &workload.namespace, &workload.name)
                };
                self.workloads.retain(|w| !same(w));
                self.workloads.push(workload.clone());
            }
            Operation::AddPod(pod) => {
                let key = pod.metadata.namespaced_name();
                self.pods.retain(|p| p.metadata.namespaced_name() != key);
                self.pods.push((**pod).clone());
            }
            Operation::RelabelPod(key, labels) => {
                for pod in self.pods.iter_mut().filter(|p| p.metadata.namespaced_name() == *key) {
                    pod.metadata.labels = labels.clone().into();
                }
            }
            Operation::TerminatePod(key) => {
                for pod in self.pods.iter_mut().filter(|p| p.metadata.namespaced_name() == *key) {
                    objects::terminate(pod);
                }
            }
            Operation::RemovePod(key) => self.pods.retain(|p| p.metadata.namespaced_name() != *key),
            Operation::Nominate(pod) => {
                let key = pod.metadata.namespaced_name();
                self.nominated.retain(|p| p.metadata.namespaced_name() != key);
                self.nominated.push((**pod).clone());
            }
            Operation::ClearNomination(key) => {
                self.nominated.retain(|p| p.metadata.namespaced_name() != *key)
            }
            Operation::SetBudget(budget) => {
                let key = budget.metadata.namespaced_name();
                self.budgets.retain(|b| b.metadata.namespaced_name() != key);
                self.budgets.push(budget.clone());
            }
            Operation::SetVolumeObject(object) => self.storage.set(object.clone()),
            Operation::RemoveVolumeObject(kind, key) => self.storage.remove(*kind, key),
            Operation::RollBack(_) | Operation::Bind(_) | Operation::Decide(_) => {}
        }
    }
}
