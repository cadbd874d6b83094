//! The disks behind volumes.

use serde::{Deserialize, Serialize};

use crate::object::nullable;

/// In-tree disks, where there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InTreeDisks<'a> {
    pub aws_elastic_block_store: Option<&'a AwsElasticBlockStore>,
    pub gce_persistent_disk: Option<&'a GcePersistentDisk>,
    pub azure_disk: Option<&'a AzureDisk>,
    pub azure_file: Option<&'a AzureFile>,
    pub cinder: Option<&'a Cinder>,
    pub vsphere_volume: Option<&'a VsphereVolume>,
    pub portworx_volume: Option<&'a PortworxVolume>,
}

impl InTreeDisks<'_> {
    pub fn is_empty(self) -> bool {
        self == InTreeDisks::default()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiVolume {
    #[serde(deserialize_with = "nullable")]
    pub driver: String,
    /// What the driver calls the volume; empty in a pod's own CSI volume.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub volume_handle: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AwsElasticBlockStore {
    #[serde(rename = "volumeID", deserialize_with = "nullable")]
    pub volume_id: String,
    /// Whether it is mounted read-only.
    #[serde(deserialize_with = "nullable")]
    pub read_only: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GcePersistentDisk {
    #[serde(deserialize_with = "nullable")]
    pub pd_name: String,
    /// Whether it is mounted read-only.
    #[serde(deserialize_with = "nullable")]
    pub read_only: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AzureDisk {
    #[serde(rename = "diskURI", deserialize_with = "nullable")]
    pub disk_uri: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AzureFile {
    /// Name of the secret with the storage account.
    #[serde(deserialize_with = "nullable")]
    pub secret_name: String,
    #[serde(deserialize_with = "nullable")]
    pub share_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cinder {
    #[serde(rename = "volumeID", deserialize_with = "nullable")]
    pub volume_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VsphereVolume {
    #[serde(deserialize_with = "nullable")]
    pub volume_path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PortworxVolume {
    #[serde(rename = "volumeID", deserialize_with = "nullable")]
    pub volume_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Iscsi {
    #[serde(deserialize_with = "nullable")]
    pub iqn: String,
    /// Whether it is mounted read-only.
    #[serde(deserialize_with = "nullable")]
    pub read_only: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rbd {
    /// The addresses of the monitors.
    #[serde(deserialize_with = "nullable")]
    pub monitors: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub image: String,
    /// The pool; the API server's default is `rbd`.
    #[serde(deserialize_with = "nullable")]
    pub pool: String,
    /// Whether it is mounted read-only.
    #[serde(deserialize_with = "nullable")]
    pub read_only: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageVolume {
    #[serde(deserialize_with = "nullable")]
    pub reference: String,
}
