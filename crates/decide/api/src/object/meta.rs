//! Metadata and label selectors, common to all kinds.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{NamespacedName, Shared, is_zero, nullable, time};

/// Labels or annotations.
pub type StringMap = BTreeMap<String, String>;

/// `metadata` of an object, as far as any component reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// Name; empty when the server is to generate one.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Prefix for a generated name.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    /// Namespace; empty on cluster-scoped objects and before defaulting.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Unique identifier given by the server.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Version of the stored object; empty in manifests.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Number of changes of the specification; 0 when absent.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_zero")]
    pub generation: i64,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: Shared<StringMap>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: Shared<StringMap>,
    /// Owners; the one with `controller: true` manages the object.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Shared<Vec<OwnerReference>>,
    /// Keys that clients must remove before the server removes the deleted object.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Shared<Vec<String>>,
    /// When the server stored the object; absent in manifests.
    #[serde(with = "time", skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    /// Set while the object is being deleted.
    #[serde(with = "time", skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    /// Seconds between the request to delete the object and `deletion_timestamp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
}

impl ObjectMeta {
    pub fn namespaced_name(&self) -> NamespacedName {
        NamespacedName::new(&self.namespace, &self.name)
    }

    /// The owner that manages this object, if any.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|o| o.controller == Some(true))
    }

    /// Whether the object with this uid manages this one.
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|owner| owner.uid == uid)
    }

    /// Whether the object is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }
}

/// An object of any kind, as far as its metadata goes; as in `meta.k8s.io`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PartialObjectMetadata {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
}

/// A reference to an owning object in the same namespace (or a cluster-scoped one).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Group and version of the owner.
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub uid: String,
    /// Whether the owner manages the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether foreground deletion of the owner waits for the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// A pod as the controller of objects in its namespace.
    pub fn of_pod(pod: &ObjectMeta) -> OwnerReference {
        OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            controller: Some(true),
            block_owner_deletion: None,
        }
    }
}

/// A label selector of the API: `matchLabels` and `matchExpressions` are ANDed.
///
/// An empty selector matches everything; a null one (an absent `Option`) matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Equality requirements.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: StringMap,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// One requirement of a label selector or node selector of the API.
///
/// The operator is text: which operators are valid depends on the field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectorRequirement {
    /// Label key (or field name, in `matchFields`; annotation key, in `matchAnnotations`).
    #[serde(deserialize_with = "nullable")]
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, and where allowed `Gt`, `Lt`, `VersionGt`, `VersionLt`.
    #[serde(deserialize_with = "nullable")]
    pub operator: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}
