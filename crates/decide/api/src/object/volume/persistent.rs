//! Persistent volumes and claims.

use berth_api_macros::object_type;

use super::disk::{
    AwsElasticBlockStore, AzureDisk, AzureFile, Cinder, CsiVolume, GcePersistentDisk, InTreeDisks,
    PortworxVolume, VsphereVolume,
};
use crate::object::{LabelSelector, NamespacedName, NodeSelector, ObjectMeta, ResourceList};
use crate::syntax::quantity::Quantity;

/// The annotation with the storage class, from before `storageClassName`; it wins over the field.
pub const STORAGE_CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The annotation of a claim with the node that its volume is to be provisioned for.
pub const SELECTED_NODE_ANNOTATION: &str = "volume.kubernetes.io/selected-node";

/// The annotation of a claim whose binding has been completed.
pub const BIND_COMPLETED_ANNOTATION: &str = "pv.kubernetes.io/bind-completed";

/// The annotation of a volume or claim that a controller (not a user) has bound.
pub const BOUND_BY_CONTROLLER_ANNOTATION: &str = "pv.kubernetes.io/bound-by-controller";

/// The annotation of a volume with the name of the provisioner that created it.
pub const PROVISIONED_BY_ANNOTATION: &str = "pv.kubernetes.io/provisioned-by";

/// The resource that a volume has and a claim requests.
pub const STORAGE: &str = "storage";

#[object_type(Eq, Hash)]
pub struct PersistentVolume {
    pub metadata: ObjectMeta,
    pub spec: PersistentVolumeSpec,
    pub status: PersistentVolumeStatus,
}

impl PersistentVolume {
    pub fn capacity(&self) -> Quantity {
        self.spec.capacity.get(STORAGE).copied().unwrap_or_default()
    }

    /// The name of its storage class; empty for none.
    pub fn storage_class(&self) -> &str {
        self.metadata.annotation(STORAGE_CLASS_ANNOTATION).unwrap_or(&self.spec.storage_class_name)
    }

    /// The claim that it belongs to or is reserved for.
    pub fn claim(&self) -> Option<NamespacedName> {
        self.spec.claim_ref.as_ref().map(|claim| NamespacedName::new(&claim.namespace, &claim.name))
    }

    /// Whether it belongs to this claim or is reserved for it.
    pub fn is_for(&self, claim: &PersistentVolumeClaim) -> bool {
        self.spec.claim_ref.as_ref().is_some_and(|reference| {
            let meta = &claim.metadata;
            reference.name == meta.name
                && reference.namespace == meta.namespace
                && (reference.uid.is_empty() || reference.uid == meta.uid)
        })
    }
}

#[object_type(Eq, Hash)]
pub struct PersistentVolumeSpec {
    /// Its size, as the resource [`STORAGE`].
    pub capacity: ResourceList,
    /// `ReadWriteOnce`, `ReadOnlyMany`, `ReadWriteMany` or `ReadWriteOncePod`.
    pub access_modes: Vec<String>,
    /// The claim that it belongs to or is reserved for.
    pub claim_ref: Option<ClaimReference>,
    /// Name of its storage class; empty for none.
    pub storage_class_name: String,
    /// `Filesystem` (also when absent) or `Block`.
    pub volume_mode: Option<String>,
    /// `Retain`, `Delete` or `Recycle`.
    pub persistent_volume_reclaim_policy: String,
    /// The nodes that can use it.
    pub node_affinity: Option<VolumeNodeAffinity>,
    pub volume_attributes_class_name: Option<String>,
    pub csi: Option<CsiVolume>,
    pub aws_elastic_block_store: Option<AwsElasticBlockStore>,
    pub gce_persistent_disk: Option<GcePersistentDisk>,
    pub azure_disk: Option<AzureDisk>,
    pub azure_file: Option<AzureFile>,
    pub cinder: Option<Cinder>,
    pub vsphere_volume: Option<VsphereVolume>,
    pub portworx_volume: Option<PortworxVolume>,
}

impl PersistentVolumeSpec {
    /// Its in-tree disks with a CSI driver that replaces them; at most one in a valid volume.
    pub fn in_tree_disks(&self) -> InTreeDisks<'_> {
        InTreeDisks {
            aws_elastic_block_store: self.aws_elastic_block_store.as_ref(),
            gce_persistent_disk: self.gce_persistent_disk.as_ref(),
            azure_disk: self.azure_disk.as_ref(),
            azure_file: self.azure_file.as_ref(),
            cinder: self.cinder.as_ref(),
            vsphere_volume: self.vsphere_volume.as_ref(),
            portworx_volume: self.portworx_volume.as_ref(),
        }
    }
}

#[object_type(Eq, Hash)]
pub struct ClaimReference {
    pub namespace: String,
    pub name: String,
    /// Unique identifier; empty while the volume is only reserved for a claim of that name.
    pub uid: String,
}

#[object_type(Eq, Hash)]
pub struct VolumeNodeAffinity {
    /// The nodes that can use the volume.
    pub required: Option<NodeSelector>,
}

#[object_type(Eq, Hash)]
pub struct PersistentVolumeStatus {
    /// `Pending`, `Available`, `Bound`, `Released` or `Failed`.
    pub phase: String,
}

#[object_type(Eq, Hash)]
pub struct PersistentVolumeClaim {
    pub metadata: ObjectMeta,
    pub spec: PersistentVolumeClaimSpec,
    pub status: PersistentVolumeClaimStatus,
}

impl PersistentVolumeClaim {
    /// The size that it requests.
    pub fn requested(&self) -> Quantity {
        self.spec.resources.requests.get(STORAGE).copied().unwrap_or_default()
    }

    /// The name of its storage class; empty for none.
    pub fn storage_class(&self) -> &str {
        let annotated = self.metadata.annotation(STORAGE_CLASS_ANNOTATION);
        annotated.or(self.spec.storage_class_name.as_deref()).unwrap_or_default()
    }

    /// Whether neither the claim nor an administrator says which class it has.
    pub fn needs_class(&self) -> bool {
        self.spec.storage_class_name.is_none() && self.metadata.annotation(STORAGE_CLASS_ANNOTATION).is_none()
    }
}

#[object_type(Eq, Hash)]
pub struct PersistentVolumeClaimSpec {
    pub access_modes: Vec<String>,
    pub selector: Option<LabelSelector>,
    /// The size requested, as the resource [`STORAGE`].
    pub resources: VolumeResources,
    /// The volume that the claim is bound to or asks for; empty for none.
    pub volume_name: String,
    /// Name of the storage class. Absent until a default class is known; empty for volumes without a class.
    pub storage_class_name: Option<String>,
    /// `Filesystem` (also when absent) or `Block`.
    pub volume_mode: Option<String>,
    pub volume_attributes_class_name: Option<String>,
}

#[object_type(Eq, Hash)]
pub struct VolumeResources {
    pub requests: ResourceList,
}

#[object_type(Eq, Hash)]
pub struct PersistentVolumeClaimStatus {
    /// `Pending`, `Bound` or `Lost`.
    pub phase: String,
    /// Those of its volume.
    pub access_modes: Vec<String>,
    pub capacity: ResourceList,
}
