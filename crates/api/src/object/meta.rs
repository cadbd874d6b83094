//! Metadata and label selectors, common to all kinds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{NamespacedName, nullable};

/// Labels or annotations.
pub type StringMap = BTreeMap<String, String>;

/// The part of `metadata` that placement looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Labels.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: StringMap,
    /// Annotations.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: StringMap,
    /// Owners; the one with `controller: true` manages the object.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// Set by the server when the object was stored: tells stored objects from manifests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// Set while the object is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
}

impl ObjectMeta {
    /// The namespace and name.
    pub fn namespaced_name(&self) -> NamespacedName {
        NamespacedName::new(&self.namespace, &self.name)
    }

    /// The owner that manages this object, if any.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|o| o.controller == Some(true))
    }
}

/// A reference to an owning object in the same namespace (or a cluster-scoped one).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Group and version of the owner.
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    /// Kind of the owner.
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    /// Name of the owner.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Unique identifier of the owner.
    #[serde(deserialize_with = "nullable")]
    pub uid: String,
    /// Whether the owner manages the object.
    pub controller: Option<bool>,
}

/// A label selector as written: `matchLabels` and `matchExpressions` are ANDed.
///
/// An empty selector matches everything; a null one (an absent `Option`) matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Equality requirements.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: StringMap,
    /// Set-based requirements.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// One requirement of a label selector or node selector, as written.
///
/// The operator is kept as text: whether it is a valid one depends on where it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectorRequirement {
    /// Label key (or field name, in `matchFields`).
    #[serde(deserialize_with = "nullable")]
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, and where allowed `Gt`, `Lt`.
    #[serde(deserialize_with = "nullable")]
    pub operator: String,
    /// Values.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}
