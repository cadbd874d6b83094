//! Metadata and label selectors, common to all kinds.

use berth_api_macros::object_type;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{NamespacedName, Shared, is_zero, nullable, time};

/// Labels or annotations.
pub type StringMap = BTreeMap<String, String>;

/// `metadata` of an object, as far as any component reads it.
#[object_type(Eq, Hash)]
pub struct ObjectMeta {
    /// Name; empty when the server is to generate one.
    pub name: String,
    /// Prefix for a generated name.
    pub generate_name: String,
    /// Namespace; empty on cluster-scoped objects and before defaulting.
    pub namespace: String,
    /// Unique identifier given by the server.
    pub uid: String,
    /// Version of the stored object; empty in manifests.
    pub resource_version: String,
    /// Number of changes of the specification; 0 when absent.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_zero")]
    pub generation: i64,
    pub labels: Shared<StringMap>,
    pub annotations: Shared<StringMap>,
    /// Owners; the one with `controller: true` manages the object.
    pub owner_references: Shared<Vec<OwnerReference>>,
    /// Keys that clients must remove before the server removes the deleted object.
    pub finalizers: Shared<Vec<String>>,
    /// When the server stored the object; absent in manifests.
    #[serde(with = "time", skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    /// Set while the object is being deleted.
    #[serde(with = "time", skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    /// Seconds between the request to delete the object and `deletion_timestamp`.
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
#[object_type(Eq, Hash)]
pub struct PartialObjectMetadata {
    pub metadata: ObjectMeta,
}

/// A reference to an owning object in the same namespace (or a cluster-scoped one).
#[object_type(Eq, Hash)]
pub struct OwnerReference {
    /// Group and version of the owner.
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    /// Whether the owner manages the object.
    pub controller: Option<bool>,
    /// Whether foreground deletion of the owner waits for the object.
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
#[object_type(Eq, Hash)]
pub struct LabelSelector {
    /// Equality requirements.
    pub match_labels: StringMap,
    pub match_expressions: Vec<SelectorRequirement>,
}

/// One requirement of a label selector or node selector of the API.
///
/// The operator is text: which operators are valid depends on the field.
#[object_type(Eq, Hash)]
pub struct SelectorRequirement {
    /// Label key (or field name, in `matchFields`; annotation key, in `matchAnnotations`).
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, and where allowed `Gt`, `Lt`, `VersionGt`, `VersionLt`.
    pub operator: String,
    pub values: Vec<String>,
}
