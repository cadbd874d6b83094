//! Persistent volumes and claims.

use serde::{Deserialize, Serialize};

use super::disk::{
    AwsElasticBlockStore, AzureDisk, AzureFile, Cinder, CsiVolume, GcePersistentDisk, InTreeDisks,
    PortworxVolume, VsphereVolume,
};
use crate::object::{LabelSelector, NodeSelector, ObjectMeta, ResourceList, nullable};
use crate::syntax::quantity::Quantity;

/// The annotation with the storage class, from before `storageClassName`; it wins over the field.
pub const STORAGE_CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The annotation of a claim with the node that its volume is to be provisioned for.
pub const SELECTED_NODE_ANNOTATION: &str = "volume.kubernetes.io/selected-node";

/// The annotation of a claim whose binding has been completed.
pub const BIND_COMPLETED_ANNOTATION: &str = "pv.kubernetes.io/bind-completed";

/// The annotation of a volume or claim that a controller (not a user) has bound.
pub const BOUND_BY_CONTROLLER_ANNOTATION: &str = "pv.kubernetes.io/bound-by-controller";

/// The resource that a volume has and a claim requests.
pub const STORAGE: &str = "storage";

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolume {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: PersistentVolumeSpec,
    #[serde(deserialize_with = "nullable")]
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
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeSpec {
    /// Its size, as the resource [`STORAGE`].
    #[serde(deserialize_with = "nullable")]
    pub capacity: ResourceList,
    /// `ReadWriteOnce`, `ReadOnlyMany`, `ReadWriteMany` or `ReadWriteOncePod`.
    #[serde(deserialize_with = "nullable")]
    pub access_modes: Vec<String>,
    /// The claim that it belongs to or is reserved for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_ref: Option<ClaimReference>,
    /// Name of its storage class; empty for none.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub storage_class_name: String,
    /// `Filesystem` (also when absent) or `Block`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<String>,
    /// The nodes that can use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<VolumeNodeAffinity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_attributes_class_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi: Option<CsiVolume>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws_elastic_block_store: Option<AwsElasticBlockStore>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gce_persistent_disk: Option<GcePersistentDisk>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure_disk: Option<AzureDisk>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure_file: Option<AzureFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cinder: Option<Cinder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vsphere_volume: Option<VsphereVolume>,
    #[serde(skip_serializing_if = "Option::is_none")]
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

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimReference {
    #[serde(deserialize_with = "nullable")]
    pub namespace: String,
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Unique identifier; empty while the volume is only reserved for a claim of that name.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeNodeAffinity {
    /// The nodes that can use the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeStatus {
    /// `Pending`, `Available`, `Bound`, `Released` or `Failed`.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaim {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: PersistentVolumeClaimSpec,
    #[serde(deserialize_with = "nullable")]
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
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimSpec {
    /// The access modes that the volume must have.
    #[serde(deserialize_with = "nullable")]
    pub access_modes: Vec<String>,
    /// Labels that the volume must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// The size requested, as the resource [`STORAGE`].
    #[serde(deserialize_with = "nullable")]
    pub resources: VolumeResources,
    /// The volume that the claim is bound to or asks for; empty for none.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub volume_name: String,
    /// Name of the storage class. Absent until a default class is known; empty for volumes without a class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// `Filesystem` (also when absent) or `Block`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_attributes_class_name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeResources {
    #[serde(deserialize_with = "nullable")]
    pub requests: ResourceList,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimStatus {
    /// `Pending`, `Bound` or `Lost`.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub phase: String,
}
