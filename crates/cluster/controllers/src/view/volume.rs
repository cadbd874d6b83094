//! Persistent volumes, claims and storage classes.

use berth_api::object::volume::{ClaimReference, ClaimVolume, PersistentVolumeStatus, TopologySelectorTerm};
use berth_api::object::{LabelSelector, NamespacedName, ResourceList};
use berth_api::syntax::quantity::Quantity;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ObjectMeta, nullable};
use crate::index::Index;

/// Annotation of a claim with its class, in the oldest form.
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const STORAGE: &str = "storage";

/// A persistent volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PersistentVolume {
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: PersistentVolumeSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: PersistentVolumeStatus,
}

/// `spec` of a persistent volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PersistentVolumeSpec {
    #[serde(deserialize_with = "nullable")]
    pub(crate) capacity: ResourceList,
    #[serde(deserialize_with = "nullable")]
    pub(crate) access_modes: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) volume_mode: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) storage_class_name: String,
    pub(crate) claim_ref: Option<ClaimReference>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) persistent_volume_reclaim_policy: String,
}

/// A persistent volume claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PersistentVolumeClaim {
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: PersistentVolumeClaimSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: PersistentVolumeClaimStatus,
}

/// `spec` of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PersistentVolumeClaimSpec {
    #[serde(deserialize_with = "nullable")]
    pub(crate) access_modes: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    resources: Resources,
    pub(crate) selector: Option<LabelSelector>,
    pub(crate) storage_class_name: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) volume_name: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) volume_mode: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Resources {
    #[serde(deserialize_with = "nullable")]
    requests: ResourceList,
}

/// `status` of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PersistentVolumeClaimStatus {
    #[serde(deserialize_with = "nullable")]
    pub(crate) phase: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) access_modes: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) capacity: ResourceList,
}

/// A storage class.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StorageClass {
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) provisioner: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) reclaim_policy: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) volume_binding_mode: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) mount_options: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) allowed_topologies: Vec<TopologySelectorTerm>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) allow_volume_expansion: bool,
}

/// A volume of a pod that needs a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodVolume {
    pub(crate) name: String,
    pub(crate) persistent_volume_claim: Option<ClaimVolume>,
    pub(crate) ephemeral: Option<EphemeralSource>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EphemeralSource {
    #[serde(deserialize_with = "nullable")]
    pub(crate) volume_claim_template: Value,
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
    /// Its index keys.
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
    /// Its index keys.
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

    /// The requested amount as a list of resources.
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
