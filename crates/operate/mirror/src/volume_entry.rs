//! Objects that decide where pods with volumes may run, as they are read.
//!
//! An object that cannot be read is reported in the log and counts as absent: it must not keep the others from being used.

use berth_api::object::volume::{
    BIND_COMPLETED_ANNOTATION, PersistentVolume, PersistentVolumeClaim, SELECTED_NODE_ANNOTATION,
};
use berth_api::object::{NamespacedName, VolumeKind, VolumeObject};
use berth_client::{KubeObject, StreamEvent};
use serde_json::Value;

/// A claim, as far as its binding is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimState {
    pub uid: String,
    /// `metadata.resourceVersion`, as a number.
    pub version: u64,
    /// The node that a volume is to be provisioned for.
    pub selected_node: Option<String>,
    pub has_annotations: bool,
    /// The volume; empty for none.
    pub volume_name: String,
    /// Whether the binding is complete.
    pub is_bound: bool,
}

impl From<&PersistentVolumeClaim> for ClaimState {
    fn from(claim: &PersistentVolumeClaim) -> ClaimState {
        let PersistentVolumeClaim { metadata, spec, .. } = claim;
        let is_complete = metadata.annotation(BIND_COMPLETED_ANNOTATION).is_some();
        ClaimState {
            uid: metadata.uid.clone(),
            version: metadata.resource_version.parse().unwrap_or_default(),
            selected_node: metadata.annotation(SELECTED_NODE_ANNOTATION).map(str::to_owned),
            has_annotations: !metadata.annotations.is_empty(),
            volume_name: spec.volume_name.clone(),
            is_bound: !spec.volume_name.is_empty() && is_complete,
        }
    }
}

/// A persistent volume, as far as its binding is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeState {
    /// `metadata.resourceVersion`, as a number.
    pub version: u64,
    /// The claim that it belongs to or is reserved for, and the claim's uid; the uid is empty while it is only reserved.
    pub claim: Option<(NamespacedName, String)>,
}

impl From<&PersistentVolume> for VolumeState {
    fn from(volume: &PersistentVolume) -> VolumeState {
        let claim = volume.spec.claim_ref.as_ref();
        VolumeState {
            version: volume.metadata.resource_version.parse().unwrap_or_default(),
            claim: claim.map(|c| (NamespacedName::new(&c.namespace, &c.name), c.uid.clone())),
        }
    }
}

/// An object of a watch; none if it could not be read.
pub(crate) struct VolumeEntry {
    pub(crate) object: Option<VolumeObject>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) version: String,
}

impl KubeObject for VolumeEntry {
    fn resource_version(&self) -> &str {
        &self.version
    }

    fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

pub(crate) fn entry(kind: VolumeKind, event: StreamEvent<Value>) -> StreamEvent<VolumeEntry> {
    event.map(|value| {
        let (namespace, name) = value.key();
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let version = value.resource_version().to_owned();
        let object = VolumeObject::decode(kind, &value);
        let object = object.inspect_err(|error| tracing::error!("{error}: the object is ignored")).ok();
        VolumeEntry { object, namespace, name, version }
    })
}
