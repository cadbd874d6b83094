//! Devices: objects of dynamic resource allocation, a driver with equal devices on each node, and the claims that a controller would
//! make from templates.

use std::collections::{BTreeMap, HashMap};

use berth_api::object::device::{
    Device, DeviceAttribute, DeviceCapacity, DeviceKind, DeviceObject, POD_CLAIM_NAME_ANNOTATION,
    ResourceClaim, ResourceClaimTemplate, ResourceSlice,
};
use berth_api::object::{
    NamespacedName, ObjectMeta, OwnerReference, Pod, PodResourceClaim, PodResourceClaimStatus,
};
use berth_api::syntax::quantity::Quantity;
use berth_engine::{Outcome, PreparedPod};
use jiff::Timestamp;

use super::super::Stop;
use super::super::format::{CreateAny, CreateResourceDriver};
use super::Runner;

/// What claims are made from, and those that operations created.
#[derive(Default)]
pub(super) struct Devices {
    templates: HashMap<NamespacedName, ResourceClaimTemplate>,
    claims: Vec<ResourceClaim>,
}

impl Runner<'_> {
    pub(super) fn create_device_object(
        &mut self,
        kind: DeviceKind,
        number: usize,
        op: &CreateAny,
    ) -> Result<(), Stop> {
        let manifest = self.templates.manifest(&op.template_path, number)?;
        let mut object = DeviceObject::decode(kind, &manifest.value)
            .map_err(|e| Stop::Failed(format!("{}: {e}", op.template_path)))?;
        let metadata = object.metadata_mut();
        self.name(metadata);
        metadata.uid.clone_from(&metadata.name);
        if kind.resource().namespaced {
            metadata.namespace.clone_from(&op.namespace);
        }
        self.cluster.set_device_object(&object);
        match object {
            DeviceObject::ResourceClaim(claim) => self.devices.claims.push(*claim),
            DeviceObject::ResourceClaimTemplate(template) => {
                self.devices.templates.insert(template.metadata.namespaced_name(), *template);
            }
            _ => {}
        }
        Ok(())
    }

    /// Publishes devices on the nodes whose names match.
    pub(super) fn create_resource_driver(&mut self, op: &CreateResourceDriver) -> Result<(), Stop> {
        let pattern = op.nodes.split_once('*').filter(|(_, end)| !end.contains(['*', '?', '[']));
        let Some((start, end)) = pattern.filter(|(start, _)| !start.contains(['?', '['])) else {
            return Err(Stop::NotSupported(format!("nodes {:?} of createResourceDriver", op.nodes)));
        };
        let is_named = |node: &&String| node.strip_prefix(start).is_some_and(|rest| rest.ends_with(end));
        for node in self.nodes.iter().filter(is_named) {
            let slice = slice(&op.driver_name, node, op.max_claims_per_node);
            self.cluster.set_device_object(&DeviceObject::ResourceSlice(Box::new(slice)));
        }
        Ok(())
    }

    /// Allocates the claims of a namespace, each on a node that is as good as drawn by lot.
    pub(super) fn alloc_resource_claims(&mut self, namespace: &str) -> Result<(), Stop> {
        const STRIDE: usize = 7_919;
        let is_meant = |claim: &ResourceClaim| namespace.is_empty() || claim.metadata.namespace == namespace;
        let claims: Vec<_> = self.devices.claims.iter().filter(|claim| is_meant(claim)).cloned().collect();
        for (i, claim) in claims.into_iter().enumerate() {
            let n_nodes = self.nodes.len();
            let mut nodes = (0..n_nodes).map(|n| &self.nodes[(i * STRIDE + n) % n_nodes]);
            let allocated = nodes.find_map(|node| {
                let pod = user_of(&claim, node);
                let prepared = self.cluster.prepare(&pod);
                let Outcome::Placed { devices: Some(decision), .. } = self.cluster.decide(&prepared) else {
                    return None;
                };
                let decided = decision.claims.first()?;
                Some(decided.written(Some(&claim), &pod.metadata, "", Timestamp::UNIX_EPOCH))
            });
            let Some(mut allocated) = allocated else {
                let claim = claim.metadata.namespaced_name();
                return Err(Stop::Failed(format!("allocResourceClaims: no node has devices for {claim}")));
            };
            allocated.status.reserved_for.clear();
            self.cluster.set_device_object(&DeviceObject::ResourceClaim(Box::new(allocated)));
        }
        Ok(())
    }

    /// Makes the claims of a pod from their templates, and names them in its status.
    pub(super) fn make_claims(&mut self, pod: &mut Pod) -> Result<(), Stop> {
        pod.metadata.uid = pod.key();
        for entry in pod.spec.resource_claims.clone().iter() {
            let Some(template) = &entry.resource_claim_template_name else { continue };
            let name = NamespacedName::new(&pod.metadata.namespace, template);
            let Some(template) = self.devices.templates.get(&name) else {
                return Err(Stop::Failed(format!("{}: there is no ResourceClaimTemplate {name}", pod.key())));
            };
            let mut claim = ResourceClaim { spec: template.spec.spec.clone(), ..ResourceClaim::default() };
            claim.metadata = ObjectMeta {
                name: format!("{}-{}", pod.metadata.name, entry.name),
                namespace: pod.metadata.namespace.clone(),
                owner_references: vec![OwnerReference::of_pod(&pod.metadata)].into(),
                ..ObjectMeta::default()
            };
            let annotation = (POD_CLAIM_NAME_ANNOTATION.to_owned(), entry.name.clone());
            claim.metadata.annotations = [annotation].into_iter().collect();
            claim.metadata.uid.clone_from(&claim.metadata.name);
            let resource_claim_name = Some(claim.metadata.name.clone());
            self.cluster.set_device_object(&DeviceObject::ResourceClaim(Box::new(claim)));
            let status = PodResourceClaimStatus { name: entry.name.clone(), resource_claim_name };
            pod.status.resource_claim_statuses.push(status);
        }
        Ok(())
    }

    /// Deletes a pod that was decided.
    pub(super) fn forget(&mut self, pod: &Pod, prepared: &PreparedPod, outcome: &Outcome) {
        self.cluster.remove_pod(&pod.metadata.namespace, &pod.metadata.name);
        if let Outcome::Placed { devices: Some(decision), .. } = outcome {
            self.cluster.restore_devices(&prepared.assumed_devices(decision, false));
        }
        self.remove_claims(pod);
    }

    /// Deletes the claims that were made for a pod.
    pub(super) fn remove_claims(&mut self, pod: &Pod) {
        let statuses = pod.status.resource_claim_statuses.iter();
        for name in statuses.filter_map(|status| status.resource_claim_name.as_ref()) {
            self.cluster.remove_device_object(DeviceKind::ResourceClaim, &pod.metadata.namespace, name);
        }
    }
}

fn user_of(claim: &ResourceClaim, node: &str) -> Pod {
    let mut pod = super::base_pod();
    pod.metadata.name = format!("user-of-{}", claim.metadata.name);
    pod.metadata.namespace.clone_from(&claim.metadata.namespace);
    pod.metadata.uid = pod.key();
    pod.spec.node_name = node.to_owned();
    pod.spec.containers = Vec::new().into();
    let resource_claim_name = Some(claim.metadata.name.clone());
    pod.spec.resource_claims =
        vec![PodResourceClaim { name: "devices".to_owned(), resource_claim_name, ..Default::default() }]
            .into();
    pod
}

/// The devices of a node, as the driver of `scheduler_perf` publishes them.
fn slice(driver: &str, node: &str, n_devices: usize) -> ResourceSlice {
    let text = |text: &str| DeviceAttribute::String(text.to_owned());
    let device = |i: usize| {
        let attributes = [
            ("model", text("A100")),
            ("family", text("GPU")),
            ("driverVersion", DeviceAttribute::Version("1.2.3".to_owned())),
            ("dra.example.com/numa", DeviceAttribute::Int(i64::try_from(i).unwrap_or(i64::MAX))),
        ];
        let memory = DeviceCapacity { value: Quantity::from_units(1 << 30), request_policy: None };
        Device {
            name: format!("instance-{i}"),
            attributes: attributes.map(|(name, value)| (name.to_owned(), value)).into(),
            capacity: BTreeMap::from([("memory".to_owned(), memory)]),
            ..Device::default()
        }
    };
    let mut slice = ResourceSlice::default();
    slice.metadata.name = node.to_owned();
    slice.spec.driver = driver.to_owned();
    slice.spec.node_name = Some(node.to_owned());
    slice.spec.pool.name = node.to_owned();
    slice.spec.pool.resource_slice_count = 1;
    slice.spec.devices = (0..n_devices).map(device).collect();
    slice
}
