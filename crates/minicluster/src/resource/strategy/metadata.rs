//! Metadata: what the system gives an object, and what a change may not touch.

use serde_json::{Map, Value};

use super::Context;
use crate::resource::{Resource, find};
use crate::server::status::Status;

/// Kinds that count the changes of their spec.
const WITH_GENERATION: [&str; 10] = [
    "pods",
    "replicationcontrollers",
    "daemonsets",
    "deployments",
    "replicasets",
    "statefulsets",
    "jobs",
    "poddisruptionbudgets",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
];
/// Letters of generated names: no vowels, and nothing that looks like another.
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
const MAX_GENERATED_LENGTH: usize = 63;

/// The present, as objects write it.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A name with a random end.
pub fn generate_name(prefix: &str) -> String {
    let mut end = prefix.len().min(MAX_GENERATED_LENGTH - SUFFIX_LENGTH);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = prefix[..end].to_owned();
    name.extend((0..SUFFIX_LENGTH).map(|_| char::from(NAME_LETTERS[fastrand::usize(..NAME_LETTERS.len())])));
    name
}

fn has_generation(resource: &Resource) -> bool {
    WITH_GENERATION.contains(&resource.plural)
}

/// Gives a new object what the system gives.
pub fn prepare_create(resource: &Resource, value: &mut Value) -> Result<(), Box<Status>> {
    let Some(metadata) = value["metadata"].as_object_mut() else {
        return Err(Status::bad_request("metadata: Invalid value: an object is expected"));
    };
    for field in
        ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation"]
    {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), Value::from(uuid::Uuid::new_v4().to_string()));
    metadata.insert("creationTimestamp".to_owned(), Value::from(now()));
    if has_generation(resource) {
        metadata.insert("generation".to_owned(), Value::from(1));
    }
    // A node registers with its status.
    if resource.has_status()
        && resource.plural != "nodes"
        && let Some(object) = value.as_object_mut()
    {
        object.remove("status");
    }
    if resource.plural == "pods" {
        value["status"] = serde_json::json!({"phase": "Pending"});
    }
    Ok(())
}

/// What is allowed in a name, but unwise.
pub fn name_warnings(resource: &Resource, value: &Value) -> Option<String> {
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    let dotted = resource.group.is_empty() && resource.plural == "pods" && name.contains('.');
    dotted.then(|| {
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
         recommended: [must not contain dots]"
            .to_owned()
    })
}

/// Whether the object's namespace is there and not about to go.
pub fn check_namespace(context: &Context<'_>, resource: &Resource, value: &Value) -> Result<(), Box<Status>> {
    if !resource.namespaced {
        return Ok(());
    }
    let (namespace, name) = crate::store::key(value);
    let namespaces = find("", "v1", "namespaces").ok_or_else(Status::no_such_path)?;
    let Some(found) = context.shared.store.get(namespaces, "", namespace) else {
        return Err(Status::not_found(namespaces, namespace));
    };
    if found.facts.fields.first().is_some_and(|phase| **phase == *"Terminating") {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Status::forbidden(resource, name, &why);
        status.details.causes = vec![crate::server::status::Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        }];
        return Err(status);
    }
    Ok(())
}

/// Keeps what a change may not touch, splits status from the rest, and counts changes of the spec.
pub fn prepare_update(
    resource: &Resource,
    subresource: &str,
    new: &mut Value,
    old: &Value,
) -> Result<(), Box<Status>> {
    if !new["metadata"].is_object() {
        return Err(Status::bad_request("metadata: Invalid value: an object is expected"));
    }
    if subresource == "status" {
        let mut kept = old.clone();
        take(&mut kept, new, "status");
        for field in ["managedFields", "labels", "annotations"] {
            take(&mut kept["metadata"], &new["metadata"], field);
        }
        *new = kept;
    } else if resource.has_status() {
        take(new, old, "status");
    }
    let Some(metadata) = new["metadata"].as_object_mut() else { return Ok(()) };
    let fixed = [
        "name",
        "namespace",
        "generateName",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
    ];
    for field in fixed {
        match old["metadata"].get(field) {
            Some(kept) if metadata.get(field) == Some(kept) => {}
            Some(kept) => {
                metadata.insert(field.to_owned(), kept.clone());
            }
            None => {
                metadata.remove(field);
            }
        }
    }
    if has_generation(resource) && changed_beyond_metadata(new, old) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        new["metadata"]["generation"] = Value::from(generation.saturating_add(1));
    }
    Ok(())
}

/// Copies a field, or its absence.
fn take(to: &mut Value, from: &Value, field: &str) {
    let Some(object) = to.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => {
            object.insert(field.to_owned(), value.clone());
        }
        None => {
            object.remove(field);
        }
    }
}

fn changed_beyond_metadata(new: &Value, old: &Value) -> bool {
    let empty = Map::new();
    let rest = |value: &'_ Value| -> Vec<(String, Value)> {
        value
            .as_object()
            .unwrap_or(&empty)
            .iter()
            .filter(|(key, value)| !matches!(key.as_str(), "metadata" | "status") && !value.is_null())
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let (mut new, mut old) = (rest(new), rest(old));
    new.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    old.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    new != old
}
