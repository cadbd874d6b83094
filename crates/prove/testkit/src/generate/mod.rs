//! Random, reproducible histories of a cluster, for property tests.
//!
//! Values come from small sets (three zones, three apps, five namespaces, ...), so that terms match often. The objects
//! are valid and as admitted, with two exceptions that also occur in real clusters: pods on nodes that do not exist, and
//! namespaces that do not exist.

mod devices;
mod flavour;
mod names;
mod objects;
mod operation;
mod random;
mod settings;
mod terms;
mod volumes;

use berth_api::object::{Node, Pod};

use crate::naive::World;

pub use devices::written as written_claims;
pub use flavour::Flavour;
pub use operation::Operation;
pub use random::{Random, seeds};
pub use settings::{options, profile};
pub use volumes::AssumedPlacement;

/// A history of `len` operations, the same for the same arguments on every machine.
///
/// It starts with some nodes and namespaces; all operations follow in random order, and removed names are reused.
pub fn operations(seed: u64, len: usize, flavour: Flavour) -> Vec<Operation> {
    let mut random = Random::new(seed);
    let mut world = World::default();
    let mut operations = Vec::with_capacity(len);
    let mut n_first = if flavour.has_objects() { 30 } else { 0 };
    for i in 0..len {
        let operation = match i {
            0..4 => Operation::AddNode(Box::new(node(&mut random, flavour))),
            4..7 => Operation::SetNamespace(objects::namespace(&mut random)),
            _ if n_first > 0 => {
                n_first -= 1;
                match flavour {
                    Flavour::Devices => devices::first(&mut random, &world, n_first),
                    _ => volumes::first(&mut random, &world, n_first, i),
                }
            }
            _ if flavour == Flavour::Devices && random.chance(35) => devices::change(&mut random, &world, i),
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

/// In histories with volumes or devices, nodes mostly have room, so that those decide; and the labels of a CSI driver.
fn eased(random: &mut Random, flavour: Flavour, mut node: Node) -> Node {
    if flavour.has_objects() && random.chance(75) {
        node.spec.taints.clear();
        node.spec.unschedulable = false;
        let room = [("cpu", "32"), ("memory", "128Gi"), ("ephemeral-storage", "1Ti"), ("pods", "50")];
        let room = room.map(|(resource, n)| (resource.to_owned(), objects::quantity(n)));
        node.status.allocatable.get_or_insert_default().extend(room);
        let zone = node.metadata.labels.get(names::ZONE).cloned();
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
    match flavour {
        Flavour::Volumes => volumes::draw(random, world, &mut pod),
        Flavour::Devices => devices::draw(random, world, &mut pod),
        Flavour::V1 | Flavour::Extensions => {}
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
                1 => names::node_name(random),
                _ => node.unwrap_or_default(),
            };
            Some(Operation::AddPod(Box::new(pod)))
        }
        75..77 => {
            let mut pod = pod(random, world, flavour, i);
            pod.spec.node_name = names::node_name(random);
            // Only pods that are bound have it.
            pod.status.node_allocatable_resource_claim_statuses = Default::default();
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
