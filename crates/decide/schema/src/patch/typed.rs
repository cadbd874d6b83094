//! Operations of structured-merge-diff: collect the fields of an object, merge two objects, and remove
//! fields.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::fields::{FieldSet, push_element};
use super::go_text;
use crate::{ListType, MapKey, Scalar, Type};

/// The element of a field or key.
pub(super) fn field_element(name: &str) -> String {
    format!("f:{name}")
}

/// The element of an item of a list that is not atomic. A missing key counts as its default, or as `null`.
pub(super) fn item_element(merged: &ListType, item: &Value) -> String {
    match merged {
        ListType::Map(keys) => {
            let mut named: Vec<(&str, &Value)> =
                keys.iter().map(|key| (key.name.as_str(), key_value(key, item))).collect();
            named.sort_by_key(|(name, _)| *name);
            let keys: Map<String, Value> =
                named.into_iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
            format!("k:{}", Value::Object(keys))
        }
        ListType::Set | ListType::Atomic => format!("v:{item}"),
    }
}

fn key_value<'v>(key: &'v MapKey, item: &'v Value) -> &'v Value {
    match &item[key.name.as_str()] {
        Value::Null => key.default.as_ref().unwrap_or(&Value::Null),
        value => value,
    }
}

/// Further problems are not reported.
const MAX_PROBLEMS: usize = 100;

/// What keeps an applied object from being merged, in the words of structured-merge-diff, each after its path.
pub(super) fn problems(ty: &Type, value: &Value, path: &mut String, found: &mut Vec<String>) {
    if found.len() >= MAX_PROBLEMS {
        return;
    }
    let mut report = |path: &str, why: &str| {
        let separator = if path.is_empty() { "" } else { ": " };
        found.push(format!("{path}{separator}{why}"));
    };
    let length = path.len();
    match (ty, value) {
        (_, Value::Null)
        | (Type::Any, _)
        | (Type::Scalar(Scalar::String | Scalar::Bytes), Value::String(_)) => {}
        (Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Number), Value::Number(_)) => {}
        (Type::Scalar(Scalar::Boolean), Value::Bool(_)) => {}
        (Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Number), _) => {
            report(path, &format!("expected numeric (int or float), got {}", go_type(value)));
        }
        (Type::Scalar(Scalar::String | Scalar::Bytes), _) => {
            report(
                path,
                &format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value)),
            );
        }
        (Type::Scalar(Scalar::Boolean), _) => {
            report(path, &format!("expected boolean, got &{{{}}}", go_text(value)));
        }
        (Type::Scalar(_), Value::Array(_) | Value::Object(_)) => {
            report(path, &format!("expected any scalar, got &{{{}}}", go_text(value)));
        }
        (Type::Scalar(_), _) => {}
        (Type::Struct(_) | Type::Map { .. }, Value::Object(fields)) => {
            for (name, value) in fields {
                path.push_str(&format!(".{name}"));
                match ty.child(name) {
                    Some(child) => problems(child, value, path, found),
                    None => found.push(format!("{path}: field not declared in schema")),
                }
                path.truncate(length);
            }
        }
        (Type::List { items, merged }, Value::Array(list)) => {
            let mut seen = HashSet::new();
            for (index, item) in list.iter().enumerate() {
                if let Some(why) = item_problem(items.get(), merged, item) {
                    return found.push(format!("{path}: element {index}: {why}"));
                }
                if *merged == ListType::Atomic {
                    path.push_str(&format!("[{index}]"));
                } else {
                    let element = item_element(merged, item);
                    push_element(path, &element);
                    if !seen.insert(element) {
                        found.push(format!(
                            "{}: duplicate entries for key {}",
                            &path[..length],
                            &path[length..]
                        ));
                    }
                }
                problems(items.get(), item, path, found);
                path.truncate(length);
            }
        }
        (Type::Struct(_) | Type::Map { .. }, _) => {
            report(path, &format!("expected map, got &{{{}}}", go_text(value)))
        }
        (Type::List { .. }, _) => report(path, &format!("expected list, got &{{{}}}", go_text(value))),
    }
}

/// Why nothing identifies an item of a list.
fn item_problem(items: &Type, merged: &ListType, item: &Value) -> Option<String> {
    let why = match (merged, item) {
        (ListType::Atomic, _) => return None,
        (ListType::Map(_), Value::Null) => "associative list with keys may not have a null element",
        (ListType::Map(keys), Value::Object(fields)) => {
            // What a field of a kind of Kubernetes is without a value is its default.
            let is_built_in = matches!(items, Type::Struct(of) if !of.name.is_empty());
            if is_built_in || keys.iter().any(|key| key.default.is_some() || fields.contains_key(&key.name)) {
                return None;
            }
            let names: Vec<String> = keys.iter().map(|key| format!("{:?}", key.name)).collect();
            return Some(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values \
                 for any key fields)",
                names.join(" ")
            ));
        }
        (ListType::Map(_), _) => "associative list with keys may not have non-map elements",
        (ListType::Set, Value::Object(_)) => "associative list without keys has an element that's a map type",
        (ListType::Set, Value::Array(_)) => "not supported: associative list with lists as elements",
        (ListType::Set, Value::Null) => {
            "associative list without keys has an element that's an explicit null"
        }
        (ListType::Set, _) => return None,
    };
    Some(why.to_owned())
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go's source has it.
fn go_syntax(value: &Value) -> String {
    let list = match value {
        Value::Array(items) => items.iter().map(go_syntax).collect::<Vec<_>>(),
        Value::Object(fields) => {
            let mut fields: Vec<_> =
                fields.iter().map(|(key, value)| format!("{key:?}:{}", go_syntax(value))).collect();
            fields.sort_unstable();
            fields
        }
        other => return other.to_string(),
    };
    format!("{}{{{}}}", go_type(value), list.join(", "))
}

/// The fields an object sets, for an applied one without [`problems`].
pub(super) fn fields_of(ty: &Type, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    match (ty, value) {
        _ if ty.is_atomic() => set.member = true,
        (Type::List { items, merged }, Value::Array(list)) => {
            for item in list {
                let mut below = fields_of(items.get(), item);
                below.member = true;
                set.put(item_element(merged, item), below);
            }
        }
        (Type::Struct(_) | Type::Map { .. }, Value::Object(fields)) => {
            for (name, value) in fields {
                let Some(child) = ty.child(name) else { continue };
                let mut below = fields_of(child, value);
                let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                below.member |= is_empty || matches!(ty, Type::Map { .. });
                set.put(field_element(name), below);
            }
        }
        _ => set.member = true,
    }
    set
}

pub(super) fn merged(ty: &Type, live: &Value, applied: &Value) -> Value {
    match (ty, live, applied) {
        _ if ty.is_atomic() => applied.clone(),
        // A null in place of what is merged changes nothing.
        (Type::Struct(_) | Type::Map { .. } | Type::List { .. }, _, Value::Null) => live.clone(),
        (Type::Struct(_) | Type::Map { .. }, Value::Object(current), Value::Object(changes)) => {
            let mut result = current.clone();
            for (name, change) in changes {
                let value = match (result.get(name), ty.child(name)) {
                    (Some(value), Some(child)) => merged(child, value, change),
                    _ => change.clone(),
                };
                result.insert(name.clone(), value);
            }
            Value::Object(result)
        }
        (Type::List { items, merged: how }, Value::Array(current), Value::Array(changes)) => {
            Value::Array(merged_list(items.get(), how, current, changes))
        }
        _ => applied.clone(),
    }
}

/// Applied items keep the order of the applied list. Items that only the live list has keep their position
/// between them.
fn merged_list(items: &Type, how: &ListType, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let elements: Vec<String> = applied.iter().map(|item| item_element(how, item)).collect();
    let places: HashMap<&str, usize> =
        elements.iter().enumerate().map(|(place, element)| (element.as_str(), place)).collect();
    let live_elements: Vec<String> = live.iter().map(|item| item_element(how, item)).collect();
    let mut current: HashMap<&str, &Value> = HashMap::with_capacity(live.len());
    for (element, item) in live_elements.iter().zip(live) {
        current.entry(element).or_insert(item);
    }
    let merge = |place: usize| match current.get(elements[place].as_str()) {
        Some(item) => merged(items, item, &applied[place]),
        None => applied[place].clone(),
    };

    // How many of the applied items before each place the live list also has.
    let shared_before: Vec<usize> = std::iter::once(0)
        .chain(elements.iter().scan(0, |n, element| {
            *n += usize::from(current.contains_key(element.as_str()));
            Some(*n)
        }))
        .collect();

    let mut result = Vec::with_capacity(live.len() + applied.len());
    let mut next = 0;
    for (element, item) in live_elements.iter().zip(live) {
        match places.get(element.as_str()) {
            None => result.push(item.clone()),
            // The next applied item that the live list also has: applied items before it are inserted before it.
            Some(&place) if place >= next && shared_before[place] == shared_before[next] => {
                result.extend((next..=place).map(&merge));
                next = place + 1;
            }
            // It is inserted later, in the order of the applied list.
            Some(_) => {}
        }
    }
    result.extend((next..applied.len()).map(merge));
    result
}

/// Removes the fields of a set from a value, and the objects and lists that become empty.
pub(super) fn remove(ty: &Type, value: &mut Value, set: &FieldSet) {
    if ty.is_atomic() {
        return;
    }
    match (ty, value) {
        (Type::Struct(_) | Type::Map { .. }, Value::Object(fields)) => {
            fields.retain(|name, value| {
                let Some(below) = set.children.get(field_element(name).as_str()) else { return true };
                let was_empty = is_empty(value);
                if !below.member
                    && let Some(child) = ty.child(name)
                {
                    remove(child, value, below);
                }
                !below.member && (was_empty || !is_empty(value))
            });
        }
        (Type::List { items, merged }, Value::Array(list)) => {
            list.retain_mut(|item| match set.children.get(item_element(merged, item).as_str()) {
                Some(below) if below.member => false,
                Some(below) => {
                    remove(items.get(), item, below);
                    true
                }
                None => true,
            });
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The set with the named fields on the way to its members as members: who manages `spec.a` manages `spec`.
pub(super) fn with_named_fields(ty: &Type, set: &FieldSet) -> FieldSet {
    static ANY: Type = Type::Any;
    let mut result = FieldSet { member: set.member, ..FieldSet::default() };
    for (element, below) in &set.children {
        let name = element.strip_prefix("f:");
        let child = match (ty, name) {
            (Type::List { items, .. }, _) => items.get(),
            (_, Some(name)) => ty.child(name).unwrap_or(&ANY),
            _ => &ANY,
        };
        let mut below = with_named_fields(child, below);
        below.member |= name.is_some() && matches!(ty, Type::Struct(_));
        result.put(element.clone(), below);
    }
    result
}
