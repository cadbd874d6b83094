//! Metadata.

use std::sync::Arc;

use berth_api::object::StringMap;
pub(crate) use berth_api::object::time::rfc3339;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::nullable;
use crate::cache::{Index, ObjectKey};

/// The part of `metadata` that controllers look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    #[serde(deserialize_with = "text")]
    pub(crate) name: Arc<str>,
    /// Empty on cluster-scoped objects.
    #[serde(deserialize_with = "text")]
    pub(crate) namespace: Arc<str>,
    #[serde(deserialize_with = "text")]
    pub(crate) uid: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) resource_version: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) generation: i64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) labels: StringMap,
    #[serde(deserialize_with = "nullable")]
    pub(crate) annotations: StringMap,
    #[serde(deserialize_with = "nullable")]
    pub(crate) owner_references: Vec<OwnerReference>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) finalizers: Vec<String>,
    #[serde(deserialize_with = "timestamp")]
    pub(crate) creation_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "timestamp")]
    pub(crate) deletion_timestamp: Option<Timestamp>,
}

/// An owner of an object: in the same namespace, or cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OwnerReference {
    #[serde(deserialize_with = "nullable")]
    pub(crate) api_version: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "text")]
    pub(crate) name: Arc<str>,
    #[serde(deserialize_with = "text")]
    pub(crate) uid: Arc<str>,
    pub(crate) controller: Option<bool>,
    pub(crate) block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// The reference as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let mut reference = json!({"apiVersion": self.api_version, "kind": self.kind, "name": &*self.name, "uid": &*self.uid});
        for (field, set) in
            [("controller", self.controller), ("blockOwnerDeletion", self.block_owner_deletion)]
        {
            if let Some(set) = set {
                reference[field] = set.into();
            }
        }
        reference
    }
}

impl Meta {
    /// Name and namespace.
    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// The owner that manages this object.
    pub(crate) fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller == Some(true))
    }

    pub(crate) fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|owner| &*owner.uid == uid)
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// Under which questions the object is found: by its controller, or among those without one, and by namespace.
    pub(crate) fn index(&self, add: &mut dyn FnMut(Index)) {
        add(Index::Namespace(self.namespace.clone()));
        add(match self.controller() {
            Some(owner) => Index::Controller(owner.uid.clone()),
            None => Index::Orphans(self.namespace.clone()),
        });
    }
}

/// Reads a text that is shared from then on.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.unwrap_or_default().into())
}

/// Reads a timestamp; what is not one counts as absent.
pub(crate) fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

/// An object of any kind, as far as its metadata goes.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct AnyObject {
    #[serde(default)]
    pub(crate) metadata: Meta,
}
