//! Field ownership: `metadata.managedFields`.
//!
//! [`track_update`] tracks every create, update and patch. Server-side apply has its own tracking (see
//! [`super::apply`]). Field sets that a change does not affect stay in their JSON form. The cost is therefore
//! proportional to the size of the change: a repeated status update by the same manager only gets a
//! new timestamp.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::compare::{Comparison, compare};
use super::fields::{FieldSet, holds, share};
use super::typed::field_element;
use crate::Type;

/// Maximum number of update entries of an object. Older ones are merged into one, as in kube-apiserver.
const MAX_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";
/// Longest name of a manager, in bytes.
const MAX_MANAGER: usize = 128;

/// Fields without a manager.
const UNMANAGED: &[&[&str]] = &[
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// The manager, operation and time of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actor<'a> {
    /// Name of the manager; see [`manager_name`].
    pub manager: &'a str,
    /// Version of the object that was sent, such as `apps/v1`.
    pub api_version: &'a str,
    /// The changed subresource, such as `status`; empty for the object itself.
    pub subresource: &'a str,
    /// The time, as RFC 3339 to the second.
    pub now: &'a str,
    /// Top-level fields that this path does not change: `status` for the object itself, `spec` for its
    /// status.
    pub ignored: &'a [&'a str],
}

/// The name of a manager: the `fieldManager` of the request if it is not empty, otherwise the user agent up
/// to its first `/`.
///
/// # Errors
/// The name is longer than 128 bytes or has characters that are not printable. The text is that of a cause.
pub fn manager_name(field_manager: &str, user_agent: &str) -> Result<String, String> {
    if !field_manager.is_empty() {
        let name = field_manager;
        if name.len() > MAX_MANAGER {
            return Err(format!("Too long: may not be more than {MAX_MANAGER} bytes"));
        }
        if let Some(position) = name.chars().position(char::is_control) {
            return Err(format!(
                "Invalid value: {name:?}: invalid character at position {position}: \
                 should only contain printable characters"
            ));
        }
        return Ok(name.to_owned());
    }
    let agent = user_agent.split('/').next().unwrap_or_default();
    let agent = if agent.is_empty() { "unknown" } else { agent };
    let printable: String = agent.chars().filter(|c| !c.is_control()).collect();
    let end = (0..=MAX_MANAGER.min(printable.len())).rev().find(|at| printable.is_char_boundary(*at));
    Ok(printable[..end.unwrap_or(0)].to_owned())
}

/// Records in `after.metadata.managedFields` what a create, update or patch changed. `before` is the live
/// object, `None` for a creation; `after` is what will be stored, defaults included.
///
/// `managedFields` that were sent replace the live ones if they are well-formed, as in the reference, and are
/// ignored on subresources; `[{}]` removes them all. An object whose managed fields were removed is not
/// tracked until it is applied.
pub fn track_update(ty: &Type, before: Option<&Value>, after: &mut Value, actor: &Actor<'_>) {
    let sent = take(after);
    let live = before.map(entries_of).unwrap_or_default();
    let Some(mut entries) = base(live, sent, actor.subresource) else { return };
    if entries.is_empty() && before.is_some() {
        return;
    }
    let mut changes = changes(ty, before, after);
    for set in changes.each() {
        for field in actor.ignored {
            set.children.remove(field_element(field).as_str());
        }
    }
    if !changes.is_empty() {
        record(&mut entries, &changes, actor);
    }
    put(after, entries);
}

/// The differences in managed fields.
pub(super) fn changes(ty: &Type, before: Option<&Value>, after: &Value) -> Comparison {
    let nothing = json!({});
    let mut changes = compare(ty, Some(before.unwrap_or(&nothing)), Some(after));
    for set in changes.each() {
        strip(set);
    }
    changes
}

/// Removes the fields without a manager.
pub(super) fn strip(set: &mut FieldSet) {
    for path in UNMANAGED {
        set.remove_member(path);
    }
    // `managedFields` are atomic entries of a list, including everything below.
    if let Some(metadata) = set.children.get_mut("f:metadata") {
        metadata.children.remove("f:managedFields");
        if metadata.is_empty() {
            set.children.remove("f:metadata");
        }
    }
}

/// The managed fields that a request starts from; `None` for a reset.
fn base(live: &[Value], sent: Option<Vec<Value>>, subresource: &str) -> Option<Vec<Value>> {
    match sent {
        // Most clients send what they read.
        Some(sent) if sent == live => Some(sent),
        Some(sent) if subresource.is_empty() && is_reset(&sent) => None,
        Some(sent) if subresource.is_empty() && !sent.is_empty() && sent.iter().all(is_well_formed) => {
            Some(each_once(sent))
        }
        _ => Some(live.to_vec()),
    }
}

/// The entries, without those that a later entry of the same manager replaces.
fn each_once(mut entries: Vec<Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    entries.reverse();
    entries.retain(|entry| {
        let is_apply = text(entry, "operation") == "Apply";
        let version = if is_apply { "" } else { text(entry, "apiVersion") };
        seen.insert(
            ["manager", "operation", "subresource"]
                .map(|field| text(entry, field).to_owned())
                .into_iter()
                .chain([version.to_owned()])
                .collect::<Vec<_>>(),
        )
    });
    entries.reverse();
    entries
}

fn is_reset(sent: &[Value]) -> bool {
    matches!(sent, [Value::Object(only)] if only.is_empty())
}

fn is_well_formed(entry: &Value) -> bool {
    let is_text = |field: &str, needed: bool| match &entry[field] {
        Value::Null => !needed,
        Value::String(_) => true,
        _ => false,
    };
    ["Apply", "Update"].iter().any(|operation| entry["operation"] == *operation)
        && entry["fieldsType"] == "FieldsV1"
        && is_text("manager", false)
        && is_text("apiVersion", true)
        && is_text("subresource", false)
        && is_text("time", false)
        && (entry["fieldsV1"].is_null() || FieldSet::parse(&entry["fieldsV1"]).is_some())
}

fn entries_of(object: &Value) -> &[Value] {
    object["metadata"]["managedFields"].as_array().map_or(&[], Vec::as_slice)
}

/// Removes the entries from an object and returns them; `None` if it has none.
pub(super) fn take(object: &mut Value) -> Option<Vec<Value>> {
    match object.get_mut("metadata")?.as_object_mut()?.shift_remove("managedFields")? {
        Value::Array(entries) => Some(entries),
        _ => None,
    }
}

/// Puts the entries into an object, in the order they are shown in.
pub(super) fn put(object: &mut Value, mut entries: Vec<Value>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if entries.is_empty() {
        return;
    }
    entries.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
    metadata.insert("managedFields".to_owned(), Value::Array(entries));
}

fn text<'v>(entry: &'v Value, field: &str) -> &'v str {
    entry[field].as_str().unwrap_or_default()
}

fn sort_key(entry: &Value) -> [&str; 5] {
    ["operation", "time", "manager", "apiVersion", "subresource"].map(|field| text(entry, field))
}

pub(super) fn fields_of(entry: &Value) -> FieldSet {
    FieldSet::parse(&entry["fieldsV1"]).unwrap_or_default()
}

/// An entry. Its members are in the reference's order.
pub(super) fn entry(operation: &str, set: &FieldSet, actor: &Actor<'_>) -> Value {
    let mut entry = Map::new();
    entry.insert("manager".to_owned(), actor.manager.into());
    entry.insert("operation".to_owned(), operation.into());
    entry.insert("apiVersion".to_owned(), actor.api_version.into());
    entry.insert("time".to_owned(), actor.now.into());
    entry.insert("fieldsType".to_owned(), "FieldsV1".into());
    entry.insert("fieldsV1".to_owned(), set.to_value());
    if !actor.subresource.is_empty() {
        entry.insert("subresource".to_owned(), actor.subresource.into());
    }
    Value::Object(entry)
}

/// Whether an entry is that of the manager. Appliers have one for all versions.
pub(super) fn is_of(entry: &Value, operation: &str, actor: &Actor<'_>) -> bool {
    text(entry, "manager") == actor.manager
        && text(entry, "operation") == operation
        && text(entry, "subresource") == actor.subresource
        && (operation == "Apply" || text(entry, "apiVersion") == actor.api_version)
}

/// Removes fields from an entry; `false` if none are left.
pub(super) fn subtract(entry: &mut Value, set: &FieldSet) -> bool {
    if !share(&entry["fieldsV1"], set) {
        return true;
    }
    let mut fields = fields_of(entry);
    fields.subtract(set);
    entry["fieldsV1"] = fields.to_value();
    !fields.is_empty()
}

/// Assigns the set fields to the actor; removes these and the deleted fields from all other managers.
pub(super) fn record(entries: &mut Vec<Value>, changes: &Comparison, actor: &Actor<'_>) {
    let set = changes.set();
    let mut own = false;
    entries.retain_mut(|entry| {
        if !is_of(entry, "Update", actor) {
            return subtract(entry, &set) && subtract(entry, &changes.removed);
        }
        let changed = !set.is_empty();
        if changed {
            entry["time"] = actor.now.into();
        }
        own = true;
        if holds(&entry["fieldsV1"], &set) && !share(&entry["fieldsV1"], &changes.removed) {
            return true;
        }
        let mut fields = fields_of(entry);
        fields.subtract(&changes.removed);
        fields.add(&set);
        entry["fieldsV1"] = fields.to_value();
        !fields.is_empty()
    });
    if !own && !set.is_empty() {
        entries.push(entry("Update", &set, actor));
    }
    bound(entries);
}

/// The oldest updates of one version of the object.
struct OldestUpdates {
    fields: FieldSet,
    /// The place of the last of them.
    at: usize,
    several: bool,
}

/// Merges the oldest updates into one entry for each version of the object.
fn bound(entries: &mut Vec<Value>) {
    let mut updates: Vec<usize> =
        (0..entries.len()).filter(|&at| text(&entries[at], "operation") == "Update").collect();
    let Some(mut excess) = updates.len().checked_sub(MAX_UPDATERS).filter(|excess| *excess > 0) else {
        return;
    };
    updates.sort_by_key(|&at| sort_key(&entries[at]));
    let mut merged: HashMap<String, OldestUpdates> = HashMap::new();
    let mut gone = HashSet::new();
    for at in updates {
        if excess == 0 {
            break;
        }
        let fields = fields_of(&entries[at]);
        match merged.entry(text(&entries[at], "apiVersion").to_owned()) {
            Entry::Vacant(first) => {
                first.insert(OldestUpdates { fields, at, several: false });
            }
            Entry::Occupied(mut older) => {
                let older = older.get_mut();
                older.fields.add(&fields);
                older.several = true;
                gone.insert(std::mem::replace(&mut older.at, at));
                excess -= 1;
            }
        }
    }
    for (version, OldestUpdates { fields, at, .. }) in merged.into_iter().filter(|(_, merged)| merged.several)
    {
        let time = text(&entries[at], "time").to_owned();
        let ancient =
            Actor { manager: ANCIENT, api_version: &version, subresource: "", now: &time, ignored: &[] };
        entries[at] = entry("Update", &fields, &ancient);
    }
    let mut at = 0;
    entries.retain(|_| {
        at += 1;
        !gone.contains(&(at - 1))
    });
}
