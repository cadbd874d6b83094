//! Random, reproducible histories of a cluster, for property tests.
//!
//! Values come from small sets (three zones, three apps, five namespaces, ...), so that terms match often. The objects
//! are valid and as admitted, with two exceptions that also occur in real clusters: pods on nodes that do not exist, and
//! namespaces that do not exist.

mod objects;
mod random;
mod settings;
mod terms;
mod volumes;

use berth_api::object::{
    Namespace, NamespacedName, Node, Pod, PodDisruptionBudget, Service, StringMap, VolumeKind, VolumeObject,
};

use berth_api::quantity::Quantity;

use crate::naive::{WorkloadSelector, World};

pub use random::Random;
pub use settings::{options, profile};
pub use volumes::AssumedPlacement;

/// Which rules the generated pods have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Only rules of kube-scheduler.
    V1,
    /// Also the proposals' fields: in the spec, in the annotation, and `Gt`/`Lt` in pod terms.
    Extensions,
    /// Rules of kube-scheduler, fewer between pods, and volumes.
    Volumes,
}

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
    /// Takes back an [`AssumedPlacement`]: the pod goes, and what was assumed about its claims. It is the number modulo
    /// the placements that the test has assumed; a world does not know them.
    RollBack(usize),
    /// Writes what was decided in an [`AssumedPlacement`].
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

/// A history of `len` operations, the same for the same arguments on every machine.
///
/// It starts with some nodes and namespaces; all operations follow in random order, and removed names are reused.
pub fn operations(seed: u64, len: usize, flavour: Flavour) -> Vec<Operation> {
    let mut random = Random::new(seed);
    let mut world = World::default();
    let mut operations = Vec::with_capacity(len);
    let mut n_first = if flavour == Flavour::Volumes { 30 } else { 0 };
    for i in 0..len {
        let operation = match i {
            0..4 => Operation::AddNode(Box::new(node(&mut random, flavour))),
            4..7 => Operation::SetNamespace(objects::namespace(&mut random)),
            _ if n_first > 0 => {
                n_first -= 1;
                volumes::first(&mut random, &world, n_first, i)
            }
            _ if flavour == Flavour::Volumes && random.chance(35) => volumes::change(&mut random, &world, i),
            _ if flavour == Flavour::Volumes && random.chance(8) => match random.chance(50) {
                true => Operation::RollBack(random.below(100)),
                false => Operation::Bind(random.below(100)),
            },
            _ => next(&mut random, &world, flavour, i),
        };
        world.apply(&operation);
        operations.push(operation);
    }
    operations
}

/// In histories with volumes, nodes mostly have room, so that volumes decide; and the labels of a CSI driver.
fn eased(random: &mut Random, flavour: Flavour, mut node: Node) -> Node {
    if flavour == Flavour::Volumes && random.chance(75) {
        node.spec.taints.clear();
        node.spec.unschedulable = false;
        let room = [("cpu", "32"), ("memory", "128Gi"), ("ephemeral-storage", "1Ti"), ("pods", "50")];
        let room = room.map(|(resource, n)| (resource.to_owned(), Quantity::parse(n).expect("a quantity")));
        node.status.allocatable.get_or_insert_default().extend(room);
        let zone = node.metadata.labels.get(terms::ZONE).cloned();
        node.metadata.labels.extend(zone.map(|zone| (volumes::DRIVER_ZONE.to_owned(), zone)));
    }
    node
}

fn node(random: &mut Random, flavour: Flavour) -> Node {
    let node = objects::node(random);
    eased(random, flavour, node)
}

fn pod(random: &mut Random, world: &World, flavour: Flavour, i: usize) -> Pod {
    let mut pod = objects::pod(random, flavour, i);
    if flavour == Flavour::Volumes {
        volumes::draw(random, world, &mut pod);
    }
    pod
}

fn next(random: &mut Random, world: &World, flavour: Flavour, i: usize) -> Operation {
    let draw = random.below(100);
    let pod_key = |random: &mut Random| random.pick(&world.pods).map(|pod| pod.metadata.namespaced_name());
    let operation = match draw {
        0..6 => Some(Operation::AddNode(Box::new(node(random, flavour)))),
        6..13 => {
            let node = random.pick(&world.nodes).cloned();
            node.map(|node| {
                let node = objects::changed_node(random, node);
                Operation::UpdateNode(Box::new(eased(random, flavour, node)))
            })
        }
        13..15 => random.pick(&world.nodes).map(|n| Operation::RemoveNode(n.metadata.name.clone())),
        15..19 => Some(Operation::SetNamespace(objects::namespace(random))),
        19..20 => random.pick(&world.namespaces).map(|n| Operation::RemoveNamespace(n.metadata.name.clone())),
        20..22 => Some(Operation::AddService(objects::service(random))),
        22..23 => {
            let service = random.pick(&world.services).map(|s| s.metadata.clone());
            service.map(|m| Operation::RemoveService(m.namespaced_name()))
        }
        23..25 => Some(Operation::AddWorkload(objects::workload(random))),
        25..33 => pod_key(random).map(Operation::RemovePod),
        33..39 => pod_key(random).map(|key| Operation::RelabelPod(key, objects::pod_labels(random))),
        39..41 => pod_key(random).map(Operation::TerminatePod),
        41..75 => {
            let mut pod = pod(random, world, flavour, i);
            // Some pods are pending, and a few are bound to a node that may not exist.
            let node = random.pick(&world.nodes).map(|n| n.metadata.name.clone());
            pod.spec.node_name = match random.below(20) {
                0 => String::new(),
                1 => objects::node_name(random),
                _ => node.unwrap_or_default(),
            };
            Some(Operation::AddPod(Box::new(pod)))
        }
        75..77 => {
            let mut pod = pod(random, world, flavour, i);
            pod.spec.node_name = objects::node_name(random);
            Some(Operation::Nominate(Box::new(pod)))
        }
        77..78 => {
            random.pick(&world.nominated).map(|p| Operation::ClearNomination(p.metadata.namespaced_name()))
        }
        78..79 => Some(Operation::SetBudget(objects::budget(random))),
        79..81 => random.pick(&world.nominated).cloned().map(|mut pod| {
            pod.spec.node_name.clear();
            Operation::Decide(Box::new(pod))
        }),
        _ => None,
    };
    operation.unwrap_or_else(|| Operation::Decide(Box::new(pod(random, world, flavour, i))))
}
