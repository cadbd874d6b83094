//! Random, reproducible histories of a cluster, for property tests.
//!
//! Everything is drawn from small vocabularies (three zones, three apps, five namespaces, ...), so that
//! pods, nodes and terms meet often. The objects are valid and as admitted, with two exceptions that real
//! clusters have as well: pods on nodes that are not there, and namespaces that do not exist.

mod objects;
mod random;
mod settings;
mod terms;

use berth_api::object::{Namespace, Node, Pod, PodDisruptionBudget, Service, StringMap};

use crate::naive::{WorkloadSelector, World};

pub use random::Random;
pub use settings::{options, profile};

/// Which rules the generated pods carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Only what kube-scheduler knows.
    V1,
    /// The proposals' fields as well: in the spec, in the annotation, and `Gt`/`Lt` in pod terms.
    Extensions,
}

/// One change to a cluster, or one question about it.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// A node appears; pods that name it may be there already.
    AddNode(Box<Node>),
    /// A node's labels, taints, allocatable, images or cordon change.
    UpdateNode(Box<Node>),
    /// A node disappears; its pods stay behind on an unknown node.
    RemoveNode(String),
    /// A namespace appears, or its labels change.
    SetNamespace(Namespace),
    /// A namespace disappears; its pods stay.
    RemoveNamespace(String),
    /// A service appears.
    AddService(Service),
    /// A service disappears.
    RemoveService(PodKey),
    /// A workload's selector becomes known.
    AddWorkload(WorkloadSelector),
    /// A pod appears: running, or waiting when it has no node.
    AddPod(Box<Pod>),
    /// A pod's labels change.
    RelabelPod(PodKey, StringMap),
    /// A pod is being deleted: it has a deletion timestamp from now on.
    TerminatePod(PodKey),
    /// A pod disappears.
    RemovePod(PodKey),
    /// A waiting pod is nominated to the node that `spec.nodeName` names, which may not be there.
    Nominate(Box<Pod>),
    /// A pod's nomination ends.
    ClearNomination(PodKey),
    /// A disruption budget appears, or changes.
    SetBudget(PodDisruptionBudget),
    /// Where does this pod go, which is not in the cluster? The cluster does not change; a test that wants
    /// it there applies [`Operation::AddPod`] with the answer as its node.
    Decide(Box<Pod>),
}

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodKey {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl PodKey {
    /// The key of a pod.
    pub fn of(pod: &Pod) -> Self {
        PodKey { namespace: pod.metadata.namespace.clone(), name: pod.metadata.name.clone() }
    }

    fn is(&self, metadata: &berth_api::object::ObjectMeta) -> bool {
        self.namespace == metadata.namespace && self.name == metadata.name
    }
}

impl World {
    /// Makes a change. What names nothing in the world, changes nothing.
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
            Operation::RemoveService(key) => self.services.retain(|s| !key.is(&s.metadata)),
            Operation::AddWorkload(workload) => {
                let same = |w: &WorkloadSelector| {
                    (&w.kind, &w.namespace, &w.name) == (&workload.kind, &workload.namespace, &workload.name)
                };
                self.workloads.retain(|w| !same(w));
                self.workloads.push(workload.clone());
            }
            Operation::AddPod(pod) => {
                let key = PodKey::of(pod);
                self.pods.retain(|p| !key.is(&p.metadata));
                self.pods.push((**pod).clone());
            }
            Operation::RelabelPod(key, labels) => {
                for pod in self.pods.iter_mut().filter(|p| key.is(&p.metadata)) {
                    pod.metadata.labels = labels.clone();
                }
            }
            Operation::TerminatePod(key) => {
                for pod in self.pods.iter_mut().filter(|p| key.is(&p.metadata)) {
                    objects::terminate(pod);
                }
            }
            Operation::RemovePod(key) => self.pods.retain(|p| !key.is(&p.metadata)),
            Operation::Nominate(pod) => {
                let key = PodKey::of(pod);
                self.nominated.retain(|p| !key.is(&p.metadata));
                self.nominated.push((**pod).clone());
            }
            Operation::ClearNomination(key) => self.nominated.retain(|p| !key.is(&p.metadata)),
            Operation::SetBudget(budget) => {
                let same = |b: &PodDisruptionBudget| {
                    (&b.metadata.namespace, &b.metadata.name)
                        == (&budget.metadata.namespace, &budget.metadata.name)
                };
                self.budgets.retain(|b| !same(b));
                self.budgets.push(budget.clone());
            }
            Operation::Decide(_) => {}
        }
    }
}

/// A history of `len` operations: the same for the same arguments, on every machine.
///
/// It starts with some nodes and namespaces; after that all operations come in any order, and names that
/// were removed come back.
pub fn operations(seed: u64, len: usize, flavour: Flavour) -> Vec<Operation> {
    let mut random = Random::new(seed);
    let mut world = World::default();
    let mut operations = Vec::with_capacity(len);
    for i in 0..len {
        let operation = match i {
            0..4 => Operation::AddNode(Box::new(objects::node(&mut random))),
            4..7 => Operation::SetNamespace(objects::namespace(&mut random)),
            _ => next(&mut random, &world, flavour, i),
        };
        world.apply(&operation);
        operations.push(operation);
    }
    operations
}

fn next(random: &mut Random, world: &World, flavour: Flavour, i: usize) -> Operation {
    let draw = random.below(100);
    let pod_key = |random: &mut Random| random.pick(&world.pods).map(PodKey::of);
    let operation = match draw {
        0..6 => Some(Operation::AddNode(Box::new(objects::node(random)))),
        6..13 => {
            let node = random.pick(&world.nodes).cloned();
            node.map(|node| Operation::UpdateNode(Box::new(objects::changed_node(random, node))))
        }
        13..15 => random.pick(&world.nodes).map(|n| Operation::RemoveNode(n.metadata.name.clone())),
        15..19 => Some(Operation::SetNamespace(objects::namespace(random))),
        19..20 => random.pick(&world.namespaces).map(|n| Operation::RemoveNamespace(n.metadata.name.clone())),
        20..22 => Some(Operation::AddService(objects::service(random))),
        22..23 => {
            let service = random.pick(&world.services).map(|s| s.metadata.clone());
            service.map(|m| Operation::RemoveService(PodKey { namespace: m.namespace, name: m.name }))
        }
        23..25 => Some(Operation::AddWorkload(objects::workload(random))),
        25..33 => pod_key(random).map(Operation::RemovePod),
        33..39 => pod_key(random).map(|key| Operation::RelabelPod(key, objects::pod_labels(random))),
        39..41 => pod_key(random).map(Operation::TerminatePod),
        41..75 => {
            let mut pod = objects::pod(random, flavour, i);
            // Some wait, and a few name a node that may not be there.
            let node = random.pick(&world.nodes).map(|n| n.metadata.name.clone());
            pod.spec.node_name = match random.below(20) {
                0 => String::new(),
                1 => objects::node_name(random),
                _ => node.unwrap_or_default(),
            };
            Some(Operation::AddPod(Box::new(pod)))
        }
        75..77 => {
            let mut pod = objects::pod(random, flavour, i);
            pod.spec.node_name = objects::node_name(random);
            Some(Operation::Nominate(Box::new(pod)))
        }
        77..78 => random.pick(&world.nominated).map(|p| Operation::ClearNomination(PodKey::of(p))),
        78..79 => Some(Operation::SetBudget(objects::budget(random))),
        79..81 => random.pick(&world.nominated).cloned().map(|mut pod| {
            pod.spec.node_name.clear();
            Operation::Decide(Box::new(pod))
        }),
        _ => None,
    };
    operation.unwrap_or_else(|| Operation::Decide(Box::new(objects::pod(random, flavour, i))))
}
