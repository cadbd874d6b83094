//! Metadata: system fields of a new object, and immutable fields of a changed one.

use std::collections::HashSet;

use berth_api::object::time::rfc3339;
use berth_schema::resource::Resource;
use serde_json::{Map, Value};

use berth_api::syntax;
use berth_rules::admission::node_restriction::MIRROR;

use super::fields::{Causes, items, object, repeated, text};
use crate::request::{ApiResult, Status};

/// Characters of generated names: no vowels and no easily confused characters.
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Annotations may not be larger than this altogether.
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;
const SUFFIX_LENGTH: usize = 5;
const MAX_GENERATED_LENGTH: usize = 63;

/// The name of an object; empty if it has none.
pub fn name(value: &Value) -> &str {
    text(value, "/metadata/name")
}

/// The uid of an object; empty if it has none.
pub fn uid(value: &Value) -> &str {
    text(value, "/metadata/uid")
}

/// The current time, as objects write it.
pub fn now() -> String {
    rfc3339(jiff::Timestamp::now())
}

pub fn generate_name(prefix: &str) -> String {
    let mut end = prefix.len().min(MAX_GENERATED_LENGTH - SUFFIX_LENGTH);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = prefix[..end].to_owned();
    name.extend((0..SUFFIX_LENGTH).map(|_| char::from(NAME_LETTERS[fastrand::usize(..NAME_LETTERS.len())])));
    name
}

/// Sets the system fields of a new object. The status of a client is dropped, unless it is kept.
pub fn prepare_create(
    resource: &Resource,
    (keeps_status, has_generation): (bool, bool),
    value: &mut Value,
) -> ApiResult {
    let Some(metadata) = value["metadata"].as_object_mut() else {
        return Err(Status::bad_request("metadata: Invalid value: an object is expected"));
    };
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"] {
        metadata.remove(field);
    }
    metadata.insert("creationTimestamp".to_owned(), Value::from(now()));
    if has_generation {
        metadata.insert("generation".to_owned(), Value::from(1));
    }
    if resource.has_status()
        && !keeps_status
        && let Some(object) = value.as_object_mut()
    {
        object.remove("status");
    }
    Ok(())
}

/// The resources whose status is written without metadata.
const RESET_BY_STATUS: &[&str] = &[
    "compositepodgroups",
    "csinodes",
    "devicetaintrules",
    "podgroups",
    "resourceclaims",
    "servicecidrs",
    "validatingadmissionpolicies",
    "volumeattachments",
];

/// Restores immutable fields, and the parts that a subresource does not write.
pub fn keep_fixed(resource: &Resource, subresource: &str, new: &mut Value, old: &Value) -> ApiResult {
    if !new["metadata"].is_object() {
        return Err(Status::bad_request("metadata: Invalid value: an object is expected"));
    }
    if subresource == "status" {
        let mut kept = old.clone();
        take(&mut kept, new, "status");
        // Some kinds reset all metadata but the managed fields.
        let is_reset = resource.custom.is_some() || RESET_BY_STATUS.contains(&resource.plural);
        for field in ["managedFields", "labels", "annotations", "finalizers", "ownerReferences"] {
            let is_kept =
                matches!((resource.plural, field), ("deployments", "labels") | ("pods", "ownerReferences"));
            if field == "managedFields" || !is_reset && !is_kept {
                take(&mut kept["metadata"], &new["metadata"], field);
            }
        }
        *new = kept;
    } else if subresource == "approval" {
        let mut kept = old.clone();
        if let Some(status) = new.get("status") {
            take(&mut kept["status"], status, "conditions");
        }
        *new = kept;
    } else if subresource == "finalize" {
        let mut kept = old.clone();
        if let Some(spec) = new.get("spec") {
            take(&mut kept["spec"], spec, "finalizers");
        }
        *new = kept;
    } else if resource.has_status() {
        take(new, old, "status");
    }
    let mut causes = Causes::default();
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let sent = &new["metadata"][field];
        if !sent.is_null() && *sent != old["metadata"][field] {
            causes.immutable(&format!("metadata.{field}"), sent);
        }
    }
    causes.refuse(resource, old)?;
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
    Ok(())
}

/// Counts changes of everything but metadata and status.
pub fn count_generation(new: &mut Value, old: &Value) {
    if changed_beyond_metadata(new, old) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        new["metadata"]["generation"] = Value::from(generation.saturating_add(1));
    }
}

/// Whether a change makes an object larger by more than what the server itself keeps in its metadata.
pub fn grows(new: &Value, old: &Value) -> bool {
    let len = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|field, _| {
                !matches!(field.as_str(), "managedFields" | "resourceVersion" | "generation")
            });
        }
        object.to_string().len()
    };
    len(new) > len(old)
}

/// The object before a change by a subresource, with what its manager owns after it.
pub fn kept(new: &Value, old: &Value) -> Value {
    let mut kept = old.clone();
    take(&mut kept["metadata"], &new["metadata"], "managedFields");
    kept
}

/// Copies a field, or its absence.
pub fn take(to: &mut Value, from: &Value, field: &str) {
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

/// Adds a finalizer to `metadata`, or to the `spec` of a namespace.
pub fn add_finalizer(value: &mut Value, part: &str, finalizer: &str) {
    let Some(part) = object(value, part) else { return };
    let finalizers = part.entry("finalizers").or_insert(Value::Null);
    match finalizers.as_array_mut() {
        Some(list) if list.iter().any(|listed| listed == finalizer) => {}
        Some(list) => list.push(finalizer.into()),
        None => *finalizers = vec![finalizer].into(),
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

/// Adds the labels whose keys an object's labels do not have.
pub fn add_labels(existing: &mut Value, labels: &Map<String, Value>) {
    if !existing.is_object() {
        *existing = Value::Object(Map::new());
    }
    if let Some(existing) = existing.as_object_mut() {
        for (key, value) in labels {
            existing.entry(key).or_insert_with(|| value.clone());
        }
    }
}

/// Validates name, labels, annotations and owners.
pub fn validate(
    resource: &Resource,
    name_problems: &dyn Fn(&str) -> Vec<String>,
    value: &Value,
    causes: &mut Causes,
) {
    let metadata = &value["metadata"];
    let (name, prefix) = (text(metadata, "/name"), text(metadata, "/generateName"));
    if !prefix.is_empty() {
        // The prefix itself may end with a character that a name must not end with.
        let stem = prefix.strip_suffix('-').map_or_else(|| prefix.to_owned(), |stem| format!("{stem}a"));
        causes.problems("metadata.generateName", &prefix.into(), name_problems(&stem));
    }
    if name.is_empty() {
        causes.required("metadata.name", "name or generateName is required");
    } else {
        causes.problems("metadata.name", &metadata["name"], name_problems(name));
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        causes.problems("metadata.labels", &Value::from(key.as_str()), syntax::label_key(key));
        match value.as_str() {
            Some(text) => {
                causes.problems("metadata.labels", value, syntax::label_value(text));
            }
            None => causes.invalid("metadata.labels", value, "must be a string"),
        }
    }
    let mut size = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        size += key.len() + value.as_str().map_or(0, str::len);
        causes.problems(
            "metadata.annotations",
            &Value::from(key.as_str()),
            syntax::label_key(&key.to_lowercase()),
        );
    }
    if size > MAX_ANNOTATION_BYTES {
        causes.too_long("metadata.annotations", MAX_ANNOTATION_BYTES);
    }
    validate_owners(value, causes);
    for (i, finalizer) in items(metadata, "finalizers").iter().enumerate() {
        let name = text(finalizer, "");
        let is_plain = !name.contains('/') && syntax::label_key(name).is_empty();
        // These groups have other rules in kube-apiserver.
        let is_other = resource.custom.is_some()
            || ["apiextensions.k8s.io", "apiregistration.k8s.io"].contains(&resource.group);
        if is_plain && !is_other && !["foregroundDeletion", "kubernetes", "orphan"].contains(&name) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.invalid(&format!("metadata.finalizers[{i}]"), finalizer, why);
        }
    }
}

/// Drops owners that equal an earlier one, with a warning.
pub fn drop_repeated_owners(value: &mut Value) -> Option<String> {
    let owners = value.pointer_mut("/metadata/ownerReferences")?.as_array_mut()?;
    let again: HashSet<usize> = repeated(owners.iter()).into_iter().collect();
    let repeated: Vec<&str> = again.iter().map(|i| text(&owners[*i], "/uid")).collect();
    let warning = (!repeated.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject \
             such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        )
    });
    let mut index = 0..;
    owners.retain(|_| index.next().is_some_and(|i| !again.contains(&i)));
    warning
}

pub fn validate_owners(value: &Value, causes: &mut Causes) {
    let metadata = &value["metadata"];
    let owners = items(metadata, "ownerReferences");
    for (i, owner) in owners.iter().enumerate() {
        let path = format!("metadata.ownerReferences[{i}]");
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, &format!("/{field}")).is_empty() {
                causes.required(&format!("{path}.{field}"), "must not be empty");
            }
        }
        let version = text(owner, "/apiVersion");
        if version.split('/').count() > 2 || version.ends_with('/') {
            let why = "must be <group>/<version> or <version>";
            causes.invalid(&format!("{path}.apiVersion"), &owner["apiVersion"], why);
        }
        if version == "v1" && owner["kind"] == "Event" {
            causes.invalid(&path, owner, "/v1, Kind=Event is disallowed from being an owner");
        }
    }
    let controllers: Vec<String> = owners
        .iter()
        .filter(|owner| owner["controller"] == true)
        .map(|owner| format!("{}/{}", text(owner, "/kind"), text(owner, "/name")))
        .collect();
    for last in controllers.iter().skip(1) {
        let first = &controllers[0];
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {last}"
        );
        causes.invalid("metadata.ownerReferences", &metadata["ownerReferences"], &detail);
    }
    for finalizer in items(metadata, "finalizers") {
        causes.problems(
            "metadata.finalizers",
            finalizer,
            syntax::label_key(finalizer.as_str().unwrap_or_default()),
        );
    }
}

/// Validates a change of the mirror annotation of pods, which is fixed, and of finalizers: none may be added to an object
/// that is being deleted.
pub fn validate_update(new: &Value, old: &Value, causes: &mut Causes) {
    let mirror = |value: &Value| value["metadata"]["annotations"].get(MIRROR).cloned();
    if mirror(new) != mirror(old) {
        let field = format!("metadata.annotations[{MIRROR}]");
        causes.forbidden(&field, "the mirror pod annotation may not be added, changed or removed");
    }
    if old["metadata"]["deletionTimestamp"].is_null() {
        return;
    }
    let old: HashSet<&Value> = items(&old["metadata"], "finalizers").iter().collect();
    let added: Vec<&Value> =
        items(&new["metadata"], "finalizers").iter().filter(|finalizer| !old.contains(finalizer)).collect();
    if !added.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        );
        causes.forbidden("metadata.finalizers", &detail);
    }
}
