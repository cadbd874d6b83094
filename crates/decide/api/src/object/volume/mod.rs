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
use super::kinds::object_kinds;

object_kinds! {
    /// An object that decides where pods with volumes may run.
    VolumeKind, VolumeObject {
        PersistentVolume(Box<PersistentVolume>) = PERSISTENT_VOLUMES,
        PersistentVolumeClaim(Box<PersistentVolumeClaim>) = PERSISTENT_VOLUME_CLAIMS,
        StorageClass(StorageClass) = STORAGE_CLASSES,
        CsiNode(CsiNode) = CSI_NODES,
        CsiDriver(CsiDriver) = CSI_DRIVERS,
        CsiStorageCapacity(CsiStorageCapacity) = CSI_STORAGE_CAPACITIES,
        VolumeAttachment(VolumeAttachment) = VOLUME_ATTACHMENTS,
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
