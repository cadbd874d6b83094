//! What the creation of pods depends on: LimitRanges, ResourceQuotas and what they have used, and the StatefulSets that create their
//! pods in order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use berth_api::object::volume::{PersistentVolumeClaim, Volume};
use berth_api::object::{
    LimitRange, NamespacedName, ObjectMeta, Pod, ResourceList, ResourceQuota, VolumeObject,
};
use berth_api::read::Kind;
use berth_api::resource::{REPLICA_SETS, Resource};
use berth_control::expand::COMPLETION_INDEX;
use berth_control::limits;
use berth_control::quota::{self, Uses};
use berth_input::inventory::{Inventory, Workload, WorkloadSpec};
use berth_rules::admission::{FieldError, default_pod};
use serde_json::Value;

use super::unadmitted::Unadmitted;
use super::workloads;

/// Labels that a pod has because of its name or index.
const IDENTITY: [&str; 3] =
    ["apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name", COMPLETION_INDEX];

/// A workload: namespace, and kind and name.
pub(super) type Key = (String, String);

/// What creation depends on.
#[derive(Clone, Default)]
pub(crate) struct Creation {
    /// By namespace, in the order of their names.
    pub(super) limits: Arc<HashMap<String, Vec<LimitRange>>>,
    /// By namespace, in the order of their names.
    pub(super) quotas: HashMap<String, Vec<Quota>>,
    /// The StatefulSets that create their pods in order.
    pub(super) ordered: HashMap<Key, Ordered>,
    /// The claims that controllers create with pods.
    claims: Arc<HashMap<NamespacedName, Vec<PersistentVolumeClaim>>>,
    /// What the controller of a workload creates in the place of a pod, where that is not the same pod: as admitted, without a name.
    templates: Arc<HashMap<Key, Pod>>,
    /// Workloads that are not there yet and that quotas of their number refuse, with the reason.
    pub(super) refused: Arc<HashMap<Key, Unadmitted>>,
    /// Pods that defaults of LimitRanges make invalid: the errors.
    invalid: Arc<HashMap<NamespacedName, String>>,
    /// The pods that are not created so far, by workload: in order.
    pub(super) waiting: BTreeMap<Key, BTreeMap<i64, NamespacedName>>,
    /// The workloads whose next pod may be created now.
    pub(super) changed: BTreeSet<Key>,
    /// Pods that are there and that quotas do not count any more.
    expired: BTreeSet<NamespacedName>,
    /// A pod that is not placed when it is created.
    pub(super) held: Option<NamespacedName>,
}

#[derive(Clone)]
pub(super) struct Quota {
    object: Arc<ResourceQuota>,
    used: ResourceList,
}

#[derive(Clone)]
pub(super) struct Ordered {
    pub(super) start: i64,
    /// The pods from the start to this ordinal are available.
    pub(super) available_to: i64,
    /// How often a pod had lost its node when that was found out.
    pub(super) n_vacated: usize,
}

/// Whether a pod of the input is there, so that quotas have been charged for it. One that names a node is taken for a running one.
fn exists(pod: &Pod) -> bool {
    pod.metadata.creation_timestamp.is_some() || !pod.spec.node_name.is_empty()
}

/// The same of a workload, which a later input may have replaced.
fn is_stored(workload: &Workload) -> bool {
    workload.metadata().creation_timestamp.is_some() || workload.replaced.is_some()
}

/// What objects of a kind use of quotas of their number.
fn one_of(resource: Resource) -> Uses {
    Uses::of(&resource, &Value::Null)
}

fn by_quota(quota: &ResourceQuota, why: String) -> Unadmitted {
    Unadmitted::not_created(format!("ResourceQuota {}", quota.metadata.name), why)
}

/// What quotas have used once objects are created, or why one of them refuses one.
fn charged(quotas: &[Quota], objects: &[Uses]) -> Result<Vec<ResourceList>, Unadmitted> {
    let charged = |Quota { object, used }: &Quota| {
        let mut used = used.clone();
        for uses in objects.iter().filter(|uses| quota::bounds(object, uses)) {
            let after = quota::charge(object, || used.clone(), &uses.amounts);
            used = after.map_err(|why| by_quota(object, why))?.unwrap_or(used);
        }
        Ok(used)
    };
    quotas.iter().map(charged).collect()
}

/// Creates the workloads that are not there yet, in the order of the input, and the ReplicaSets of their Deployments. Returns those that
/// quotas refuse.
fn create_workloads(
    inventory: &Inventory,
    quotas: &mut HashMap<String, Vec<Quota>>,
) -> HashMap<Key, Unadmitted> {
    let mut refused = HashMap::new();
    for workload in inventory.workloads.iter().map(|entry| &entry.object).filter(|of| !is_stored(of)) {
        let Some(quotas) = quotas.get_mut(&workload.metadata().namespace) else { continue };
        let replica_set = (workload.kind() == Kind::Deployment).then_some(REPLICA_SETS);
        for resource in workload.kind().resource().into_iter().chain(replica_set) {
            match charged(quotas, &[one_of(resource)]) {
                Ok(used) => quotas.iter_mut().zip(used).for_each(|(quota, used)| quota.used = used),
                Err(why) => {
                    refused.insert(key_of(workload), why);
                    break;
                }
            }
        }
    }
    refused
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
    for workload in inventory.workloads.iter().map(|entry| &entry.object).filter(|of| is_stored(of)) {
        if let Some(resource) = workload.kind().resource() {
            add(&workload.metadata().namespace, &one_of(resource));
        }
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
        let refused = create_workloads(inventory, &mut quotas);
        let ordered = inventory.workloads.iter().filter_map(|entry| ordered(&entry.object));
        Creation {
            refused: Arc::new(refused),
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
    pub fn check(&self, pod: &Pod) -> Result<Vec<ResourceList>, Unadmitted> {
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
        for quota in quotas.iter().map(|quota| &*quota.object).filter(|of| quota::bounds(of, &pod_uses)) {
            quota::check_amounts(quota, pod).map_err(|why| by_quota(quota, why))?;
        }
        let uses: Vec<Uses> = claims.iter().map(Uses::of_claim).chain([pod_uses]).collect();
        charged(quotas, &uses)
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

    pub fn set_templates(&mut self, templates: HashMap<Key, Pod>) {
        self.templates = Arc::new(templates);
    }

    /// Nothing refuses or delays the creation of pods.
    pub fn only_templates(&self) -> Creation {
        Creation { templates: self.templates.clone(), ..Creation::default() }
    }

    fn template(&self, pod: &Pod, workload: Option<&str>) -> Option<&Pod> {
        // Few workloads have one.
        if self.templates.is_empty() {
            return None;
        }
        self.templates.get(&(pod.metadata.namespace.clone(), workload?.to_owned()))
    }

    /// Whether a pod that is created again may be another one.
    pub fn has_template(&self, pod: &Pod, workload: Option<&str>) -> bool {
        self.template(pod, workload).is_some()
    }

    /// Gives a pod that is created again what the template of its workload and admission give it today.
    pub fn apply_template(&self, pod: &mut Pod, workload: Option<&str>) {
        let Some(template) = self.template(pod, workload) else { return };
        let mut spec = template.spec.clone();
        spec.node_name.clone_from(&pod.spec.node_name);
        let name = &pod.metadata.name;
        let is_own = |volume: &&Volume| {
            let claim = volume.persistent_volume_claim.as_ref().map(|claim| &claim.claim_name);
            claim.is_some_and(|claim| *claim == format!("{}-{name}", volume.name))
        };
        let own: Vec<Volume> = pod.spec.volumes.iter().filter(is_own).cloned().collect();
        spec.volumes.retain(|volume| own.iter().all(|own| own.name != volume.name));
        spec.volumes.extend(own);
        let mut labels = template.metadata.labels.clone();
        for (key, value) in pod.metadata.labels.iter().filter(|(key, _)| IDENTITY.contains(&key.as_str())) {
            labels.insert(key.clone(), value.clone());
        }
        (pod.spec, pod.metadata.labels) = (spec, labels);
    }

    /// Nothing limits pods of a namespace any more.
    pub fn lift_limits(&mut self, namespace: &str) {
        Arc::make_mut(&mut self.limits).remove(namespace);
        self.quotas.remove(namespace);
        Arc::make_mut(&mut self.refused).retain(|(of, _), _| of != namespace);
        self.changed.extend(self.waiting.keys().filter(|(of, _)| of == namespace).cloned());
    }

    /// No kubelet ends a pod that is being deleted: quotas count it for its grace period only.
    pub fn expire(&mut self, pod: &Pod) {
        self.release(pod);
        self.expired.insert(pod.metadata.namespaced_name());
    }

    /// A pod is gone. Its claims stay.
    pub fn release(&mut self, pod: &Pod) {
        let namespace = &pod.metadata.namespace;
        if !self.expired.is_empty() && self.expired.remove(&pod.metadata.namespaced_name()) {
            return;
        }
        let Some(quotas) = self.quotas.get_mut(namespace) else { return };
        let uses = Uses::of_pod(pod);
        quotas.iter_mut().for_each(|quota| quota::release(&mut quota.used, &quota.object, &uses));
        self.changed.extend(self.waiting.keys().filter(|(of, _)| of == namespace).cloned());
    }
}

pub(super) fn key_of(workload: &Workload) -> Key {
    (workload.metadata().namespace.clone(), workloads::name(workload))
}

fn ordered(workload: &Workload) -> Option<(Key, Ordered)> {
    let WorkloadSpec::StatefulSet(set) = &workload.spec else { return None };
    let start = set.spec.ordinals.as_ref().map_or(0, |ordinals| i64::from(ordinals.start));
    let ordered = Ordered { start, available_to: start, n_vacated: 0 };
    (set.spec.pod_management_policy != "Parallel").then(|| (key_of(workload), ordered))
}
