//! Changes of a cluster.

use berth_api::object::device::{DeviceKind, DeviceObject};
use berth_api::object::{
    Namespace, NamespacedName, Node, ObjectMeta, Pod, PodDisruptionBudget, Service, StringMap, VolumeKind,
    VolumeObject,
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
    AddService(Service),
    RemoveService(NamespacedName),
    AddWorkload(WorkloadSelector),
    /// Adds a pod: running, or pending without a node.
    AddPod(Box<Pod>),
    RelabelPod(NamespacedName, StringMap),
    /// Sets a pod's deletion timestamp.
    TerminatePod(NamespacedName),
    RemovePod(NamespacedName),
    /// Nominates a pending pod to the node in `spec.nodeName`, which may not exist.
    Nominate(Box<Pod>),
    ClearNomination(NamespacedName),
    /// Adds or changes a disruption budget.
    SetBudget(PodDisruptionBudget),
    /// Adds or changes a volume, a claim, or another object that decides about them.
    SetVolumeObject(VolumeObject),
    RemoveVolumeObject(VolumeKind, NamespacedName),
    /// Adds or changes a slice, a class, a claim, or another object that decides about devices.
    SetDeviceObject(DeviceObject),
    RemoveDeviceObject(DeviceKind, NamespacedName),
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
        let named = ObjectMeta::namespaced_name;
        match operation {
            Operation::AddNode(node) => put(&mut self.nodes, node, |n| named(&n.metadata)),
            Operation::UpdateNode(node) => {
                for old in self.nodes.iter_mut().filter(|n| n.metadata.name == node.metadata.name) {
                    *old = (**node).clone();
                }
            }
            Operation::RemoveNode(name) => self.nodes.retain(|n| n.metadata.name != *name),
            Operation::SetNamespace(namespace) => {
                put(&mut self.namespaces, namespace, |n| named(&n.metadata));
            }
            Operation::RemoveNamespace(name) => self.namespaces.retain(|n| n.metadata.name != *name),
            Operation::AddService(service) => put(&mut self.services, service, |s| named(&s.metadata)),
            Operation::RemoveService(key) => self.services.retain(|s| named(&s.metadata) != *key),
            Operation::AddWorkload(workload) => {
                let key = |w: &WorkloadSelector| (w.kind.clone(), w.namespace.clone(), w.name.clone());
                put(&mut self.workloads, workload, key);
            }
            Operation::AddPod(pod) => put(&mut self.pods, pod, |p| named(&p.metadata)),
            Operation::RelabelPod(key, labels) => {
                for pod in self.pods.iter_mut().filter(|p| named(&p.metadata) == *key) {
                    pod.metadata.labels = labels.clone().into();
                }
            }
            Operation::TerminatePod(key) => {
                self.pods.iter_mut().filter(|p| named(&p.metadata) == *key).for_each(objects::terminate);
            }
            Operation::RemovePod(key) => self.pods.retain(|p| named(&p.metadata) != *key),
            Operation::Nominate(pod) => put(&mut self.nominated, pod, |p| named(&p.metadata)),
            Operation::ClearNomination(key) => self.nominated.retain(|p| named(&p.metadata) != *key),
            Operation::SetBudget(budget) => put(&mut self.budgets, budget, |b| named(&b.metadata)),
            Operation::SetVolumeObject(object) => self.storage.set(object.clone()),
            Operation::RemoveVolumeObject(kind, key) => self.storage.remove(*kind, key),
            Operation::SetDeviceObject(object) => self.devices.set(object.clone()),
            Operation::RemoveDeviceObject(kind, key) => self.devices.remove(*kind, key),
            Operation::RollBack(_) | Operation::Bind(_) | Operation::Decide(_) => {}
        }
    }
}

/// Adds an object at the end, in place of the one with the same key.
fn put<T: Clone, K: PartialEq>(list: &mut Vec<T>, object: &T, key: impl Fn(&T) -> K) {
    let new = key(object);
    list.retain(|old| key(old) != new);
    list.push(object.clone());
}
