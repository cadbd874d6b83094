//! The disks behind volumes.

use serde::{Deserialize, Serialize};

use crate::object::nullable;

/// In-tree disks, where there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InTreeDisks<'a> {
    /// An AWS disk.
    pub aws_elastic_block_store: Option<&'a AwsElasticBlockStore>,
    /// A GCE disk.
    pub gce_persistent_disk: Option<&'a GcePersistentDisk>,
    /// An Azure disk.
    pub azure_disk: Option<&'a AzureDisk>,
    /// An Azure file share.
    pub azure_file: Option<&'a AzureFile>,
    /// An OpenStack volume.
    pub cinder: Option<&'a Cinder>,
    /// A vSphere volume.
    pub vsphere_volume: Option<&'a VsphereVolume>,
    /// A Portworx volume.
    pub portworx_volume: Option<&'a PortworxVolume>,
}

impl InTreeDisks<'_> {
    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self == InTreeDisks::default()
    }
}

/// A CSI volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiVolume {
    /// Name of the driver.
    #[serde(deserialize_with = "nullable")]
    pub driver: String,
    /// What the driver calls the volume; empty in a pod's own CSI volume.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub volume_handle: String,
}

/// An AWS disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AwsElasticBlockStore {
    /// The disk.
    #[serde(rename = "volumeID", deserialize_with = "nullable")]
    pub volume_id: String,
    /// Whether it is mounted read-only.
    #[serde(deserialize_with = "nullable")]
    pub read_only: bool,
}

/// A GCE disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GcePersistentDisk {
    /// The disk.
    #[serde(deserialize_with = "nullable")]
    pub pd_name: String,
    /// Whether it is mounted read-only.
    #[serde(deserialize_with = "nullable")]
    pub read_only: bool,
}

/// An Azure disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AzureDisk {
    /// The disk.
    #[serde(rename = "diskURI", deserialize_with = "nullable")]
    pub disk_uri: String,
}

/// An Azure file share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AzureFile {
    /// Name of the secret with the storage account.
    #[serde(deserialize_with = "nullable")]
    pub secret_name: String,
    /// Name of the share.
    #[serde(deserialize_with = "nullable")]
    pub share_name: String,
}

/// An OpenStack volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cinder {
    /// The disk.
    #[serde(rename = "volumeID", deserialize_with = "nullable")]
    pub volume_id: String,
}

/// A vSphere volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VsphereVolume {
    /// The disk.
    #[serde(deserialize_with = "nullable")]
    pub volume_path: String,
}

/// A Portworx volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PortworxVolume {
    /// The disk.
    #[serde(rename = "volumeID", deserialize_with = "nullable")]
    pub volume_id: String,
}

/// An iSCSI disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Iscsi {
    /// The qualified name.
    #[serde(deserialize_with = "nullable")]
    pub iqn: String,
    /// Whether it is mounted read-only.
    #[serde(deserialize_with = "nullable")]
    pub read_only: bool,
}

/// A Ceph disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rbd {
    /// The addresses of the monitors.
    #[serde(deserialize_with = "nullable")]
    pub monitors: Vec<String>,
    /// The image.
    #[serde(deserialize_with = "nullable")]
    pub image: String,
    /// The pool; the API server's default is `rbd`.
    #[serde(deserialize_with = "nullable")]
    pub pool: String,
    /// Whether it is mounted read-only.
    #[serde(deserialize_with = "nullable")]
    pub read_only: bool,
}

/// An image as a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageVolume {
    /// The image.
    #[serde(deserialize_with = "nullable")]
    pub reference: String,
}
