//! Volumes: the objects that decide where a pod with volumes may run, and the volumes of a pod.

mod disk;
mod persistent;
mod source;
mod storage;

use serde::{Deserialize, Serialize};

pub use self::disk::*;
pub use self::persistent::*;
pub use self::source::*;
pub use self::storage::*;
use super::ObjectMeta;
use crate::resource::{self, Resource};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VolumeKind {
    /// `v1` PersistentVolume.
    PersistentVolume,
    /// `v1` PersistentVolumeClaim.
    PersistentVolumeClaim,
    /// `storage.k8s.io` StorageClass.
    StorageClass,
    /// `storage.k8s.io` CSINode.
    CsiNode,
    /// `storage.k8s.io` CSIDriver.
    CsiDriver,
    /// `storage.k8s.io` CSIStorageCapacity.
    CsiStorageCapacity,
    /// `storage.k8s.io` VolumeAttachment.
    VolumeAttachment,
}

impl VolumeKind {
    pub const ALL: [VolumeKind; 7] = [
        VolumeKind::PersistentVolume,
        VolumeKind::PersistentVolumeClaim,
        VolumeKind::StorageClass,
        VolumeKind::CsiNode,
        VolumeKind::CsiDriver,
        VolumeKind::CsiStorageCapacity,
        VolumeKind::VolumeAttachment,
    ];

    /// The resource that objects of this kind belong to.
    pub fn resource(self) -> Resource {
        match self {
            VolumeKind::PersistentVolume => resource::PERSISTENT_VOLUMES,
            VolumeKind::PersistentVolumeClaim => resource::PERSISTENT_VOLUME_CLAIMS,
            VolumeKind::StorageClass => resource::STORAGE_CLASSES,
            VolumeKind::CsiNode => resource::CSI_NODES,
            VolumeKind::CsiDriver => resource::CSI_DRIVERS,
            VolumeKind::CsiStorageCapacity => resource::CSI_STORAGE_CAPACITIES,
            VolumeKind::VolumeAttachment => resource::VOLUME_ATTACHMENTS,
        }
    }
}

/// An object that decides where pods with volumes may run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VolumeObject {
    PersistentVolume(Box<PersistentVolume>),
    PersistentVolumeClaim(Box<PersistentVolumeClaim>),
    StorageClass(StorageClass),
    /// The CSI drivers of a node.
    CsiNode(CsiNode),
    CsiDriver(CsiDriver),
    /// The free capacity of a driver in a topology.
    CsiStorageCapacity(CsiStorageCapacity),
    /// An attachment of a volume to a node.
    VolumeAttachment(VolumeAttachment),
}

impl VolumeObject {
    pub fn kind(&self) -> VolumeKind {
        match self {
            VolumeObject::PersistentVolume(_) => VolumeKind::PersistentVolume,
            VolumeObject::PersistentVolumeClaim(_) => VolumeKind::PersistentVolumeClaim,
            VolumeObject::StorageClass(_) => VolumeKind::StorageClass,
            VolumeObject::CsiNode(_) => VolumeKind::CsiNode,
            VolumeObject::CsiDriver(_) => VolumeKind::CsiDriver,
            VolumeObject::CsiStorageCapacity(_) => VolumeKind::CsiStorageCapacity,
            VolumeObject::VolumeAttachment(_) => VolumeKind::VolumeAttachment,
        }
    }

    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            VolumeObject::PersistentVolume(o) => &o.metadata,
            VolumeObject::PersistentVolumeClaim(o) => &o.metadata,
            VolumeObject::StorageClass(o) => &o.metadata,
            VolumeObject::CsiNode(o) => &o.metadata,
            VolumeObject::CsiDriver(o) => &o.metadata,
            VolumeObject::CsiStorageCapacity(o) => &o.metadata,
            VolumeObject::VolumeAttachment(o) => &o.metadata,
        }
    }

    /// The metadata, to change it.
    pub fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            VolumeObject::PersistentVolume(o) => &mut o.metadata,
            VolumeObject::PersistentVolumeClaim(o) => &mut o.metadata,
            VolumeObject::StorageClass(o) => &mut o.metadata,
            VolumeObject::CsiNode(o) => &mut o.metadata,
            VolumeObject::CsiDriver(o) => &mut o.metadata,
            VolumeObject::CsiStorageCapacity(o) => &mut o.metadata,
            VolumeObject::VolumeAttachment(o) => &mut o.metadata,
        }
    }
}

/// What a decision does about the claims of the pod that are not bound yet. The names are those of the pod's
/// namespace; both lists are sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VolumeDecision {
    /// Claims to bind to existing volumes: the claim, and the volume.
    pub bind: Vec<(String, String)>,
    /// Claims whose volumes are to be provisioned for the chosen node.
    pub provision: Vec<String>,
}

impl VolumeDecision {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.bind.is_empty() && self.provision.is_empty()
    }
}
