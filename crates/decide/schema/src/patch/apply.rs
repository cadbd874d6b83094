//! Server-side apply: a manager sends the fields that it wants; the server computes the changes and the
//! ownership. Rules: "Server-Side Apply" of the Kubernetes documentation.
//!
//! The applied object is merged into the live object. A field that the manager applied before and now omits
//! is removed, unless others manage it. Changing a field of another manager is a conflict; with `force`, the
//! field gets the new manager. Applying the current value makes the manager a co-owner.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::PatchError;
use super::compare::{Comparison, compare};
use super::fields::FieldSet;
use super::managed::{self, Actor};
use super::typed;
use crate::{self as schema, Type};

/// The manager that has a history of applying client-side, with an annotation.
const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Further conflicts are not named.
const MAX_CONFLICTS: usize = 100;
/// Bytes that the annotations of an object may take together.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Why an object cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// Other managers own fields that would change: 409, `Conflict`.
    #[error("{}", message(.0))]
    Conflicts(Vec<Conflict>),
}

/// A changed field that another manager owns; one cause of the status, with reason
/// `FieldManagerConflict`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager as messages name it: `"kubectl" using apps/v1`.
    pub manager: String,
    /// Path of the field: `.spec.replicas`.
    pub field: String,
}

impl Conflict {
    /// The text of the cause.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

fn message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: {}: {}", only.message(), only.field);
    }
    let mut by_manager: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for conflict in conflicts {
        by_manager.entry(&conflict.manager).or_default().push(&conflict.field);
    }
    let mut lines = Vec::new();
    for (manager, fields) in by_manager {
        lines.push(format!("conflicts with {manager}:"));
        lines.extend(fields.into_iter().map(|field| format!("- {field}")));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// The object after applying `applied`, with its managed fields. Defaults come after and have no manager. If
/// nothing changes, the result equals `live`.
///
/// # Errors
/// `applied` conflicts with other managers and is not forced, or has a value in a wrong form. That it has the fields and types of
/// its kind is for [`check`] to see.
pub fn apply(
    ty: &Type,
    live: Option<&Value>,
    applied: Value,
    actor: &Actor<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    let Applied { object: mut applied, mut sent, own, ignored, malformed } =
        read(ty, applied, actor.ignored)?;
    if live.is_none() {
        // Whether a new object has them is decided by its kind; the manager does not own them.
        for fields in [&mut applied, &mut sent].into_iter().filter_map(Value::as_object_mut) {
            fields.extend(ignored.clone());
        }
    }
    let nothing = json!({ "apiVersion": applied["apiVersion"], "kind": applied["kind"], "metadata": {} });
    let mut current = live.unwrap_or(&nothing).clone();
    let live_entries = managed::take(&mut current).unwrap_or_default();
    let mut entries = live_entries.clone();
    if entries.is_empty() && live.is_some() {
        let before = Actor { manager: "before-first-apply", subresource: "", ..*actor };
        managed::record(&mut entries, &managed::changes(ty, None, &current), &before);
    }

    let last = entries.iter().find(|entry| managed::is_of(entry, "Apply", actor)).map(managed::fields_of);
    entries.retain(|entry| !managed::is_of(entry, "Apply", actor));
    // Nulls and what Go leaves out are values until the object is read as its kind.
    let whole = typed::merged(ty, &current, &sent);
    let mut object = whole.clone();
    if schema::decode(ty, &mut object).is_err() {
        object = typed::merged(ty, &current, &applied);
    }
    if let Some(last) = &last {
        prune(ty, &mut object, last, &own, &entries);
    }
    let changes = managed::changes(ty, Some(&current), &object);
    let conflicts = match force {
        true => Vec::new(),
        false => {
            // A quantity conflicts with an equal one of another form.
            let changed = managed::changes(ty, Some(&current), &whole);
            conflicts(ty, &current, &changed, &entries, actor)
        }
    };
    if !conflicts.is_empty() {
        return Err(ApplyError::Conflicts(conflicts));
    }
    if let Some(error) = malformed {
        return Err(error.into());
    }
    let set = changes.set();
    entries.retain_mut(|entry| managed::subtract(entry, &set) && managed::subtract(entry, &changes.removed));
    sync_last_applied(&mut object, &applied, actor);
    let unchanged = live.is_some() && object == current && last.as_ref() == Some(&own) && {
        // Entries keep their order.
        let mut rest = live_entries.iter();
        entries.iter().all(|entry| rest.any(|live| live == entry))
    };
    if unchanged {
        return Ok(live.unwrap_or(&nothing).clone());
    }
    if !own.is_empty() {
        entries.push(managed::entry("Apply", &own, actor));
    }
    managed::put(&mut object, entries);
    Ok(object)
}

/// Checks an applied object, as it is sent, against its type.
///
/// # Errors
/// It has unknown fields, values of other types, or items of lists that nothing tells apart.
pub fn check(ty: &Type, applied: &Value) -> Result<(), PatchError> {
    let mut problems = Vec::new();
    typed::problems(ty, applied, &mut String::new(), &mut problems);
    problems.sort_unstable();
    let all = match problems.as_slice() {
        [] => return Ok(()),
        [only] => only.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    };
    Err(PatchError::Untyped(format!("failed to create typed patch object ({}): {all}", described(applied))))
}

/// An object in errors of kube-apiserver: `NAMESPACE/NAME; GROUP/VERSION, Kind=KIND`.
fn described(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}; {}", text("/metadata/namespace"), text("/metadata/name"), kind_of(object))
}

fn kind_of(object: &Value) -> String {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let slash = if text("apiVersion").contains('/') { "" } else { "/" };
    format!("{slash}{}, Kind={}", text("apiVersion"), text("kind"))
}

/// What a manager applies.
struct Applied {
    /// Without the ignored fields.
    object: Value,
    /// It, with its values as they are sent.
    sent: Value,
    /// The fields that the manager will own.
    own: FieldSet,
    ignored: Map<String, Value>,
    /// A value that has the right type, but not its form: an error once nothing conflicts.
    malformed: Option<PatchError>,
}

fn read(ty: &Type, mut object: Value, ignored: &[&str]) -> Result<Applied, PatchError> {
    if !object.is_object() {
        return Err(PatchError::Malformed("an apply patch is an object".to_owned()));
    }
    if managed::take(&mut object).is_some_and(|entries| !entries.is_empty()) {
        return Err(PatchError::Malformed("metadata.managedFields must be nil".to_owned()));
    }
    let mut sent = object.clone();
    let malformed = schema::decode(ty, &mut object).err().map(|error| {
        let (object, kind) = (described(&object), kind_of(&object));
        PatchError::Untyped(format!(
            "failed to convert new object ({object}) to proper version: unable to convert unstructured object to {kind}: {}",
            error.of_converter()
        ))
    });
    let mut taken = Map::new();
    if let Some(fields) = object.as_object_mut() {
        taken.extend(ignored.iter().filter_map(|name| fields.shift_remove_entry(*name)));
    }
    if let Some(fields) = sent.as_object_mut() {
        fields.retain(|name, _| !taken.contains_key(name));
    }
    let mut own = typed::fields_of(ty, &object);
    // Also those that are applied as null.
    own.add(&typed::fields_of(ty, &sent));
    managed::strip(&mut own);
    Ok(Applied { object, sent, own, ignored: taken, malformed })
}

/// Removes the fields that the manager applied before, does not apply now, and no other manager has.
fn prune(ty: &Type, object: &mut Value, last: &FieldSet, own: &FieldSet, others: &[Value]) {
    let mut dropped = typed::with_named_fields(ty, last);
    let mut kept = own.clone();
    for entry in others {
        kept.add(&managed::fields_of(entry));
    }
    dropped.subtract(&typed::with_named_fields(ty, &kept));
    managed::strip(&mut dropped);
    typed::remove(ty, object, &dropped);
}

/// The changed fields that other managers own.
fn conflicts(
    ty: &Type,
    current: &Value,
    changes: &Comparison,
    others: &[Value],
    actor: &Actor<'_>,
) -> Vec<Conflict> {
    let mut set = changes.set();
    set.add(&changes.removed);
    if actor.manager == KUBECTL {
        // An object that migrates from client-side apply: kubectl owns the fields that it applied there.
        set.subtract(&applied_client_side(ty, current));
    }
    let mut conflicts = Vec::new();
    for entry in others {
        let manager = shown(entry);
        let room = MAX_CONFLICTS - conflicts.len();
        let paths = managed::fields_of(entry).intersection(&set).paths(room).into_iter();
        conflicts.extend(paths.map(|field| Conflict { manager: manager.clone(), field }));
    }
    conflicts
}

/// The fields of the annotation of client-side apply that still have the value they were applied with.
fn applied_client_side(ty: &Type, current: &Value) -> FieldSet {
    let annotation = current.pointer("/metadata/annotations").and_then(|a| a[LAST_APPLIED].as_str());
    let read = |text| {
        let mut applied: Value = serde_json::from_str(text).ok().filter(Value::is_object)?;
        schema::decode(ty, &mut applied).ok()?;
        let mut fields = typed::fields_of(ty, &applied);
        let mut differing = compare(ty, Some(&applied), Some(current));
        for set in differing.each() {
            fields.subtract(set);
        }
        Some(fields)
    };
    annotation.and_then(read).unwrap_or_default()
}

/// A manager as messages name it.
fn shown(entry: &Value) -> String {
    let text = |field: &str| entry[field].as_str().unwrap_or_default();
    let mut shown = format!("{:?}", text("manager"));
    if !text("subresource").is_empty() {
        shown.push_str(&format!(" with subresource {:?}", text("subresource")));
    }
    if text("operation") == "Update" {
        shown.push_str(&format!(" using {}", text("apiVersion")));
    }
    shown
}

/// Updates the annotation of client-side apply, for clients that still use it, when kubectl
/// applies.
fn sync_last_applied(object: &mut Value, applied: &Value, actor: &Actor<'_>) {
    if actor.manager != KUBECTL {
        return;
    }
    let Some(annotations) = annotations_of(object) else { return };
    if annotations.get(LAST_APPLIED).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut configuration = applied.clone();
    if let Some(annotations) = annotations_of(&mut configuration) {
        annotations.shift_remove(LAST_APPLIED);
    }
    let mut text = configuration.to_string();
    text.push('\n');
    let others = annotations.iter().filter(|(key, _)| *key != LAST_APPLIED);
    let taken: usize = others.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if taken + LAST_APPLIED.len() + text.len() > MAX_ANNOTATIONS {
        text.clear();
    }
    annotations.insert(LAST_APPLIED.to_owned(), text.into());
}

fn annotations_of(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
}
