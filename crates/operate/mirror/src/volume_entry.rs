//! Claims of volumes and persistent volumes, as far as their binding is concerned.

use berth_api::object::NamespacedName;
use berth_api::object::volume::{
    BIND_COMPLETED_ANNOTATION, PersistentVolume, PersistentVolumeClaim, SELECTED_NODE_ANNOTATION,
};

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
