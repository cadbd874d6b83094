//! The volumes of a pod.

use serde::{Deserialize, Serialize};

use super::disk::{
    AwsElasticBlockStore, AzureDisk, AzureFile, Cinder, CsiVolume, GcePersistentDisk, ImageVolume,
    InTreeDisks, Iscsi, PortworxVolume, Rbd, VsphereVolume,
};
use super::persistent::PersistentVolumeClaimSpec;
use crate::object::nullable;

/// A volume of a pod, as far as placement depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<ClaimVolume>,
    /// A claim that is created for the pod, named after the pod and the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<EphemeralVolume>,
    /// A CSI volume without a claim.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iscsi: Option<Iscsi>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rbd: Option<Rbd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageVolume>,
    /// A directory that exists as long as the pod is on its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty_dir: Option<LocalVolume>,
    /// A directory of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_path: Option<LocalVolume>,
}

/// Storage of the node. Its details are not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LocalVolume {}

impl Volume {
    /// A volume with a claim.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimVolume {
    #[serde(deserialize_with = "nullable")]
    pub claim_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EphemeralVolume {
    /// The claim that is created for the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_claim_template: Option<VolumeClaimTemplate>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeClaimTemplate {
    #[serde(deserialize_with = "nullable")]
    pub spec: PersistentVolumeClaimSpec,
}
