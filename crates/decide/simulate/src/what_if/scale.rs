//! The number of replicas of a workload.

use std::collections::{BTreeMap, HashMap, HashSet};

use berth_api::object::{NamespacedName, Pod};
use berth_api::read::Kind;
use berth_control::budget::Budget;
use berth_control::deployment::{self, SetSize, plan};
use berth_control::expand::{DesiredReplicas, changes_template, has_template_of};
use berth_control::replica_set::DeletionOrder;
use berth_input::inventory::{Entry, Inventory, Workload, WorkloadSpec};
use jiff::Timestamp;

use super::error::ChangeError;
use crate::simulation::workloads::Workloads;
use crate::simulation::{UpdateRule, ordinal, recreate, replica, replica_sets};

/// What workloads are scaled by, by kind, namespace and name.
pub(super) type Specs = HashMap<(Kind, NamespacedName), deployment::Spec>;

/// What the workloads of an input are scaled by.
pub(super) fn specs(inventory: &Inventory) -> Specs {
    let desired = DesiredReplicas::new(inventory);
    let spec =
        |workload: &Workload| Some(UpdateRule::of(workload).deployment_spec(desired.of(workload)?.max(0)));
    let workloads = inventory.workloads.iter().map(|entry| &entry.object);
    workloads.filter_map(|workload| Some((key(workload), spec(workload)?))).collect()
}

fn key(workload: &Workload) -> (Kind, NamespacedName) {
    (workload.kind(), workload.metadata().namespaced_name())
}

/// Sets the number of replicas. The expansion creates missing pods; too many are removed here.
pub(super) fn scale(
    inventory: &mut Inventory,
    kind: Kind,
    name: &NamespacedName,
    n_replicas: u16,
    now: Timestamp,
) -> Result<(), ChangeError> {
    let before = specs(inventory);
    let mut workloads = inventory.workloads.iter_mut().map(|entry| &mut entry.object);
    let Some(workload) = workloads.find(|workload| key(workload) == (kind, name.clone())) else {
        return scale_without_template(inventory, kind, name, n_replicas, now);
    };
    let object = workload.to_string();
    if let Some(owner) = workload.metadata().controller() {
        return Err(ChangeError::Controlled { object, owner: format!("{} {}", owner.kind, owner.name) });
    }
    *replicas_mut(workload).ok_or(ChangeError::NoReplicas { object })? = Some(i32::from(n_replicas));
    scale_changed(inventory, &before, now);
    Ok(())
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
    let workload = (name.namespace().to_owned(), format!("{} {}", kind.name(), name.name()));
    replicas(inventory, |of| *of == workload).remove(&workload).unwrap_or_default()
}

/// The positions of the pods that count as replicas of the selected workloads, by namespace, and kind and name.
fn replicas(
    inventory: &Inventory,
    is_selected: impl Fn(&(String, String)) -> bool,
) -> HashMap<(String, String), Vec<usize>> {
    let workloads = Workloads::new(inventory);
    let mut replicas: HashMap<_, Vec<usize>> = HashMap::new();
    for (i, pod) in inventory.pods.iter().map(|entry| &entry.object).enumerate() {
        if let Some(owner) =
            workloads.owner(pod).filter(|_| !pod.is_terminal() && !pod.metadata.is_deleting())
        {
            let workload = (pod.metadata.namespace.clone(), owner);
            if is_selected(&workload) {
                replicas.entry(workload).or_default().push(i);
            }
        }
    }
    replicas
}

/// What controllers create and delete when workloads are scaled.
#[derive(Default)]
struct Scaled {
    /// Positions of pods.
    deleted: Vec<usize>,
    /// The position of a pod, how many copies of it are added, and the name of their owner.
    copied: Vec<(usize, usize, String)>,
}

/// The workloads are scaled whose number of replicas is not that of before. The controller of a Deployment scales before it rolls out: the
/// ReplicaSets in proportion. StatefulSets scale step by step when the cluster settles.
pub(super) fn scale_changed(inventory: &mut Inventory, before: &Specs, now: Timestamp) {
    let mut changed = specs(inventory);
    changed.retain(|key, spec| before.get(key).is_none_or(|before| before.replicas != spec.replicas));
    if changed.is_empty() {
        return;
    }
    let name = |(kind, name): &(Kind, NamespacedName)| {
        (name.namespace().to_owned(), format!("{} {}", kind.name(), name.name()))
    };
    let names: HashSet<_> = changed.keys().map(name).collect();
    let pods = replicas(inventory, |workload| names.contains(workload));
    // The status of their budgets is that of the earlier number.
    for budget in inventory.pod_disruption_budgets.iter_mut().map(|entry| &mut entry.object) {
        let selector = Budget::new(budget);
        if pods.values().flatten().any(|at| selector.covers(&inventory.pods[*at].object)) {
            budget.status = Default::default();
        }
    }
    let workloads = inventory.workloads.iter().map(|entry| &entry.object);
    let workloads = workloads
        .filter(|workload| workload.kind() != Kind::StatefulSet && changed.contains_key(&key(workload)));
    let mut scaled = Scaled::default();
    for workload in workloads {
        let key = key(workload);
        if let Some(pods) = pods.get(&name(&key)) {
            scaled.scale(inventory, workload, (&changed[&key], before.get(&key)), pods, now);
        }
    }
    scaled.carry_out(inventory);
}

impl Scaled {
    fn scale(
        &mut self,
        inventory: &Inventory,
        workload: &Workload,
        (spec, before): (&deployment::Spec, Option<&deployment::Spec>),
        pods: &[usize],
        now: Timestamp,
    ) {
        let pod = |at: &usize| &inventory.pods[*at].object;
        let names = replica_sets(inventory, &pods.iter().map(pod).collect::<Vec<_>>());
        let set_of = |pod: &Pod| {
            pod.metadata.controller().and_then(|owner| names.iter().position(|set| *set == owner.name))
        };
        let n_pods = i32::try_from(pods.len()).unwrap_or(i32::MAX);
        let set = |age| SetSize {
            age,
            desired: Some(before.map_or(n_pods, |before| before.replicas)),
            max_replicas: Some(before.map_or(n_pods, deployment::Spec::max_replicas)),
            ..SetSize::default()
        };
        let mut sets: Vec<SetSize> = (0..names.len()).map(set).collect();
        for pod in pods.iter().map(pod) {
            let Some(set) = set_of(pod) else { continue };
            sets[set].replicas += 1;
            sets[set].available += i32::from(!pod.spec.node_name.is_empty() && !pod.is_unready());
        }
        let rolls_out = workload.kind() == Kind::Deployment && changes_template(workload);
        let newest = match rolls_out {
            true => {
                pods.iter().map(pod).find(|pod| has_template_of(pod, inventory, workload)).and_then(set_of)
            }
            false => names.len().checked_sub(1),
        };
        let mut old = sets.clone();
        let new = newest.map(|at| old.remove(at));
        let next = plan(spec, new, &old, || false);
        if !next.is_scaling {
            return;
        }
        let mut sizes = next.old;
        newest.into_iter().zip(next.new).for_each(|(at, size)| sizes.insert(at, size));
        let replicas = pods.iter().filter_map(|at| Some((*at, set_of(pod(at))?, in_input(pod(at)))));
        let mut order = DeletionOrder::new(replicas, std::iter::empty(), now);
        for (set, (now, next)) in sets.iter().map(|set| set.replicas).zip(sizes).enumerate() {
            self.deleted.extend(order.take(set, usize::try_from(now - next).unwrap_or(0)));
            // The expansion creates pods of the newest template.
            let n_missing = usize::try_from(next - now).ok().filter(|_| rolls_out).unwrap_or(0);
            let of_set = pods.iter().find(|at| set_of(pod(at)) == Some(set));
            self.copied.extend(of_set.map(|at| (*at, n_missing, names[set].to_owned())));
        }
    }

    fn carry_out(self, inventory: &mut Inventory) {
        for (position, n, name) in self.copied {
            add_copies(inventory, position, n, &name);
        }
        let deleted: HashSet<usize> = self.deleted.into_iter().collect();
        let mut i = 0..;
        inventory.pods.retain(|_| i.next().is_none_or(|i| !deleted.contains(&i)));
    }
}

fn in_input(pod: &Pod) -> berth_control::replica_set::Replica<'_> {
    replica(pod, Some(&pod.spec.node_name))
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
    let owner = template.object.metadata.controller();
    let infix = if owner.is_some_and(|owner| owner.kind == "StatefulSet") { "" } else { "new-" };
    let names = (usize::from(!infix.is_empty())..).map(|i| format!("{name}-{infix}{i}"));
    let names = names.filter(|name| !taken.contains(name.as_str())).take(n);
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

/// Scales a workload of which the input has only pods: new ones are copies of an existing one.
fn scale_without_template(
    inventory: &mut Inventory,
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
    let n_surplus = pods.len().saturating_sub(n_replicas);
    let pod = |at: &usize| &inventory.pods[*at].object;
    let deleted: Vec<usize> = match kind {
        Kind::StatefulSet => {
            let by_ordinal = pods.iter().map(|at| (ordinal(&pod(at).metadata.name), *at));
            let by_ordinal: BTreeMap<_, _> = by_ordinal.collect();
            by_ordinal.into_values().rev().take(n_surplus).collect()
        }
        _ => {
            let replicas = pods.iter().map(|at| (*at, 0, in_input(pod(at))));
            DeletionOrder::new(replicas, std::iter::empty(), now).take(0, n_surplus)
        }
    };
    let copied = vec![(*first, n_replicas.saturating_sub(pods.len()), name.name().to_owned())];
    Scaled { deleted, copied }.carry_out(inventory);
    Ok(())
}
