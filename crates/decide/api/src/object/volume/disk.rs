//! The disks behind volumes.

use berth_api_macros::object_type;

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

#[object_type(Eq, Hash)]
pub struct CsiVolume {
    pub driver: String,
    /// What the driver calls the volume; empty in a pod's own CSI volume.
    pub volume_handle: String,
}

#[object_type(Eq, Hash)]
pub struct AwsElasticBlockStore {
    #[serde(rename = "volumeID")]
    pub volume_id: String,
    pub read_only: bool,
}

#[object_type(Eq, Hash)]
pub struct GcePersistentDisk {
    pub pd_name: String,
    pub read_only: bool,
}

#[object_type(Eq, Hash)]
pub struct AzureDisk {
    #[serde(rename = "diskURI")]
    pub disk_uri: String,
}

#[object_type(Eq, Hash)]
pub struct AzureFile {
    /// Name of the secret with the storage account.
    pub secret_name: String,
    pub share_name: String,
}

#[object_type(Eq, Hash)]
pub struct Cinder {
    #[serde(rename = "volumeID")]
    pub volume_id: String,
}

#[object_type(Eq, Hash)]
pub struct VsphereVolume {
    pub volume_path: String,
}

#[object_type(Eq, Hash)]
pub struct PortworxVolume {
    #[serde(rename = "volumeID")]
    pub volume_id: String,
}

#[object_type(Eq, Hash)]
pub struct Iscsi {
    pub iqn: String,
    pub read_only: bool,
}

#[object_type(Eq, Hash)]
pub struct Rbd {
    /// The addresses of the monitors.
    pub monitors: Vec<String>,
    pub image: String,
    /// The pool; the API server's default is `rbd`.
    pub pool: String,
    pub read_only: bool,
}

#[object_type(Eq, Hash)]
pub struct ImageVolume {
    pub reference: String,
}
