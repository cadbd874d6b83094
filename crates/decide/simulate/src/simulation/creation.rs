//! Which pods their controllers can create: LimitRanges and ResourceQuotas may refuse them, and a StatefulSet with the policy
//! `OrderedReady` creates a pod when those before it are available.
//!
//! A pod that is not created stays in the list of pods, with the reason. It is created once the reason is gone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use berth_api::object::volume::PersistentVolumeClaim;
use berth_api::object::{
    LimitRange, NamespacedName, ObjectMeta, Pod, ResourceList, ResourceQuota, VolumeObject,
};
use berth_control::limits;
use berth_control::quota::{self, Uses};
use berth_engine::Outcome;
use berth_input::inventory::{Inventory, Workload, WorkloadSpec};
use berth_rules::admission::{FieldError, default_pod};

use super::rollout::ordinal;
use super::state::Simulation;
use super::unadmitted::{Unadmitted, UnadmittedState};
use super::workloads;

/// A workload: namespace, and kind and name.
type Key = (String, String);

/// What creation depends on.
#[derive(Clone, Default)]
pub(crate) struct Creation {
    /// By namespace, in the order of their names.
    limits: Arc<HashMap<String, Vec<LimitRange>>>,
    /// By namespace, in the order of their names.
    quotas: HashMap<String, Vec<Quota>>,
    /// The StatefulSets that create their pods in order.
    ordered: HashMap<Key, Ordered>,
    /// The claims that controllers create with pods.
    claims: Arc<HashMap<NamespacedName, Vec<PersistentVolumeClaim>>>,
    /// Pods that defaults of LimitRanges make invalid: the errors.
    invalid: Arc<HashMap<NamespacedName, String>>,
    /// The pods that are not created so far, by workload: in order.
    waiting: BTreeMap<Key, BTreeMap<i64, NamespacedName>>,
    /// The workloads whose next pod may be created now.
    changed: BTreeSet<Key>,
    /// A pod that is not placed when it is created.
    held: Option<NamespacedName>,
}

#[derive(Clone)]
struct Quota {
    object: Arc<ResourceQuota>,
    used: ResourceList,
}

#[derive(Clone)]
struct Ordered {
    start: i64,
    /// The pods from the start to this ordinal are available.
    available_to: i64,
    /// How often a pod had lost its node when that was found out.
    n_vacated: usize,
}

/// Whether a pod of the input is there, so that quotas have been charged for it. One that names a node is taken for a running one.
fn exists(pod: &Pod) -> bool {
    pod.metadata.creation_timestamp.is_some() || !pod.spec.node_name.is_empty()
}

fn by_namespace<T>(
    objects: impl Iterator<Item = T>,
    metadata: impl Fn(&T) -> &ObjectMeta,
) -> HashMap<String, Vec<T>> {
    let mut by_namespace: HashMap<String, Vec<T>> = HashMap::new();
    for object in objects {
        by_namespace.entry(metadata(&object).namespace.clone()).or_default().push(object);
    }
    by_namespace.values_mut().for_each(|all| all.sort_by(|a, b| metadata(a).name.cmp(&metadata(b).name)));
    by_namespace
}

/// Adds what the objects of an input use to the used amounts of its quotas.
fn count(inventory: &Inventory, mut add: impl FnMut(&str, &Uses)) {
    let quotas = inventory.resource_quotas.iter().map(|entry| entry.object.metadata.namespace.as_str());
    let namespaces: BTreeSet<&str> = quotas.collect();
    if namespaces.is_empty() {
        return;
    }
    let pods = inventory.pods.iter().map(|entry| &entry.object);
    for pod in pods.filter(|pod| exists(pod) && namespaces.contains(pod.metadata.namespace.as_str())) {
        add(&pod.metadata.namespace, &Uses::of_pod(pod));
    }
    for entry in &inventory.volume_objects {
        if let VolumeObject::PersistentVolumeClaim(claim) = &entry.object {
            add(&claim.metadata.namespace, &Uses::of_claim(claim));
        }
    }
}

/// Objects change: what quotas count is from now on what their status says without the objects of the input, and these objects.
pub(crate) fn count_used(inventory: &mut Inventory) {
    let mut used = Vec::new();
    for entry in &inventory.resource_quotas {
        used.push(quota::used_by_status(&entry.object).filter(|_| entry.object.status.elsewhere.is_none()));
    }
    count(inventory, |namespace, uses| {
        for (entry, used) in inventory.resource_quotas.iter().zip(&mut used) {
            if let Some(used) = used.as_mut().filter(|_| entry.object.metadata.namespace == namespace) {
                quota::release(used, &entry.object, uses);
            }
        }
    });
    for (entry, used) in inventory.resource_quotas.iter_mut().zip(used) {
        entry.object.status.elsewhere = entry.object.status.elsewhere.take().or(used);
    }
}

impl Creation {
    pub fn new(inventory: &Inventory) -> Creation {
        let ranges = inventory.limit_ranges.iter().map(|entry| {
            let mut range = entry.object.clone();
            range.spec.limits.iter_mut().for_each(limits::complete);
            range
        });
        let mut is_counted = HashMap::new();
        let quotas = inventory.resource_quotas.iter().map(|entry| {
            let (object, status) = (Arc::new(entry.object.clone()), &entry.object.status);
            let by_status = quota::used_by_status(&object).filter(|_| status.elsewhere.is_none());
            is_counted.insert(object.metadata.namespaced_name(), by_status.is_none());
            let used = by_status.or_else(|| status.elsewhere.clone());
            Quota { used: used.unwrap_or_else(|| quota::unused(&object)), object }
        });
        let mut quotas = by_namespace(quotas, |quota| &quota.object.metadata);
        count(inventory, |namespace, uses| {
            for Quota { object, used } in quotas.get_mut(namespace).into_iter().flatten() {
                if is_counted.get(&object.metadata.namespaced_name()) == Some(&true) {
                    quota::add(used, object, uses);
                }
            }
        });
        let ordered = inventory.workloads.iter().filter_map(|entry| ordered(&entry.object));
        Creation {
            limits: Arc::new(by_namespace(ranges, |range| &range.metadata)),
            quotas,
            ordered: ordered.collect(),
            ..Creation::default()
        }
    }

    /// A rollout has its own order.
    pub fn is_rolled_out(&mut self, workload: &Workload) {
        self.ordered.remove(&key_of(workload));
    }

    fn limits(&self, namespace: &str) -> &[LimitRange] {
        self.limits.get(namespace).map_or(&[], Vec::as_slice)
    }

    /// Sets what the LimitRanges of its namespace give a new pod. Returns whether there is anything.
    pub fn set_defaults(&self, pod: &mut Pod) -> bool {
        let ranges = self.limits(&pod.metadata.namespace);
        if ranges.is_empty() {
            return false;
        }
        default_pod(pod);
        limits::set_defaults(ranges, pod).is_some()
    }

    /// What LimitRanges give a pod makes it invalid.
    pub fn note_invalid(&mut self, pod: &Pod, errors: &[FieldError]) {
        let errors = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        Arc::make_mut(&mut self.invalid).insert(pod.metadata.namespaced_name(), errors);
    }

    /// The controller of a pod creates this claim before it.
    pub fn note_claim(&mut self, pod: &Pod, claim: &PersistentVolumeClaim) {
        let namespace = &pod.metadata.namespace;
        if self.quotas.contains_key(namespace) || self.limits.contains_key(namespace) {
            let claims = Arc::make_mut(&mut self.claims).entry(pod.metadata.namespaced_name());
            claims.or_default().push(claim.clone());
        }
    }

    /// What quotas have used once a new pod and its claims are created, or why a LimitRange or a quota refuses one of them.
    fn check(&self, pod: &Pod) -> Result<Vec<ResourceList>, Unadmitted> {
        let (namespace, name) = (&pod.metadata.namespace, pod.metadata.namespaced_name());
        let claims = self.claims.get(&name).map_or(&[][..], Vec::as_slice);
        let ranges = self.limits(namespace);
        let by_limits = |message| Unadmitted::not_created("LimitRange".to_owned(), message);
        if let Some(errors) = self.invalid.get(&name) {
            return Err(by_limits(errors.clone()));
        }
        claims.iter().try_for_each(|claim| limits::check_claim(ranges, claim)).map_err(by_limits)?;
        limits::check(ranges, pod).map_err(by_limits)?;
        let Some(quotas) = self.quotas.get(namespace) else { return Ok(Vec::new()) };
        let pod_uses = Uses::of_pod(pod);
        let uses: Vec<Uses> = claims.iter().map(Uses::of_claim).chain([pod_uses.clone()]).collect();
        let used = quotas.iter().map(|Quota { object, used }| {
            let refused =
                |why| Unadmitted::not_created(format!("ResourceQuota {}", object.metadata.name), why);
            if quota::bounds(object, &pod_uses) {
                quota::check_amounts(object, pod).map_err(refused)?;
            }
            let mut used = used.clone();
            for uses in uses.iter().filter(|uses| quota::bounds(object, uses)) {
                let charged = quota::charge(object, || used.clone(), &uses.amounts).map_err(refused)?;
                used = charged.unwrap_or(used);
            }
            Ok(used)
        });
        used.collect()
    }

    /// Charges a new pod and its claims to the quotas of its namespace.
    ///
    /// # Errors
    /// A LimitRange or a quota refuses one of them: nothing is charged.
    pub fn charge(&mut self, pod: &Pod) -> Result<(), Unadmitted> {
        let used = self.check(pod)?;
        if let Some(quotas) = self.quotas.get_mut(&pod.metadata.namespace) {
            quotas.iter_mut().zip(used).for_each(|(quota, used)| quota.used = used);
        }
        if !self.claims.is_empty() {
            Arc::make_mut(&mut self.claims).remove(&pod.metadata.namespaced_name());
        }
        Ok(())
    }

    /// A pod is gone. Its claims stay.
    pub fn release(&mut self, pod: &Pod) {
        let namespace = &pod.metadata.namespace;
        let Some(quotas) = self.quotas.get_mut(namespace) else { return };
        let uses = Uses::of_pod(pod);
        quotas.iter_mut().for_each(|quota| quota::release(&mut quota.used, &quota.object, &uses));
        self.changed.extend(self.waiting.keys().filter(|(of, _)| of == namespace).cloned());
    }
}

fn key_of(workload: &Workload) -> Key {
    (workload.metadata().namespace.clone(), workloads::name(workload))
}

fn ordered(workload: &Workload) -> Option<(Key, Ordered)> {
    let WorkloadSpec::StatefulSet(set) = &workload.spec else { return None };
    let start = set.spec.ordinals.as_ref().map_or(0, |ordinals| i64::from(ordinals.start));
    let ordered = Ordered { start, available_to: start, n_vacated: 0 };
    (set.spec.pod_management_policy != "Parallel").then(|| (key_of(workload), ordered))
}

impl Simulation {
    /// The workload of a pod that a controller creates.
    fn workload_key(&self, position: usize) -> Option<Key> {
        let pod = &self.pods[position];
        Some((pod.pod.metadata.namespace.clone(), pod.workload.clone()?))
    }

    /// The pod that is not available and that the next pod of a StatefulSet waits for, if its ordinal is this one.
    fn predecessor(&mut self, key: &Key, ordinal: i64) -> Option<String> {
        let mut ordered = self.creation.ordered.get(key)?.clone();
        if ordered.n_vacated != self.n_vacated {
            (ordered.available_to, ordered.n_vacated) = (ordered.start, self.n_vacated);
        }
        let name = |ordinal: i64| Some(format!("{}-{ordinal}", key.1.split_once(' ')?.1));
        let mut waits_for = None;
        for lower in ordered.available_to..ordinal {
            let lower_name = name(lower)?;
            let pod = self.pod(&key.0, &lower_name);
            if pod.is_none_or(|pod| !pod.is_available() || pod.pod.metadata.is_deleting()) {
                waits_for = Some(lower_name);
                break;
            }
            ordered.available_to = lower + 1;
        }
        self.creation.ordered.insert(key.clone(), ordered);
        waits_for
    }

    /// Whether a pod arrives at the node that it names when those before it are available.
    pub(super) fn arrives_in_order(&self, position: usize) -> bool {
        self.pods[position].pod.awaits_node_admission()
            && self.workload_key(position).is_some_and(|key| self.creation.ordered.contains_key(&key))
    }

    /// A controller creates the pod at this position, or waits: then the pod is not created so far. Returns whether it is created.
    pub(super) fn create_at(&mut self, position: usize) -> bool {
        let Creation { quotas, limits, ordered, .. } = &self.creation;
        if quotas.is_empty() && limits.is_empty() && ordered.is_empty() {
            return true;
        }
        let key = self.workload_key(position);
        match self.refusal(position, key.as_ref()) {
            Ok(()) => true,
            Err(why) => {
                self.pods[position].refuse(why);
                let name = self.pods[position].pod.metadata.namespaced_name();
                // Nobody tries again to create a pod without a controller.
                if let Some(key) = key {
                    let waiting = self.creation.waiting.entry(key.clone()).or_default();
                    let next = waiting.last_key_value().map_or(0, |(at, _)| at + 1);
                    let at = match self.creation.ordered.contains_key(&key) {
                        true => ordinal(name.name()).unwrap_or(next),
                        false => next,
                    };
                    waiting.insert(at, name);
                }
                false
            }
        }
    }

    fn refusal(&mut self, position: usize, key: Option<&Key>) -> Result<(), Unadmitted> {
        let name = &self.pods[position].pod.metadata.name;
        if let Some((key, ordinal)) = key.zip(ordinal(name))
            && let Some(predecessor) = self.predecessor(key, ordinal)
        {
            return Err(Unadmitted::not_created_yet(&predecessor));
        }
        let pod = &self.pods[position].pod;
        self.creation.charge(pod)
    }

    /// Why no controller can create this pod now.
    pub(crate) fn refusal_of(&self, pod: &Pod) -> Option<Unadmitted> {
        self.creation.check(pod).err()
    }

    /// Controllers try again to create pods where something has changed. Returns the positions of those that wait for a scheduler.
    pub(super) fn create_waiting(&mut self) -> Vec<usize> {
        let mut created = Vec::new();
        for key in std::mem::take(&mut self.creation.changed) {
            let Some(mut waiting) = self.creation.waiting.remove(&key) else { continue };
            while let Some((at, name)) = waiting.pop_first() {
                let is_refused = |at: &usize| self.pods[*at].is_unadmitted(UnadmittedState::NotCreated);
                let position = self.position(name.namespace(), name.name()).filter(is_refused);
                // It is deleted.
                let Some(position) = position else { continue };
                if let Err(why) = self.refusal(position, Some(&key)) {
                    self.pods[position].refuse(why);
                    waiting.insert(at, name);
                    break;
                }
                let is_held = self.creation.held.as_ref() == Some(&name);
                let pod = &mut self.pods[position];
                pod.unadmitted = None;
                pod.outcome = Outcome::Unschedulable { message: String::new(), plugins: Vec::new() };
                match pod.pod.awaits_node_admission() {
                    _ if is_held => {}
                    true => self.arrive_alone(position),
                    false => created.push(position),
                }
            }
            if !waiting.is_empty() {
                self.creation.waiting.insert(key, waiting);
            }
        }
        created
    }

    /// A pod of this workload has a node: the next one may be created.
    pub(super) fn note_placed(&mut self, position: usize) {
        if !self.creation.waiting.is_empty()
            && let Some(key) = self.workload_key(position)
            && self.creation.ordered.contains_key(&key)
        {
            self.creation.changed.insert(key);
        }
    }

    /// All pods of a StatefulSet that are not created so far wait for the same pod.
    pub(super) fn name_predecessors(&mut self) {
        for waiting in self.creation.waiting.clone().into_values() {
            let mut names = waiting.into_values();
            let first = names.next().and_then(|name| self.position(name.namespace(), name.name()));
            let Some(why) = first.and_then(|at| self.pods[at].unadmitted.as_deref().cloned()) else {
                continue;
            };
            for name in names {
                if let Some(at) = self.position(name.namespace(), name.name()) {
                    self.pods[at].refuse(why.clone());
                }
            }
        }
    }

    /// Takes replicas back that were to be created: nothing is charged for them, and nothing holds them up.
    pub(crate) fn take_back_creation(&mut self, positions: &[usize]) {
        for &position in positions {
            let pod = &mut self.pods[position];
            if pod.is_unadmitted(UnadmittedState::NotCreated) {
                pod.unadmitted = None;
                pod.outcome = Outcome::Unschedulable { message: String::new(), plugins: Vec::new() };
            } else {
                let pod = pod.pod.clone();
                self.creation.release(&pod);
            }
            if let Some(key) = self.workload_key(position) {
                self.creation.waiting.remove(&key);
            }
        }
    }

    pub(super) fn is_not_created(&self, namespace: &str, name: &str) -> bool {
        self.pod(namespace, name).is_some_and(|pod| pod.is_unadmitted(UnadmittedState::NotCreated))
    }

    /// The pod is not placed when it is created.
    pub(super) fn hold(&mut self, namespace: &str, name: &str) {
        self.creation.held = Some(NamespacedName::new(namespace, name));
    }
}
