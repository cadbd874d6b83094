//! The volumes of a pod.

use berth_api_macros::object_type;
use serde::{Deserialize, Serialize};

use super::disk::{
    AwsElasticBlockStore, AzureDisk, AzureFile, Cinder, CsiVolume, GcePersistentDisk, ImageVolume,
    InTreeDisks, Iscsi, PortworxVolume, Rbd, VsphereVolume,
};
use super::persistent::PersistentVolumeClaimSpec;

/// A volume of a pod, as far as placement depends on it.
#[object_type(Eq, Hash)]
pub struct Volume {
    pub name: String,
    pub persistent_volume_claim: Option<ClaimVolume>,
    /// A claim that is created for the pod, named after the pod and the volume.
    pub ephemeral: Option<EphemeralVolume>,
    /// A CSI volume without a claim.
    pub csi: Option<CsiVolume>,
    pub aws_elastic_block_store: Option<AwsElasticBlockStore>,
    pub gce_persistent_disk: Option<GcePersistentDisk>,
    pub azure_disk: Option<AzureDisk>,
    pub azure_file: Option<AzureFile>,
    pub cinder: Option<Cinder>,
    pub vsphere_volume: Option<VsphereVolume>,
    pub portworx_volume: Option<PortworxVolume>,
    pub iscsi: Option<Iscsi>,
    pub rbd: Option<Rbd>,
    pub image: Option<ImageVolume>,
    /// A directory that exists as long as the pod is on its node.
    pub empty_dir: Option<LocalVolume>,
    /// A directory of the node.
    pub host_path: Option<LocalVolume>,
}

/// Storage of the node. Its details are not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LocalVolume {}

impl Volume {
    pub fn of_claim(name: &str, claim_name: &str) -> Volume {
        let claim = ClaimVolume { claim_name: claim_name.to_owned() };
        Volume { name: name.to_owned(), persistent_volume_claim: Some(claim), ..Volume::default() }
    }

    /// Whether its source is one that is read: of other sources, such as the token of a service account, nothing but the name is.
    pub fn has_source(&self) -> bool {
        *self != Volume { name: self.name.clone(), ..Volume::default() }
    }

    /// Whether placement depends on it. Nearly every pod has others, such as the token of its service account.
    pub fn matters(&self) -> bool {
        let Volume { persistent_volume_claim, ephemeral, csi, iscsi, rbd, image, .. } = self;
        let has_claim = persistent_volume_claim.is_some() || ephemeral.is_some();
        let has_disk = iscsi.is_some() || rbd.is_some() || !self.in_tree_disks().is_empty();
        has_claim || has_disk || csi.is_some() || image.is_some()
    }

    /// Whether its contents stay on the node when the pod leaves.
    pub fn is_local(&self) -> bool {
        self.empty_dir.is_some() || self.host_path.is_some()
    }

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

/// A reference to a claim in the pod's namespace.
#[object_type(Eq, Hash)]
pub struct ClaimVolume {
    pub claim_name: String,
}

#[object_type(Eq, Hash)]
pub struct EphemeralVolume {
    /// The claim that is created for the pod.
    pub volume_claim_template: Option<VolumeClaimTemplate>,
}

#[object_type(Eq, Hash)]
pub struct VolumeClaimTemplate {
    pub spec: PersistentVolumeClaimSpec,
}
