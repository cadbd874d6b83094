//! Persistent volumes, claims and storage classes.

use berth_api::object::volume::{
    ClaimReference, ClaimVolume, PersistentVolumeStatus, STORAGE, STORAGE_CLASS_ANNOTATION as BETA_CLASS,
    TopologySelectorTerm,
};
use berth_api::object::{LabelSelector, NamespacedName, ResourceList};
use berth_api::syntax::quantity::Quantity;
use serde::Serialize;
use serde_json::Value;

use super::{Object, ObjectMeta};
use crate::index::Index;

pub(crate) type PersistentVolume = Object<PersistentVolumeSpec, PersistentVolumeStatus>;
pub(crate) type PersistentVolumeClaim = Object<PersistentVolumeClaimSpec, PersistentVolumeClaimStatus>;

berth_api::object_types! {
    pub(crate) struct PersistentVolumeSpec {
        pub(crate) capacity: ResourceList,
        pub(crate) access_modes: Vec<String>,
        pub(crate) volume_mode: String,
        pub(crate) storage_class_name: String,
        pub(crate) claim_ref: Option<ClaimReference>,
        pub(crate) persistent_volume_reclaim_policy: String,
    }

    pub(crate) struct PersistentVolumeClaimSpec {
        pub(crate) access_modes: Vec<String>,
        resources: Resources,
        pub(crate) selector: Option<LabelSelector>,
        pub(crate) storage_class_name: Option<String>,
        pub(crate) volume_name: String,
        pub(crate) volume_mode: String,
    }

    struct Resources {
        requests: ResourceList,
    }

    #[derive(PartialEq, Eq, Serialize)]
    pub(crate) struct PersistentVolumeClaimStatus {
        pub(crate) phase: String,
        pub(crate) access_modes: Vec<String>,
        pub(crate) capacity: ResourceList,
    }

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

impl PersistentVolume {
    pub(crate) fn index(&self, add: &mut dyn FnMut(Index)) {
        add(match self.claim_key() {
            Some(claim) => Index::Claim(claim),
            None => Index::Class(self.spec.storage_class_name.clone()),
        });
    }

    pub(crate) fn size(&self) -> Quantity {
        self.spec.capacity.get(STORAGE).copied().unwrap_or_default()
    }

    /// The key of the claim that it is bound to or reserved for.
    pub(crate) fn claim_key(&self) -> Option<NamespacedName> {
        self.spec.claim_ref.as_ref().map(|claim| NamespacedName::new(&claim.namespace, &claim.name))
    }

    /// Whether it is bound to this claim, or reserved for it.
    pub(crate) fn is_for(&self, claim: &PersistentVolumeClaim) -> bool {
        self.spec.claim_ref.as_ref().is_some_and(|reference| {
            let meta = &claim.metadata;
            reference.name == meta.name
                && reference.namespace == meta.namespace
                && (reference.uid.is_empty() || reference.uid == meta.uid)
        })
    }
}

impl PersistentVolumeClaim {
    pub(crate) fn index(&self, add: &mut dyn FnMut(Index)) {
        Index::of_metadata(&self.metadata, add);
        if !self.spec.volume_name.is_empty() {
            add(Index::Volume(self.spec.volume_name.clone()));
        }
        if self.status.phase != "Bound" {
            add(Index::Class(self.class().to_owned()));
        }
    }

    pub(crate) fn size(&self) -> Quantity {
        self.spec.resources.requests.get(STORAGE).copied().unwrap_or_default()
    }

    pub(crate) fn requests(&self) -> &ResourceList {
        &self.spec.resources.requests
    }

    /// The name of its class; empty if it has none.
    pub(crate) fn class(&self) -> &str {
        let named = self.metadata.annotation(BETA_CLASS).or(self.spec.storage_class_name.as_deref());
        named.unwrap_or_default()
    }

    /// Whether neither the claim nor an administrator says which class it has.
    pub(crate) fn needs_class(&self) -> bool {
        self.spec.storage_class_name.is_none() && self.metadata.annotation(BETA_CLASS).is_none()
    }
}

impl StorageClass {
    /// Whether its claims wait until a pod that uses them has a node.
    pub(crate) fn waits_for_first_consumer(&self) -> bool {
        self.volume_binding_mode == "WaitForFirstConsumer"
    }

    pub(crate) fn is_default(&self) -> bool {
        self.metadata.annotation("storageclass.kubernetes.io/is-default-class") == Some("true")
    }
}
