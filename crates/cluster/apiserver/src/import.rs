//! Import of a dump: objects are stored unchanged. Those that a user wrote are completed as on creation.

use std::collections::HashSet;

use berth_schema::resource::{
    LIMIT_RANGES, NAMESPACES, PERSISTENT_VOLUMES, PRIORITY_CLASSES, RUNTIME_CLASSES, Resource, SERVICES,
    STORAGE_CLASSES, of_kind,
};
use berth_schema::{decode, type_of};
use futures::{StreamExt as _, stream};
use serde_json::Value;

use crate::bootstrap::ensure_namespace;
use crate::handlers::{Api, stored_value};
use crate::lifecycle;
use crate::request::User;
use crate::store::{Change, Write, WriteError, key};
use crate::strategy::fields::{default, object};
use crate::strategy::metadata::{add_finalizer, now};

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("object {index} of the import ({kind}) has no metadata.name")]
    NoName {
        index: usize,
        /// Its kind; may be empty.
        kind: String,
    },
    #[error("{kind} {name:?}: {source}: correct or remove it")]
    Decode { kind: String, name: String, source: Box<berth_schema::DecodeError> },
    #[error("{kind} {name:?}: {source}")]
    Write {
        kind: String,
        /// `namespace/name`.
        name: String,
        source: WriteError,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub stored: usize,
    /// Number of objects that already existed and are unchanged.
    pub present: usize,
    /// Objects of kinds that are not served.
    pub unknown: usize,
}

impl Imported {
    fn count(&mut self, stored: bool) {
        if stored {
            self.stored += 1;
        } else {
            self.present += 1;
        }
    }
}

/// Number of writes in a batch; on disk they share a commit.
const AT_ONCE: usize = 512;

/// Stores objects verbatim: uid, status and timestamps stay; only owner references to objects that are neither in the
/// dump nor in the store are dropped, since garbage collection would delete their dependents. What every stored object
/// has, and manifests written by hand lack, is added: defaults, uid, creation time, phase and finalizer of a namespace. An object without
/// a creation time is completed as one that is created: with what admission decides, such as the priority of a pod. Missing
/// namespaces are created.
///
/// # Errors
/// An object has no name or a field of the wrong type, or cannot be stored.
pub(crate) async fn import(api: &Api, objects: Vec<Value>) -> Result<Imported, ImportError> {
    let store = &api.store;
    let mut imported = Imported::default();
    let mut to_create = Vec::with_capacity(objects.len());
    for (index, mut value) in objects.into_iter().enumerate() {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let shown = of_kind(&text("apiVersion"), &text("kind"));
        let Some((shown, resource)) = shown.and_then(|shown| Some((shown, shown.stored()?))) else {
            imported.unknown += 1;
            continue;
        };
        if key(&value).1.is_empty() {
            return Err(ImportError::NoName { index, kind: text("kind") });
        }
        // As a request is read: numbers become quantities where the API has quantities.
        if let Some(ty) = type_of(shown.group, shown.version, shown.kind).filter(|_| shown.custom.is_none()) {
            let (kind, name) = (text("kind"), key(&value).1.to_owned());
            decode(ty, &mut value).map_err(|source| ImportError::Decode {
                kind,
                name,
                source: Box::new(source),
            })?;
        }
        to_create.push((resource, stored_value(shown, value)));
    }
    // Namespaces first: watches see them before their objects.
    let (namespaces, mut rest): (Vec<_>, Vec<_>) =
        to_create.into_iter().partition(|(resource, _)| resource.plural == "namespaces");
    let uids: HashSet<String> = namespaces
        .iter()
        .chain(&rest)
        .filter_map(|(_, value)| value["metadata"]["uid"].as_str().map(str::to_owned))
        .collect();
    let mut needed: Vec<String> = rest
        .iter()
        .filter(|(resource, _)| resource.namespaced)
        .map(|(_, value)| namespace_of(value).to_owned())
        .collect();
    needed.sort_unstable();
    needed.dedup();
    for (resource, value) in namespaces {
        imported.count(put(api, resource, value, &uids).await?);
    }
    for name in needed {
        ensure_namespace(store, &name).await.map_err(|source| ImportError::Write {
            kind: "Namespace".to_owned(),
            name,
            source,
        })?;
    }
    // One after the other: each gets an address that no other has.
    let is_new_service =
        |(resource, value): &(&Resource, Value)| **resource == SERVICES && is_written_by_hand(value);
    for (resource, value) in rest.extract_if(.., |object| is_new_service(object)) {
        imported.count(put(api, resource, value, &uids).await?);
    }
    // Admission of the others reads them, and claims find their volumes.
    let first = [&LIMIT_RANGES, &PRIORITY_CLASSES, &RUNTIME_CLASSES, &STORAGE_CLASSES, &PERSISTENT_VOLUMES];
    let (first, rest): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|(resource, _)| first.contains(resource));
    let uids = &uids;
    for objects in [first, rest] {
        let writes = stream::iter(objects).map(|(resource, value)| put(api, resource, value, uids));
        let mut writes = writes.buffer_unordered(AT_ONCE);
        while let Some(stored) = writes.next().await {
            imported.count(stored?);
        }
    }
    Ok(imported)
}

/// Whether no API server has stored the object before.
fn is_written_by_hand(value: &Value) -> bool {
    value["metadata"]["creationTimestamp"].is_null()
}

fn namespace_of(value: &Value) -> &str {
    Some(key(value).0).filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

/// Stores one object; returns whether it is new.
async fn put(
    api: &Api,
    resource: &'static Resource,
    mut value: Value,
    uids: &HashSet<String>,
) -> Result<bool, ImportError> {
    let namespace = namespace_of(&value).to_owned();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        if resource.namespaced {
            metadata.insert("namespace".to_owned(), Value::from(namespace.as_str()));
        } else {
            metadata.remove("namespace");
        }
        if metadata.get("uid").and_then(Value::as_str).is_none_or(str::is_empty) {
            metadata.insert("uid".to_owned(), Value::from(uuid::Uuid::new_v4().to_string()));
        }
        if let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
            owners.retain(|owner| owner["uid"].as_str().is_some_and(|uid| uids.contains(uid)));
        }
    }
    if is_written_by_hand(&value) {
        lifecycle::complete_written(&api.context(&User::admin(), resource, ""), resource, &mut value);
    }
    if let Some(metadata) = object(&mut value, "metadata") {
        default(metadata, "creationTimestamp", now());
    }
    // The first update would set them, and change what it may not.
    lifecycle::default_object(resource, &mut value);
    if *resource == NAMESPACES && value["metadata"]["deletionTimestamp"].is_null() {
        add_finalizer(&mut value, "spec", "kubernetes");
        if let Some(status) = object(&mut value, "status") {
            default(status, "phase", "Active");
        }
    }
    let kind = resource.kind.to_owned();
    let (namespace, name) = key(&value);
    let name = format!("{namespace}/{name}");
    match api.store.write(Write { resource, change: Change::Import, object: value.into() }).await {
        Ok(_) => Ok(true),
        Err(WriteError::AlreadyExists) => Ok(false),
        Err(source) => Err(ImportError::Write { kind, name, source }),
    }
}
