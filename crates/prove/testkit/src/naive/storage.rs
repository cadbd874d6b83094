//! The objects behind the volumes of pods, and what a scheduler has decided about them but not yet written.

use std::collections::BTreeMap;

use berth_api::object::volume::{
    ClaimReference, CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim,
    SELECTED_NODE_ANNOTATION, StorageClass, Volume, VolumeAttachment,
};
use berth_api::object::{NamespacedName, Pod, VolumeDecision, VolumeKind, VolumeObject};

/// Volumes, claims and the other objects that decide about them; names unique.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Storage {
    pub volumes: Vec<PersistentVolume>,
    pub claims: Vec<PersistentVolumeClaim>,
    pub classes: Vec<StorageClass>,
    /// The CSI drivers of nodes.
    pub csi_nodes: Vec<CsiNode>,
    pub csi_drivers: Vec<CsiDriver>,
    pub capacities: Vec<CsiStorageCapacity>,
    pub attachments: Vec<VolumeAttachment>,
    /// Volumes that are assumed to belong to a claim. Only `VolumeBinding` sees it.
    pub assumed_volumes: BTreeMap<String, ClaimReference>,
    /// Claims that are assumed to be provisioned for a node. Only `VolumeBinding` sees it.
    pub assumed_nodes: BTreeMap<NamespacedName, String>,
}

macro_rules! replace {
    ($list:expr, $object:expr) => {{
        let key = $object.metadata.namespaced_name();
        match $list.iter_mut().find(|old| old.metadata.namespaced_name() == key) {
            Some(old) => *old = $object,
            None => $list.push($object),
        }
    }};
}

impl Storage {
    /// Adds or changes an object. Nothing is assumed any longer about a changed volume or claim.
    pub fn set(&mut self, object: VolumeObject) {
        self.forget(object.kind(), &object.metadata().namespaced_name());
        match object {
            VolumeObject::PersistentVolume(o) => replace!(self.volumes, *o),
            VolumeObject::PersistentVolumeClaim(o) => replace!(self.claims, *o),
            VolumeObject::StorageClass(o) => replace!(self.classes, o),
            VolumeObject::CsiNode(o) => replace!(self.csi_nodes, o),
            VolumeObject::CsiDriver(o) => replace!(self.csi_drivers, o),
            VolumeObject::CsiStorageCapacity(o) => replace!(self.capacities, o),
            VolumeObject::VolumeAttachment(o) => replace!(self.attachments, o),
        }
    }

    pub fn objects(&self) -> impl Iterator<Item = VolumeObject> {
        let volumes = self.volumes.iter().cloned().map(Box::new).map(VolumeObject::PersistentVolume);
        let claims = self.claims.iter().cloned().map(Box::new).map(VolumeObject::PersistentVolumeClaim);
        let classes = self.classes.iter().cloned().map(VolumeObject::StorageClass);
        let csi_nodes = self.csi_nodes.iter().cloned().map(VolumeObject::CsiNode);
        let csi_drivers = self.csi_drivers.iter().cloned().map(VolumeObject::CsiDriver);
        let capacities = self.capacities.iter().cloned().map(VolumeObject::CsiStorageCapacity);
        let attachments = self.attachments.iter().cloned().map(VolumeObject::VolumeAttachment);
        let of_csi = csi_nodes.chain(csi_drivers).chain(capacities).chain(attachments);
        volumes.chain(claims).chain(classes).chain(of_csi)
    }

    /// Removes an object, if it exists.
    pub fn remove(&mut self, kind: VolumeKind, key: &NamespacedName) {
        self.forget(kind, key);
        match kind {
            VolumeKind::PersistentVolume => self.volumes.retain(|o| o.metadata.namespaced_name() != *key),
            VolumeKind::PersistentVolumeClaim => self.claims.retain(|o| o.metadata.namespaced_name() != *key),
            VolumeKind::StorageClass => self.classes.retain(|o| o.metadata.namespaced_name() != *key),
            VolumeKind::CsiNode => self.csi_nodes.retain(|o| o.metadata.namespaced_name() != *key),
            VolumeKind::CsiDriver => self.csi_drivers.retain(|o| o.metadata.namespaced_name() != *key),
            VolumeKind::CsiStorageCapacity => {
                self.capacities.retain(|o| o.metadata.namespaced_name() != *key)
            }
            VolumeKind::VolumeAttachment => self.attachments.retain(|o| o.metadata.namespaced_name() != *key),
        }
    }

    fn forget(&mut self, kind: VolumeKind, key: &NamespacedName) {
        match kind {
            VolumeKind::PersistentVolume => drop(self.assumed_volumes.remove(key.name())),
            VolumeKind::PersistentVolumeClaim => drop(self.assumed_nodes.remove(key)),
            _ => {}
        }
    }

    /// Assumes what was decided for a pod on a node.
    pub fn assume(&mut self, namespace: &str, node: &str, decision: &VolumeDecision) {
        for (claim, volume) in &decision.bind {
            let uid = self.claim(namespace, claim).map(|c| c.metadata.uid.clone()).unwrap_or_default();
            let reference = ClaimReference { namespace: namespace.to_owned(), name: claim.clone(), uid };
            self.assumed_volumes.insert(volume.clone(), reference);
        }
        for claim in &decision.provision {
            self.assumed_nodes.insert(NamespacedName::new(namespace, claim), node.to_owned());
        }
    }

    /// Takes back what was assumed. A volume that has been assumed for another claim since keeps it.
    pub fn restore(&mut self, namespace: &str, decision: &VolumeDecision) {
        for (claim, volume) in &decision.bind {
            self.assumed_volumes
                .retain(|name, of| name != volume || (&*of.namespace, &of.name) != (namespace, claim));
        }
        for claim in &decision.provision {
            self.assumed_nodes.remove(&NamespacedName::new(namespace, claim));
        }
    }

    /// A claim as it is stored.
    pub(crate) fn claim(&self, namespace: &str, name: &str) -> Option<&PersistentVolumeClaim> {
        self.claims.iter().find(|c| c.metadata.namespace == namespace && c.metadata.name == name)
    }

    /// A volume as it is stored.
    pub(crate) fn volume(&self, name: &str) -> Option<&PersistentVolume> {
        self.volumes.iter().find(|v| v.metadata.name == name)
    }

    pub(super) fn class(&self, name: &str) -> Option<&StorageClass> {
        self.classes.iter().find(|c| c.metadata.name == name)
    }

    pub(super) fn csi_node(&self, name: &str) -> Option<&CsiNode> {
        self.csi_nodes.iter().find(|n| n.metadata.name == name)
    }

    /// The node that a claim is to be provisioned for, assumed or stored.
    pub(super) fn selected_node<'a>(&'a self, claim: &'a PersistentVolumeClaim) -> Option<&'a str> {
        let assumed = self.assumed_nodes.get(&claim.metadata.namespaced_name()).map(String::as_str);
        assumed.or_else(|| claim.metadata.annotation(SELECTED_NODE_ANNOTATION))
    }

    /// The claim that a volume belongs to or is reserved for, assumed or stored.
    pub(super) fn claim_of<'a>(&'a self, volume: &'a PersistentVolume) -> Option<&'a ClaimReference> {
        self.assumed_volumes.get(&volume.metadata.name).or(volume.spec.claim_ref.as_ref())
    }
}

/// The claim of a volume of a pod: its name, and whether it is made for the pod.
pub(crate) fn claim_name(pod: &Pod, volume: &Volume) -> Option<(String, bool)> {
    if let Some(claim) = &volume.persistent_volume_claim {
        return Some((claim.claim_name.clone(), false));
    }
    volume.ephemeral.as_ref().map(|_| (format!("{}-{}", pod.metadata.name, volume.name), true))
}

/// The claim of an ephemeral volume must be controlled by its pod.
pub(super) fn made_for(pod: &Pod, claim: &PersistentVolumeClaim) -> Result<(), String> {
    if claim.metadata.is_controlled_by(&pod.metadata.uid) {
        return Ok(());
    }
    let (namespace, name) = (&claim.metadata.namespace, &claim.metadata.name);
    Err(format!("PVC {namespace}/{name} was not created for pod {} (pod is not owner)", pod.key()))
}

pub(super) fn claim_not_found(name: &str) -> String {
    format!("persistentvolumeclaim {name:?} not found")
}
