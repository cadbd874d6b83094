//! Claims, persistent volumes and storage classes.

use berth_api::object::volume::{ClaimVolume, PersistentVolume, PersistentVolumeClaim, TopologySelectorTerm};
use serde_json::Value;

use super::ObjectMeta;
use crate::index::Index;

berth_api::object_types! {
    pub(crate) struct StorageClass {
        pub(crate) metadata: ObjectMeta,
        pub(crate) provisioner: String,
        pub(crate) reclaim_policy: String,
        pub(crate) volume_binding_mode: String,
        pub(crate) mount_options: Vec<String>,
        pub(crate) allowed_topologies: Vec<TopologySelectorTerm>,
        pub(crate) allow_volume_expansion: bool,
    }

    /// A volume of a pod that needs a claim.
    pub(crate) struct PodVolume {
        pub(crate) name: String,
        pub(crate) persistent_volume_claim: Option<ClaimVolume>,
        pub(crate) ephemeral: Option<EphemeralSource>,
    }

    pub(crate) struct EphemeralSource {
        pub(crate) volume_claim_template: Value,
    }
}

impl PodVolume {
    /// The name of its claim in the pod's namespace.
    pub(crate) fn claim_name(&self, pod: &str) -> Option<String> {
        match (&self.persistent_volume_claim, &self.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => Some(format!("{pod}-{}", self.name)),
            (None, None) => None,
        }
    }
}

pub(crate) fn index_volume(volume: &PersistentVolume, add: &mut dyn FnMut(Index)) {
    add(match volume.claim() {
        Some(claim) => Index::Claim(claim),
        None => Index::Class(volume.storage_class().to_owned()),
    });
}

pub(crate) fn index_claim(claim: &PersistentVolumeClaim, add: &mut dyn FnMut(Index)) {
    Index::of_metadata(&claim.metadata, add);
    if !claim.spec.volume_name.is_empty() {
        add(Index::Volume(claim.spec.volume_name.clone()));
    }
    if claim.status.phase != "Bound" {
        add(Index::Class(claim.storage_class().to_owned()));
    }
}

impl StorageClass {
    /// Whether its claims wait until a pod that uses them has a node.
    pub(crate) fn waits_for_first_consumer(&self) -> bool {
        self.volume_binding_mode == "WaitForFirstConsumer"
    }
}
