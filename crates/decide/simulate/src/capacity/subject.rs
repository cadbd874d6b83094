//! The pod whose replicas are counted, and the cluster without its pending replicas.

use std::collections::{BTreeMap, HashSet};

use berth_api::object::{NamespacedName, ObjectMeta, Pod};
use berth_api::read::Kind;
use berth_control::expand::autoscaler_target;
use berth_input::inventory::{Entry, Inventory, WorkloadSpec};

use super::error::CapacityError;
use super::room::Room;
use crate::simulation::{SimulatedPod, Simulation, SimulationOptions, recreate, workloads};
use crate::what_if::ChangeError;
use crate::what_if::scale::{replicas_mut, replicas_of};

/// What has replicas.
#[derive(Clone, Debug)]
pub enum Subject {
    Workload(Kind, NamespacedName),
    /// A pod that is not in the input.
    Pod(Box<Entry<Pod>>),
}

/// Where the next replicas come from.
enum Origin {
    /// The expansion of the workload at this position.
    Workload(usize),
    /// Copies of a pod.
    Pod(Box<Entry<Pod>>),
}

pub(super) struct Prepared {
    origin: Origin,
    /// Whether every replica has its own claims.
    pub(super) has_claims: bool,
    /// Replicas in the input with a node.
    assigned: HashSet<NamespacedName>,
}

impl Subject {
    /// Finds it, and removes its pending replicas from the input.
    pub(super) fn prepare(&self, inventory: &mut Inventory) -> Result<Prepared, ChangeError> {
        let (kind, name) = match self {
            Subject::Pod(entry) => {
                let origin = Origin::Pod(entry.clone());
                return Ok(Prepared { origin, has_claims: false, assigned: HashSet::new() });
            }
            Subject::Workload(kind, name) => (*kind, name),
        };
        let replicas = replicas_of(inventory, kind, name);
        let model = replicas.first().map(|i| inventory.pods[*i].clone());
        let is_assigned = |i: &usize| !inventory.pods[*i].object.spec.node_name.is_empty();
        let (assigned, pending): (HashSet<usize>, HashSet<usize>) =
            replicas.into_iter().partition(is_assigned);
        let name_of = |i: usize| inventory.pods[i].object.metadata.namespaced_name();
        let assigned = assigned.into_iter().map(name_of).collect();
        let mut i = 0..;
        inventory.pods.retain(|_| i.next().is_none_or(|i| !pending.contains(&i)));
        let workloads = inventory.workloads.iter_mut().map(|entry| &mut entry.object);
        let position = workloads
            .enumerate()
            .find(|(_, workload)| workload.kind() == kind && workload.metadata().namespaced_name() == *name);
        match (position, model) {
            (Some((position, workload)), _) => {
                let object = workload.to_string();
                let has_claims = match &workload.spec {
                    WorkloadSpec::StatefulSet(set) => !set.spec.volume_claim_templates.is_empty(),
                    _ => false,
                };
                replicas_mut(workload).ok_or(ChangeError::NoReplicas { object })?;
                Ok(Prepared { origin: Origin::Workload(position), has_claims, assigned })
            }
            (None, Some(mut model)) => {
                let node = model.object.spec.node_name.clone();
                let node = inventory.nodes.iter().find(|entry| entry.object.metadata.name == node);
                recreate(&mut model.object, node.map(|entry| &entry.object));
                model.object.status.resource_claim_statuses.clear();
                model.object.metadata.uid.clear();
                model.object.metadata.name = format!("{}-new", name.name());
                let origin = Origin::Pod(Box::new(model));
                Ok(Prepared { origin, has_claims: false, assigned })
            }
            (None, None) => Err(ChangeError::no_workload(inventory, kind, name)),
        }
    }
}

impl Prepared {
    /// The cluster with this number of pending replicas, and with the pending pods of others placed.
    pub(super) fn room(
        &self,
        mut inventory: Inventory,
        options: SimulationOptions,
        n_replicas: usize,
    ) -> Result<Room, CapacityError> {
        let given: HashSet<_> = inventory.pods.iter().map(|e| e.object.metadata.namespaced_name()).collect();
        let (namespace, name) = match &self.origin {
            Origin::Workload(position) => {
                let n_wanted = i32::try_from(self.assigned.len() + n_replicas).unwrap_or(i32::MAX);
                let entry = &mut inventory.workloads[*position];
                // At the node that their template names, they arrive after all others.
                if entry.object.template_node_name().is_some() {
                    entry.order = usize::MAX;
                }
                let workload = &mut entry.object;
                replicas_mut(workload).into_iter().for_each(|replicas| *replicas = Some(n_wanted));
                // The question is how many fit, not how many there may be.
                let (kind, name) = (workload.kind(), workload.metadata().namespaced_name());
                let workload = workloads::name(workload);
                inventory.horizontal_pod_autoscalers.retain(|Entry { object, .. }| {
                    object.metadata.namespace != name.namespace()
                        || autoscaler_target(object) != Some((kind, name.name()))
                });
                (name.namespace().to_owned(), workload)
            }
            Origin::Pod(entry) => {
                let mut entry = Entry { order: usize::MAX, ..Entry::clone(entry) };
                if !entry.object.awaits_node_admission() {
                    entry.object.spec.node_name.clear();
                }
                while given.contains(&entry.object.metadata.namespaced_name()) {
                    entry.object.metadata.name += "-new";
                }
                let ObjectMeta { namespace, name, .. } = entry.object.metadata.clone();
                inventory.pods.push(entry);
                (namespace, name)
            }
        };
        let is_replica = |pod: &SimulatedPod| {
            let metadata = &pod.pod.metadata;
            metadata.namespace == namespace
                && match &self.origin {
                    Origin::Pod(_) => metadata.name == name,
                    Origin::Workload(_) => {
                        pod.workload.as_ref() == Some(&name) && !given.contains(&metadata.namespaced_name())
                    }
                }
        };
        let mut simulation = Simulation::new(inventory, options)?;
        simulation.disable_preemption();
        let positions: Vec<_> =
            (0..simulation.pods.len()).filter(|i| is_replica(&simulation.pods[*i])).collect();
        simulation.take_back_creation(&positions);
        let replicas: Vec<Pod> = positions.iter().map(|i| simulation.pods[*i].pod.clone()).collect();
        let node = replicas.first().map(|pod| pod.spec.node_name.clone()).filter(|node| !node.is_empty());
        if node.is_some() {
            positions.into_iter().for_each(|i| simulation.take_back_arrival(i));
        }
        simulation.run_only(|pod| !is_replica(pod));
        let is_running = |name: &&NamespacedName| {
            simulation.pod(name.namespace(), name.name()).is_some_and(|pod| pod.node().is_some())
        };
        let n_running = self.assigned.iter().filter(is_running).count();
        let cluster = simulation.cluster();
        let prepared = replicas.iter().map(|pod| cluster.prepare(pod)).collect();
        Ok(Room {
            simulation,
            replicas,
            prepared,
            has_claims: self.has_claims,
            with_devices: BTreeMap::new(),
            node,
            daemons: Vec::new(),
            n_running,
        })
    }
}
