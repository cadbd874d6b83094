//! Comparison of two versions of an object, by field.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::fields::FieldSet;
use super::typed::{field_element, item_element};
use crate::{ListType, Type};

/// Fields that an object has in the reference even where its JSON does not: they are values there, not
/// pointers. Setting something in them does not set them.
const ALWAYS_THERE: &[&str] = &[
    "clientConfig",
    "containers",
    "daemonEndpoints",
    "involvedObject",
    "kubeletEndpoint",
    "lastState",
    "loadBalancer",
    "metadata",
    "nodeInfo",
    "resources",
    "source",
    "spec",
    "state",
    "status",
    "strategy",
    "template",
    "updateStrategy",
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Fields that only the first version has.
    pub(super) removed: FieldSet,
    /// Fields that both versions have, with different values.
    pub(super) modified: FieldSet,
    /// Fields that only the second version has.
    pub(super) added: FieldSet,
}

impl Comparison {
    pub(super) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// The fields that the second version changes or adds.
    pub(super) fn set(&self) -> FieldSet {
        let mut set = self.modified.clone();
        set.add(&self.added);
        set
    }

    fn put(&mut self, element: &str, below: Comparison) {
        self.removed.put(element, below.removed);
        self.modified.put(element, below.modified);
        self.added.put(element, below.added);
    }

    pub(super) fn each(&mut self) -> [&mut FieldSet; 3] {
        [&mut self.removed, &mut self.modified, &mut self.added]
    }
}

/// Compares two versions. The cost is proportional to the differences.
pub(super) fn compare(ty: &Type, before: Option<&Value>, after: Option<&Value>) -> Comparison {
    let mut found = Comparison::default();
    let (before, after) = (before.filter(|v| !v.is_null()), after.filter(|v| !v.is_null()));
    if before == after {
        return found;
    }
    let is_leaf = match (ty, before, after) {
        _ if ty.is_atomic() => true,
        (
            Type::Struct(_) | Type::Map { .. },
            Some(Value::Object(_)) | None,
            Some(Value::Object(_)) | None,
        ) => {
            let (before, after) = (object(before), object(after));
            if before.is_none_or(Map::is_empty) && after.is_none_or(Map::is_empty) {
                true
            } else {
                compare_fields(ty, before, after, &mut found);
                false
            }
        }
        (Type::List { items, merged }, Some(Value::Array(_)) | None, Some(Value::Array(_)) | None) => {
            let (before, after) = (list(before), list(after));
            if before.is_empty() && after.is_empty() {
                true
            } else {
                compare_items(items.get(), merged, before, after, &mut found);
                false
            }
        }
        _ => true,
    };
    match (before, after) {
        (None, _) => found.added.member = true,
        (_, None) => found.removed.member = true,
        _ => found.modified.member = is_leaf,
    }
    found
}

fn object(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn compare_fields(
    ty: &Type,
    before: Option<&Map<String, Value>>,
    after: Option<&Map<String, Value>>,
    found: &mut Comparison,
) {
    static ANY: Type = Type::Any;
    let none = Map::new();
    let names = before.unwrap_or(&none).keys();
    let only_after =
        after.unwrap_or(&none).keys().filter(|name| !before.is_some_and(|b| b.contains_key(*name)));
    for name in names.chain(only_after) {
        let (mut old, mut new) = (before.and_then(|b| b.get(name)), after.and_then(|a| a.get(name)));
        if old == new {
            continue;
        }
        let child = ty.child(name).unwrap_or(&ANY);
        let empty = match child {
            Type::Struct(_) => Value::Object(Map::new()),
            Type::List { .. } => Value::Array(Vec::new()),
            _ => Value::Null,
        };
        if before.is_some() && after.is_some() && ALWAYS_THERE.contains(&name.as_str()) && !empty.is_null() {
            old = old.or(Some(&empty));
            new = new.or(Some(&empty));
        }
        found.put(&field_element(name), compare(child, old, new));
    }
}

fn compare_items(items: &Type, merged: &ListType, before: &[Value], after: &[Value], found: &mut Comparison) {
    // Items at the same place mostly are the same item.
    if before.len() == after.len() && before == after {
        return;
    }
    let mut old: HashMap<String, &Value> = HashMap::with_capacity(before.len());
    for item in before {
        old.entry(item_element(merged, item)).or_insert(item);
    }
    let mut seen = HashSet::with_capacity(after.len());
    for item in after {
        let element = item_element(merged, item);
        if seen.insert(element.clone()) {
            found.put(&element, compare(items, old.get(&element).copied(), Some(item)));
        }
    }
    for (element, item) in old {
        if !seen.contains(&element) {
            found.put(&element, compare(items, Some(item), None));
        }
    }
}
