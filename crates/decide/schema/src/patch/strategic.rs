//! Strategic merge patch: a merge patch that merges lists where the type defines it, with directives for what a
//! merge cannot express. Rules: "Strategic Merge Patch" of the Kubernetes API conventions.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::order::{arrange, identity, positions};
use super::{PatchError, go_text};
use crate::decode::json_type;
use crate::{Patch, Type};

/// Larger objects, which are maps, do not keep their order.
const MAX_ORDERED: usize = 1000;
/// Bytes of a value in an error.
const MAX_SHOWN: usize = 10_000;
const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// The object after the patch.
///
/// # Errors
/// The patch is not an object, uses a directive wrongly, or lacks the merge key of a list's item.
pub fn apply(ty: &Type, live: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Some(patch) = patch.as_object() else {
        return Err(PatchError::Malformed("a strategic merge patch is a JSON object".to_owned()));
    };
    let mut object = live.as_object().cloned().unwrap_or_default();
    merge_object(ty, &mut object, patch)?;
    Ok(Value::Object(object))
}

fn malformed(message: impl Into<String>) -> PatchError {
    PatchError::Malformed(message.into())
}

fn field_of<'t>(ty: &'t Type, name: &str) -> (&'t Type, Patch) {
    static ANY: Type = Type::Any;
    match ty {
        Type::Struct(of) => of.field(name).map_or((&ANY, Patch::default()), |f| (f.ty(), f.patch.clone())),
        other => (other.child(name).unwrap_or(&ANY), Patch::default()),
    }
}

fn merge_object(
    ty: &Type,
    live: &mut Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<(), PatchError> {
    match patch.get(PATCH).map(|directive| directive.as_str()) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => {
            *live = patch.clone();
            live.shift_remove(PATCH);
            return Ok(());
        }
        Some(Some("delete")) => {
            live.clear();
            return Ok(());
        }
        Some(_) => return Err(malformed(format!("unknown patch type found: {}", patch[PATCH]))),
    }
    if let Some(keys) = patch.get(RETAIN_KEYS) {
        retain_keys(live, patch, keys)?;
    }
    for (name, _) in patch.iter().filter(|(_, value)| value.is_null()) {
        // A removal that keeps the order shifts what follows.
        if live.len() > MAX_ORDERED {
            live.swap_remove(name)
        } else {
            live.shift_remove(name)
        };
    }
    for (name, value) in patch {
        if name == PATCH || name == RETAIN_KEYS || value.is_null() {
            continue;
        }
        if let Some(field) = name.strip_prefix(DELETE_FROM).or_else(|| name.strip_prefix(SET_ORDER)) {
            // With a patch of the list itself, all of them are handled at once.
            let first = [DELETE_FROM, SET_ORDER].map(|prefix| format!("{prefix}{field}"));
            let first = first.iter().find(|key| patch.contains_key(*key));
            if !patch.contains_key(field) && first == Some(name) {
                merge_list_field(ty, live, patch, field)?;
            }
            continue;
        }
        let (field_type, how) = field_of(ty, name);
        match (live.get_mut(name), value) {
            (Some(Value::Object(current)), Value::Object(changes)) if !how.replace => {
                merge_object(field_type, current, changes)?;
            }
            // A list that is absent is taken as it is, unless its order is given.
            (current, Value::Array(_))
                if matches!(field_type, Type::List { .. })
                    && how.merge
                    && (current.is_some() || patch.contains_key(&format!("{SET_ORDER}{name}"))) =>
            {
                merge_list_field(ty, live, patch, name)?;
            }
            // What takes the place of a value of its type keeps its nulls.
            (current, value) => {
                let keeps_nulls = current.is_some_and(|current| json_type(current) == json_type(value));
                if !keeps_nulls && value.get(PATCH).is_some() {
                    live.shift_remove(name);
                } else {
                    live.insert(name.clone(), without_directives(value, keeps_nulls));
                }
            }
        }
    }
    Ok(())
}

/// Keeps only the fields that `$retainKeys` names; the patch itself may set no others.
fn retain_keys(
    live: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    keys: &Value,
) -> Result<(), PatchError> {
    let names: Option<HashSet<&str>> =
        keys.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
    let names =
        names.ok_or_else(|| malformed("invalid patch format of retainKeys: a list of field names"))?;
    let stray = patch
        .iter()
        .find(|(name, value)| !name.starts_with('$') && !value.is_null() && !names.contains(name.as_str()));
    if let Some((name, _)) = stray {
        return Err(malformed(format!("invalid patch format of retainKeys: {name:?} is set but not named")));
    }
    live.retain(|name, _| names.contains(name.as_str()));
    Ok(())
}

/// Merges a list with its patch, `$deleteFromPrimitiveList` and `$setElementOrder`.
fn merge_list_field(
    ty: &Type,
    live: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    name: &str,
) -> Result<(), PatchError> {
    let (field_type, how) = field_of(ty, name);
    let list = |key: &str| match patch.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.as_slice())),
        Some(other) => Err(malformed(format!("{key}: expected a list, got {other}"))),
    };
    let deleted = list(&format!("{DELETE_FROM}{name}"))?;
    let order = list(&format!("{SET_ORDER}{name}"))?;
    let changes = list(name)?;
    let original = match live.get(name) {
        Some(Value::Array(items)) => items.clone(),
        _ => Vec::new(),
    };
    if original.is_empty() && changes.is_none() {
        return Ok(());
    }
    let any = [&original[..], changes.unwrap_or_default(), order.unwrap_or_default()].concat();
    if any.windows(2).any(|pair| json_type(&pair[0]) != json_type(&pair[1])) {
        let lists = shown(&Value::Array(vec![original.into(), changes.unwrap_or_default().into()]));
        return Err(PatchError::Untyped(format!("list element types are not identical: {lists}")));
    }
    let of_objects = any.first().is_some_and(Value::is_object);
    let key = if of_objects {
        Some(how.merge_key.as_deref().ok_or_else(|| {
            malformed(format!("{name}: expected a list of scalars, or of objects with a declared merge key"))
        })?)
    } else {
        None
    };

    let mut merged = original.clone();
    let mut named = changes.unwrap_or_default().to_vec();
    if let Some(key) = key {
        named = merge_items(field_type, &mut merged, named, key)?;
    } else {
        add_scalars(&mut merged, &named);
    }
    if let Some(deleted) = deleted {
        let deleted = positions(deleted, None);
        merged.retain(|item| !deleted.contains_key(&item.to_string()));
    }
    let merged = arrange(merged, order.unwrap_or(&named), &original, key);
    live.insert(name.to_owned(), Value::Array(merged));
    Ok(())
}

fn add_scalars(merged: &mut Vec<Value>, added: &[Value]) {
    let mut present: HashSet<String> = merged.iter().map(Value::to_string).collect();
    merged.extend(added.iter().filter(|item| present.insert(item.to_string())).cloned());
}

/// Merges items by key, and returns those of the patch that are no directives.
fn merge_items(
    list: &Type,
    merged: &mut Vec<Value>,
    changes: Vec<Value>,
    key: &str,
) -> Result<Vec<Value>, PatchError> {
    static ANY: Type = Type::Any;
    let items = match list {
        Type::List { items, .. } => items.get(),
        _ => &ANY,
    };
    let mut plain = Vec::with_capacity(changes.len());
    let mut deleted = HashSet::new();
    let mut replace = false;
    for change in changes {
        match change.get(PATCH).map(Value::as_str) {
            None => plain.push(change),
            Some(Some("replace")) => replace = true,
            Some(Some("delete")) => {
                deleted.insert(identity(&change, Some(key)).ok_or_else(|| lacks_key(&change, key))?);
            }
            Some(Some("merge")) => {
                return Err(malformed("merging lists cannot yet be specified in the patch"));
            }
            Some(_) => return Err(malformed(format!("unknown patch type found: {}", change[PATCH]))),
        }
    }
    if replace {
        *merged = plain.iter().map(|item| without_directives(item, true)).collect();
        return Ok(plain);
    }
    merged.retain(|item| identity(item, Some(key)).is_none_or(|id| !deleted.contains(&id)));
    let mut places = positions(merged, Some(key));
    for change in &plain {
        let id = identity(change, Some(key)).ok_or_else(|| lacks_key(change, key))?;
        match (places.get(&id).and_then(|&at| merged.get_mut(at)), change) {
            (Some(Value::Object(item)), Value::Object(change)) => merge_object(items, item, change)?,
            _ => {
                places.insert(id, merged.len());
                merged.push(without_directives(change, true));
            }
        }
    }
    Ok(plain)
}

fn lacks_key(item: &Value, key: &str) -> PatchError {
    PatchError::Untyped(format!("map: {} does not contain declared merge key: {key}", shown(item)))
}

fn shown(value: &Value) -> String {
    let mut text = go_text(value);
    text.truncate(text.floor_char_boundary(MAX_SHOWN));
    text
}

/// A new value of the object: what says itself what to do with it is left out, and so are nulls if they are not kept. As by kube-apiserver,
/// other directives are unknown fields there.
fn without_directives(value: &Value, keeps_nulls: bool) -> Value {
    let is_kept = |value: &Value| value.get(PATCH).is_none() && (keeps_nulls || !value.is_null());
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| is_kept(value));
            fields.map(|(name, value)| (name.clone(), without_directives(value, keeps_nulls))).collect()
        }
        Value::Array(items) => {
            let items = items.iter().filter(|item| item.get(PATCH).is_none());
            items.map(|item| without_directives(item, keeps_nulls)).collect()
        }
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests;
