//! Claims of devices in a simulation: the objects of the input, and the claims that are made for pods.
//!
//! No controller runs in a simulation. Claims are kept here as the cluster would have them: what is decided about a pod is
//! written to its claims, and taken away when the last pod of a claim leaves its node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::object::device::{
    DeviceKind, DeviceObject, DeviceRequestAllocationResult, POD_CLAIM_NAME_ANNOTATION,
    POD_GROUP_CLAIM_NAME_ANNOTATION, ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus,
    ResourceClaimTemplate, ResourceSlice, claim_name_base,
};
use berth_api::object::{
    NamespacedName, ObjectMeta, OwnerReference, Pod, PodExtendedResourceClaimStatus, PodGroup,
    PodResourceClaim, PodResourceClaimStatus,
};
use berth_api::resource::POD_GROUPS;
use berth_api::syntax::quantity::Quantity;
use berth_control::expand::{suffix, synthetic_uid};
use berth_engine::{Cluster, Outcome};
use berth_input::journal::GroupClaims;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::new_node::slices_like;

/// A claim of a pod, with what is allocated to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodClaim {
    pub claim: NamespacedName,
    /// In the order of the requests; none while nothing is allocated.
    pub devices: Vec<PodDevice>,
}

/// A device that is allocated to a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodDevice {
    /// The request, or `REQUEST/SUBREQUEST` for the alternative that was used.
    pub request: String,
    pub driver: String,
    pub pool: String,
    pub device: String,
    /// What is taken of the capacities of a device that others share.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub consumed_capacity: BTreeMap<String, Quantity>,
    /// Whether the device is used for administration.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub admin_access: bool,
}

impl From<&DeviceRequestAllocationResult> for PodDevice {
    fn from(result: &DeviceRequestAllocationResult) -> PodDevice {
        PodDevice {
            request: result.request.clone(),
            driver: result.driver.clone(),
            pool: result.pool.clone(),
            device: result.device.clone(),
            consumed_capacity: result.consumed_capacity.clone(),
            admin_access: result.admin_access == Some(true),
        }
    }
}

/// Claims by name, as they were at one time.
pub(crate) type Claims = BTreeMap<NamespacedName, Arc<ResourceClaim>>;

/// The claims of a simulation, and what they are made from.
#[derive(Clone, Default)]
pub(crate) struct Devices {
    claims: Claims,
    /// The claims made for the entries of pods and PodGroups, by the uid of the owner and the name of the entry.
    made: BTreeMap<(String, String), NamespacedName>,
    /// The PodGroups whose pods share claims.
    groups: BTreeMap<NamespacedName, PodGroup>,
    templates: BTreeMap<NamespacedName, Arc<ResourceClaimTemplate>>,
    slices: BTreeMap<String, Arc<ResourceSlice>>,
    classes: BTreeSet<String>,
    /// The claims that the input does not have, or has otherwise.
    changed: BTreeSet<NamespacedName>,
}

impl Devices {
    /// Adds or changes an object of the input.
    pub(crate) fn set(&mut self, cluster: &mut Cluster, object: &DeviceObject) {
        let name = object.metadata().namespaced_name();
        match object {
            DeviceObject::ResourceClaim(claim) => self.insert((**claim).clone()),
            DeviceObject::ResourceClaimTemplate(template) => {
                self.templates.insert(name, Arc::new((**template).clone()));
            }
            DeviceObject::ResourceSlice(slice) => {
                self.slices.insert(name.name().to_owned(), Arc::new((**slice).clone()));
            }
            DeviceObject::DeviceClass(_) => _ = self.classes.insert(name.name().to_owned()),
            DeviceObject::DeviceTaintRule(_) => {}
        }
        cluster.set_device_object(object);
    }

    /// Removes an object of the input.
    pub(super) fn remove(&mut self, cluster: &mut Cluster, kind: DeviceKind, name: &NamespacedName) {
        match kind {
            DeviceKind::ResourceClaim => {
                if let Some(key) = self.claims.remove(name).and_then(|claim| made_key(&claim)) {
                    self.made.remove(&key);
                }
            }
            DeviceKind::ResourceClaimTemplate => _ = self.templates.remove(name),
            DeviceKind::ResourceSlice => _ = self.slices.remove(name.name()),
            DeviceKind::DeviceClass => _ = self.classes.remove(name.name()),
            DeviceKind::DeviceTaintRule => {}
        }
        cluster.remove_device_object(kind, name.namespace(), name.name());
    }

    /// Sets the PodGroups whose pods share claims; those of an input have uids.
    pub(super) fn set_groups(&mut self, cluster: &mut Cluster, groups: impl Iterator<Item = PodGroup>) {
        for name in std::mem::take(&mut self.groups).into_keys() {
            cluster.set_group_claims(&name, None);
        }
        for mut group in groups.filter(|group| !group.spec.resource_claims.is_empty()) {
            let ObjectMeta { namespace, name, uid, .. } = &mut group.metadata;
            if uid.is_empty() {
                *uid = synthetic_uid(POD_GROUPS.kind, namespace, name);
            }
            let name = group.metadata.namespaced_name();
            cluster.set_group_claims(&name, GroupClaims::of(&group));
            self.groups.insert(name, group);
        }
    }

    /// The PodGroup whose claim an entry of a pod stands for.
    fn group_with(&self, pod: &Pod, entry: &PodResourceClaim) -> Option<&PodGroup> {
        let name = &pod.spec.scheduling_group.as_ref()?.pod_group_name;
        let group = self.groups.get(&NamespacedName::new(&pod.metadata.namespace, name))?;
        group.shares(entry).then_some(group)
    }

    /// Makes the claims of a pod from their templates, as the controller does, and names them in the status of the pod and of its
    /// object. An entry whose template is not in the input gets none.
    pub(super) fn make_claims(&mut self, cluster: &mut Cluster, pod: &mut Pod, raw: Option<&mut Value>) {
        if pod.spec.resource_claims.is_empty() {
            return;
        }
        let ObjectMeta { namespace, name, uid, .. } = &mut pod.metadata;
        if uid.is_empty() {
            *uid = synthetic_uid("Pod", namespace, name);
        }
        let mut is_changed = false;
        for entry in pod.spec.resource_claims.clone().iter() {
            let Some(template) = &entry.resource_claim_template_name else { continue };
            let named = |status: &PodResourceClaimStatus| status.name == entry.name;
            if pod.status.resource_claim_statuses.iter().any(named) {
                continue;
            }
            let owner = match self.group_with(pod, entry) {
                Some(group) => ClaimOwner::pod_group(&group.metadata),
                None => ClaimOwner::pod(&pod.metadata),
            };
            let Some(claim) = self.claim_for(cluster, owner, &entry.name, template) else { continue };
            pod.status
                .resource_claim_statuses
                .push(PodResourceClaimStatus { name: entry.name.clone(), resource_claim_name: Some(claim) });
            is_changed = true;
        }
        if let Some(raw) = raw.filter(|_| is_changed) {
            raw["status"]["resourceClaimStatuses"] = json!(pod.status.resource_claim_statuses);
        }
    }

    /// The name of the claim that was made for an entry of a pod or of its PodGroup, or is made now.
    fn claim_for(
        &mut self,
        cluster: &mut Cluster,
        owner: ClaimOwner,
        entry: &str,
        template: &str,
    ) -> Option<String> {
        let ClaimOwner { namespace, reference, annotation } = owner;
        if let Some(name) = self.made.get(&(reference.uid.clone(), entry.to_owned())) {
            return Some(name.name().to_owned());
        }
        let template = self.templates.get(&NamespacedName::new(&namespace, template))?.clone();
        let mut annotations = template.spec.metadata.annotations.clone();
        annotations.insert(annotation.to_owned(), entry.to_owned());
        let metadata = ObjectMeta {
            name: self.free_name(&namespace, &claim_name_base(&reference.name, entry)),
            namespace,
            labels: template.spec.metadata.labels.clone(),
            annotations,
            owner_references: vec![reference].into(),
            ..ObjectMeta::default()
        };
        let spec = template.spec.spec.clone();
        let name = metadata.name.clone();
        self.write(cluster, ResourceClaim { metadata, spec, status: ResourceClaimStatus::default() });
        Some(name)
    }

    fn free_name(&self, namespace: &str, base: &str) -> String {
        let is_free = |name: &String| !self.claims.contains_key(&NamespacedName::new(namespace, name));
        let names = (0..).map(|n| format!("{base}{}", suffix(base, n)));
        names.into_iter().find(is_free).unwrap_or_default()
    }

    fn write(&mut self, cluster: &mut Cluster, claim: ResourceClaim) {
        let name = claim.metadata.namespaced_name();
        let object = DeviceObject::ResourceClaim(Box::new(claim.clone()));
        // What was assumed of the claim goes with it.
        cluster.remove_device_object(DeviceKind::ResourceClaim, name.namespace(), name.name());
        cluster.set_device_object(&object);
        self.changed.insert(name);
        self.insert(claim);
    }

    fn insert(&mut self, claim: ResourceClaim) {
        let name = claim.metadata.namespaced_name();
        if let Some(key) = made_key(&claim) {
            self.made.insert(key, name.clone());
        }
        self.claims.insert(name, Arc::new(claim));
    }

    /// Writes what was decided about the claims of a pod, which the cluster assumes.
    pub(super) fn decided(&mut self, cluster: &mut Cluster, pod: &mut Pod, outcome: &Outcome) {
        let Outcome::Placed { devices: Some(decision), .. } = outcome else { return };
        pod.status.node_allocatable_resource_claim_statuses = decision.node_allocatable.clone().into();
        for decided in &decision.claims {
            let mut made = String::new();
            if let Some(extended) = &decided.extended {
                let base = format!("{}-extended-resources-", pod.metadata.name);
                made = self.free_name(&pod.metadata.namespace, &base);
                let status = PodExtendedResourceClaimStatus {
                    request_mappings: extended.mappings.clone(),
                    resource_claim_name: made.clone(),
                };
                pod.status.extended_resource_claim_status = Some(Box::new(status));
            }
            let before = self.claims.get(&decided.claim).map(|claim| &**claim);
            let mut decided = decided.clone();
            // Another member of the group has written it.
            let is_written = |group: &ResourceClaimConsumerReference| {
                before.is_some_and(|claim| claim.status.is_reserved_for(&group.uid))
            };
            decided.is_reserved_now &= !decided.group.as_ref().is_some_and(is_written);
            let claim = decided.written(before, &pod.metadata, &made, Timestamp::UNIX_EPOCH);
            self.write(cluster, claim);
        }
    }

    /// A pod leaves its node: its claims are no longer reserved for it, and those without a consumer lose their devices.
    pub(crate) fn release(&mut self, cluster: &mut Cluster, pod: &Pod) {
        for name in claims_of(pod) {
            let Some(claim) = self.claims.get(&name) else { continue };
            let mut claim = ResourceClaim::clone(claim);
            if !claim.status.release(&pod.metadata.uid) {
                continue;
            }
            // It is of no use to others, and the scheduler makes a new one.
            if claim.is_for_extended_resources() {
                self.remove(cluster, DeviceKind::ResourceClaim, &name);
                self.changed.remove(&name);
            } else {
                self.write(cluster, claim);
            }
        }
    }

    /// The claims of a pod that have no devices yet, in its order.
    pub(crate) fn claims_to_allocate(&self, pod: &Pod) -> Vec<Arc<ResourceClaim>> {
        let claims = claims_of(pod).into_iter().filter_map(|name| self.claims.get(&name).cloned());
        claims.filter(|claim| claim.status.allocation.is_none()).collect()
    }

    /// The names of the device classes.
    pub(crate) fn classes(&self) -> impl Iterator<Item = &str> {
        self.classes.iter().map(String::as_str)
    }

    /// The devices of a new node that is like another one.
    pub(crate) fn slices_like(&self, like: &str, name: &str) -> Vec<ResourceSlice> {
        let is_of_node = |slice: &&Arc<ResourceSlice>| slice.spec.node_name.as_deref() == Some(like);
        let slices = self.slices.values().filter(is_of_node).map(|slice| ResourceSlice::clone(slice));
        slices_like(&slices.collect::<Vec<_>>(), like, name).collect()
    }

    /// The claims as they are now.
    pub(crate) fn claims(&self) -> Claims {
        self.claims.clone()
    }

    /// Makes the claims those of an earlier time.
    pub(crate) fn restore(&mut self, cluster: &mut Cluster, before: Claims) {
        let is_same = |(name, claim): (&NamespacedName, &Arc<ResourceClaim>), claims: &Claims| {
            claims.get(name).is_some_and(|other| Arc::ptr_eq(claim, other))
        };
        let added = self.claims.iter().filter(|entry| !is_same(*entry, &before));
        let added: Vec<_> = added.map(|(name, _)| name.clone()).collect();
        added.iter().for_each(|name| self.remove(cluster, DeviceKind::ResourceClaim, name));
        let removed = before.iter().filter(|entry| !is_same(*entry, &self.claims));
        let removed: Vec<_> = removed.map(|(_, claim)| ResourceClaim::clone(claim)).collect();
        for claim in removed {
            cluster.set_device_object(&DeviceObject::ResourceClaim(Box::new(claim.clone())));
            self.insert(claim);
        }
        self.claims = before;
    }

    /// Why the claims of a pod cannot be satisfied on any node: the input lacks what they are made from.
    pub(super) fn missing(&self, pod: &Pod) -> Option<String> {
        let namespace = &pod.metadata.namespace;
        let statuses = &pod.status.resource_claim_statuses;
        let waits_for = pod.spec.resource_claims.iter().find_map(|entry| {
            let template = entry.resource_claim_template_name.as_deref()?;
            let is_missing = !statuses.iter().any(|status| status.name == entry.name)
                && !self.templates.contains_key(&NamespacedName::new(namespace, template));
            is_missing.then_some((&entry.name, template))
        });
        if let Some((entry, template)) = waits_for {
            return Some(format!(
                "the pod waits for ResourceClaimTemplate {template} (spec.resourceClaims[{entry}]), which does not exist"
            ));
        }
        let is_open = |name: &NamespacedName| {
            self.claims.get(name).is_some_and(|claim| claim.status.allocation.is_none())
        };
        let open = claims_of(pod).into_iter().find(|name| self.slices.is_empty() && is_open(name))?;
        Some(format!(
            "the input has no ResourceSlice: which devices ResourceClaim {} could get is not known",
            open.name()
        ))
    }

    /// Whether devices may be allocated for a pod when it is placed: the decision has to say which.
    pub(crate) fn may_be_for(&self, pod: &Pod) -> bool {
        let containers = pod.spec.init_containers.iter().chain(&pod.spec.containers);
        let mut resources = containers.flat_map(|container| container.resources.requests.keys());
        !pod.spec.resource_claims.is_empty()
            || (!self.classes.is_empty() && resources.any(|name| name.contains('/')))
    }

    /// The claims of a pod, in its order.
    pub(super) fn of(&self, pod: &Pod) -> Vec<PodClaim> {
        let with_devices = |name: NamespacedName| {
            let allocation = self.claims.get(&name)?.status.allocation.as_ref();
            let results = allocation.into_iter().flat_map(|allocation| &allocation.devices.results);
            let devices = results.map(PodDevice::from).collect();
            Some(PodClaim { claim: name, devices })
        };
        claims_of(pod).into_iter().filter_map(with_devices).collect()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &ResourceClaim> {
        self.claims.values().map(|claim| &**claim)
    }

    pub(super) fn claim(&self, name: &NamespacedName) -> Option<&ResourceClaim> {
        self.claims.get(name).map(|claim| &**claim)
    }

    /// The claims that the input does not have, or has otherwise.
    pub(super) fn changed(&self) -> impl Iterator<Item = &ResourceClaim> {
        self.changed.iter().filter_map(|name| self.claims.get(name)).map(|claim| &**claim)
    }
}

/// The owner and the entry that a claim was made for.
fn made_key(claim: &ResourceClaim) -> Option<(String, String)> {
    let metadata = &claim.metadata;
    let annotated = |name| metadata.annotation(name).filter(|_| !metadata.is_deleting());
    let entry =
        annotated(POD_CLAIM_NAME_ANNOTATION).or_else(|| annotated(POD_GROUP_CLAIM_NAME_ANNOTATION))?;
    Some((metadata.controller()?.uid.clone(), entry.to_owned()))
}

/// The names of the claims of a pod, in its order; that for extended resources is the last.
pub(super) fn claims_of(pod: &Pod) -> Vec<NamespacedName> {
    let made = |entry: &str| {
        let status = pod.status.resource_claim_statuses.iter().find(|status| status.name == entry);
        status.and_then(|status| status.resource_claim_name.as_deref())
    };
    let entries = pod.spec.resource_claims.iter();
    let named =
        entries.filter_map(|entry| entry.resource_claim_name.as_deref().or_else(|| made(&entry.name)));
    let extended = pod.status.extended_resource_claim_status.as_ref();
    let extended = extended.map(|status| status.resource_claim_name.as_str());
    named.chain(extended).map(|name| NamespacedName::new(&pod.metadata.namespace, name)).collect()
}

/// What a claim is made for from a template.
struct ClaimOwner {
    namespace: String,
    reference: OwnerReference,
    /// The annotation with the name of the entry.
    annotation: &'static str,
}

impl ClaimOwner {
    fn pod(pod: &ObjectMeta) -> ClaimOwner {
        let reference = OwnerReference { block_owner_deletion: Some(true), ..OwnerReference::of_pod(pod) };
        ClaimOwner { namespace: pod.namespace.clone(), reference, annotation: POD_CLAIM_NAME_ANNOTATION }
    }

    fn pod_group(group: &ObjectMeta) -> ClaimOwner {
        let of_pod = ClaimOwner::pod(group);
        let (api_version, kind) = (POD_GROUPS.api_version(), POD_GROUPS.kind.to_owned());
        let reference = OwnerReference { api_version, kind, ..of_pod.reference };
        ClaimOwner { reference, annotation: POD_GROUP_CLAIM_NAME_ANNOTATION, ..of_pod }
    }
}
