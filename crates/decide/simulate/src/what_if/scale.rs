//! The number of replicas of a workload.

use std::collections::{BTreeMap, HashMap, HashSet};

use berth_api::object::{NamespacedName, Pod};
use berth_api::read::Kind;
use berth_input::expand::{DesiredReplicas, changes_template};
use berth_input::inventory::{Entry, Inventory, Workload, WorkloadSpec};
use jiff::Timestamp;

use super::departures::Departures;
use super::error::ChangeError;
use crate::simulation::workloads::Workloads;
use crate::simulation::{recreate, replica};

/// Sets the number of replicas. The expansion creates missing pods; too many are removed here.
pub(super) fn scale(
    inventory: &mut Inventory,
    departures: &mut Departures,
    kind: Kind,
    name: &NamespacedName,
    n_replicas: u16,
    now: Timestamp,
) -> Result<(), ChangeError> {
    let Some(workload) = workload_mut(inventory, kind, name) else {
        return scale_without_template(inventory, departures, kind, name, n_replicas, now);
    };
    let object = workload.to_string();
    if let Some(owner) = workload.metadata().controller() {
        return Err(ChangeError::Controlled { object, owner: format!("{} {}", owner.kind, owner.name) });
    }
    *replicas_mut(workload).ok_or(ChangeError::NoReplicas { object })? = Some(i32::from(n_replicas));
    scale_replaced(inventory, departures, kind, name, now);
    Ok(())
}

fn workload_mut<'a>(
    inventory: &'a mut Inventory,
    kind: Kind,
    name: &NamespacedName,
) -> Option<&'a mut Workload> {
    let mut workloads = inventory.workloads.iter_mut().map(|entry| &mut entry.object);
    workloads.find(|workload| is_named(workload, kind, name))
}

fn is_named(workload: &Workload, kind: Kind, name: &NamespacedName) -> bool {
    workload.kind() == kind && workload.metadata().namespaced_name() == *name
}

/// `spec.replicas`, if the kind has it.
pub(crate) fn replicas_mut(workload: &mut Workload) -> Option<&mut Option<i32>> {
    match &mut workload.spec {
        WorkloadSpec::Deployment(w) | WorkloadSpec::ReplicaSet(w) | WorkloadSpec::StatefulSet(w) => {
            Some(&mut w.spec.replicas)
        }
        WorkloadSpec::ReplicationController(w) => Some(&mut w.spec.replicas),
        WorkloadSpec::DaemonSet(_) | WorkloadSpec::Job(_) | WorkloadSpec::CronJob(_) => None,
    }
}

/// The positions of the pods that count as replicas of a workload, in [`Inventory::pods`].
pub(crate) fn replicas_of(inventory: &Inventory, kind: Kind, name: &NamespacedName) -> Vec<usize> {
    let workloads = Workloads::new(inventory);
    let workload = format!("{} {}", kind.name(), name.name());
    let is_replica = |pod: &Pod| {
        pod.metadata.namespace == name.namespace()
            && !pod.is_terminal()
            && !pod.metadata.is_deleting()
            && workloads.owner(pod).is_some_and(|owner| owner == workload)
    };
    let pods = inventory.pods.iter().enumerate();
    pods.filter(|(_, entry)| is_replica(&entry.object)).map(|(i, _)| i).collect()
}

/// Removes the pods that the controller deletes because it has more than `spec.replicas`. The controller of a Deployment scales before
/// it changes pods: with a new template and more replicas, it first creates pods of the earlier template.
pub(super) fn scale_replaced(
    inventory: &mut Inventory,
    departures: &mut Departures,
    kind: Kind,
    name: &NamespacedName,
    now: Timestamp,
) {
    let mut workloads = inventory.workloads.iter().map(|entry| &entry.object);
    let Some(workload) = workloads.find(|workload| is_named(workload, kind, name)) else { return };
    let Some(n_replicas) = DesiredReplicas::new(inventory).of(workload) else { return };
    let n_replicas = usize::try_from(n_replicas).unwrap_or(0);
    if kind == Kind::Deployment && changes_template(workload) {
        let pods = replicas_of(inventory, kind, name);
        let owner =
            |i: &usize| inventory.pods[*i].object.metadata.controller().map(|owner| owner.name.clone());
        let mut sets: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        pods.iter().for_each(|i| sets.entry(owner(i)).or_default().push(*i));
        // The largest ReplicaSet grows.
        if let Some((set, of_set)) = sets.iter().max_by_key(|(_, pods)| pods.len()) {
            let set = set.as_deref().unwrap_or(name.name()).to_owned();
            add_copies(inventory, of_set[0], n_replicas.saturating_sub(pods.len()), &set);
        }
    }
    delete_down_to(inventory, departures, kind, name, n_replicas, now);
}

/// Adds pending pods like the one at this position.
fn add_copies(inventory: &mut Inventory, position: usize, n: usize, name: &str) {
    let template = Entry { order: usize::MAX, ..inventory.pods[position].clone() };
    let node = &template.object.spec.node_name;
    let node = inventory.nodes.iter().find(|entry| entry.object.metadata.name == *node);
    let node = node.map(|entry| entry.object.clone());
    let pods = inventory.pods.iter().map(|entry| &entry.object.metadata);
    let pods = pods.filter(|pod| pod.namespace == template.object.metadata.namespace);
    let taken: HashSet<&str> = pods.map(|pod| pod.name.as_str()).collect();
    let names =
        (1..).map(|i| format!("{name}-new-{i}")).filter(|name| !taken.contains(name.as_str())).take(n);
    for name in names.collect::<Vec<_>>() {
        let mut entry = template.clone();
        entry.object.metadata.name = name;
        entry.object.metadata.uid.clear();
        entry.object.metadata.creation_timestamp = None;
        recreate(&mut entry.object, node.as_ref());
        entry.object.status.resource_claim_statuses.clear();
        inventory.pods.push(entry);
    }
}

fn delete_down_to(
    inventory: &mut Inventory,
    departures: &mut Departures,
    kind: Kind,
    name: &NamespacedName,
    n_replicas: usize,
    now: Timestamp,
) {
    let mut pods = replicas_of(inventory, kind, name);
    let n_surplus = pods.len().saturating_sub(n_replicas);
    if n_surplus == 0 {
        return;
    }
    let pod = |i: usize| &inventory.pods[i].object;
    if kind == Kind::StatefulSet {
        let ordinal = |i: usize| pod(i).metadata.name.rsplit('-').next().and_then(|n| n.parse::<u64>().ok());
        pods.sort_by_key(|i| std::cmp::Reverse(ordinal(*i)));
    } else {
        let mut on_node: HashMap<&str, usize> = HashMap::new();
        pods.iter().for_each(|i| *on_node.entry(&pod(*i).spec.node_name).or_default() += 1);
        let replica = |i: usize| {
            let node = pod(i).spec.node_name.as_str();
            replica(pod(i), !node.is_empty(), on_node[node])
        };
        pods.sort_by(|a, b| replica(*a).deletion_order(&replica(*b), now));
    }
    pods.truncate(n_surplus);
    departures.scaled_down.extend(pods.iter().map(|i| pod(*i).metadata.namespaced_name()));
    let deleted: HashSet<usize> = pods.into_iter().collect();
    let mut i = 0..;
    inventory.pods.retain(|_| i.next().is_none_or(|i| !deleted.contains(&i)));
}

/// Scales a workload of which the input has only pods: new ones are copies of an existing one.
fn scale_without_template(
    inventory: &mut Inventory,
    departures: &mut Departures,
    kind: Kind,
    name: &NamespacedName,
    n_replicas: u16,
    now: Timestamp,
) -> Result<(), ChangeError> {
    let pods = replicas_of(inventory, kind, name);
    let Some(first) = pods.first() else {
        return Err(ChangeError::no_workload(inventory, kind, name));
    };
    let n_replicas = DesiredReplicas::new(inventory).bounded(kind, name, i32::from(n_replicas));
    let n_replicas = usize::try_from(n_replicas).unwrap_or(0);
    add_copies(inventory, *first, n_replicas.saturating_sub(pods.len()), name.name());
    delete_down_to(inventory, departures, kind, name, n_replicas, now);
    Ok(())
}
