//! Sets of fields, as `metadata.managedFields` holds them (`FieldsV1`, the format of structured-merge-diff).
//!
//! A path is made of elements: `f:name` for a field or key, `k:{"name":"a"}` for an item of a list by its
//! keys, `v:"a"` for an element of a set, `i:0` for an item by index. In the JSON form an element leads to
//! the elements below it; it is itself a member of the set if that object is empty or holds `.`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Value};

const SELF: &str = ".";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    /// Whether the field itself is in the set; the root never is.
    pub(super) member: bool,
    /// The sets below, by element. None of them is empty.
    pub(super) children: BTreeMap<Box<str>, FieldSet>,
}

impl FieldSet {
    /// Reads the JSON form; `None` if it is malformed.
    pub(super) fn parse(fields: &Value) -> Option<FieldSet> {
        let mut set = FieldSet::default();
        for (element, below) in fields.as_object()? {
            if element == SELF {
                set.member = true;
                continue;
            }
            if !matches!(element.as_bytes(), [b'f' | b'k' | b'v' | b'i', b':', ..]) {
                return None;
            }
            let mut child = FieldSet::parse(below)?;
            child.member |= child.children.is_empty();
            set.children.insert(element.as_str().into(), child);
        }
        Some(set)
    }

    /// The JSON form.
    pub(super) fn to_value(&self) -> Value {
        let mut fields = Map::new();
        if self.member && !self.children.is_empty() {
            fields.insert(SELF.to_owned(), Value::Object(Map::new()));
        }
        fields.extend(self.children.iter().map(|(element, below)| (element.to_string(), below.to_value())));
        Value::Object(fields)
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    /// Puts a set below an element, unless it is empty.
    pub(super) fn put(&mut self, element: impl Into<Box<str>>, below: FieldSet) {
        if !below.is_empty() {
            match self.children.entry(element.into()) {
                Entry::Vacant(place) => {
                    place.insert(below);
                }
                Entry::Occupied(mut place) => place.get_mut().add(&below),
            }
        }
    }

    pub(super) fn add(&mut self, other: &FieldSet) {
        self.member |= other.member;
        for (element, below) in &other.children {
            match self.children.get_mut(element) {
                Some(own) => own.add(below),
                None => {
                    self.children.insert(element.clone(), below.clone());
                }
            }
        }
    }

    pub(super) fn subtract(&mut self, other: &FieldSet) {
        self.member &= !other.member;
        for (element, below) in &other.children {
            if let Some(own) = self.children.get_mut(element) {
                own.subtract(below);
                if own.is_empty() {
                    self.children.remove(element);
                }
            }
        }
    }

    /// The fields in both sets.
    pub(super) fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut both = FieldSet { member: self.member && other.member, ..FieldSet::default() };
        for (element, below) in &self.children {
            if let Some(others) = other.children.get(element) {
                both.put(element.clone(), below.intersection(others));
            }
        }
        both
    }

    /// Removes the field at a path of names, but no fields below it.
    pub(super) fn remove_member(&mut self, path: &[&str]) {
        let Some((name, rest)) = path.split_first() else {
            self.member = false;
            return;
        };
        let element = format!("f:{name}");
        if let Some(child) = self.children.get_mut(element.as_str()) {
            child.remove_member(rest);
            if child.is_empty() {
                self.children.remove(element.as_str());
            }
        }
    }

    /// The paths of members, at most this many, as messages write them: `.spec.containers[name="a"].image`. Those at one level come
    /// before those below them.
    pub(super) fn paths(&self, at_most: usize) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths(&mut String::new(), at_most, &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &mut String, at_most: usize, paths: &mut Vec<String>) {
        let length = prefix.len();
        for (element, _) in self.children.iter().filter(|(_, below)| below.member).take(at_most - paths.len())
        {
            push_element(prefix, element);
            paths.push(prefix.clone());
            prefix.truncate(length);
        }
        for (element, below) in &self.children {
            push_element(prefix, element);
            below.collect_paths(prefix, at_most, paths);
            prefix.truncate(length);
        }
    }
}

/// Adds an element to a path as messages write it.
pub(super) fn push_element(path: &mut String, element: &str) {
    let (kind, text) = element.split_at(2.min(element.len()));
    match kind {
        "f:" => {
            path.push('.');
            path.push_str(text);
        }
        "k:" => {
            let keys: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
            let each: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            path.push_str(&format!("[{}]", each.join(",")));
        }
        "v:" => path.push_str(&format!("[={text}]")),
        _ => path.push_str(&format!("[{text}]")),
    }
}

/// Whether the field with this JSON form is a member.
fn is_member(fields: &Map<String, Value>) -> bool {
    fields.is_empty() || fields.contains_key(SELF)
}

/// Whether a set in JSON form and another share a field. Costs the smaller of the two: an object may have many managers.
pub(super) fn share(fields: &Value, set: &FieldSet) -> bool {
    let Some(found) = fields.as_object() else { return false };
    let shared = |value: &Value, below: &FieldSet| {
        (below.member && value.as_object().is_some_and(is_member)) || share(value, below)
    };
    if found.len() < set.children.len() {
        found.iter().any(|(element, value)| {
            set.children.get(element.as_str()).is_some_and(|below| shared(value, below))
        })
    } else {
        set.children
            .iter()
            .any(|(element, below)| found.get(&**element).is_some_and(|value| shared(value, below)))
    }
}

/// Whether a set in JSON form holds all fields of another. Costs the smaller of the two.
pub(super) fn holds(fields: &Value, set: &FieldSet) -> bool {
    fields.as_object().is_some_and(|fields| fields.len() >= set.children.len())
        && set.children.iter().all(|(element, below)| {
            let Some(found) = fields.get(&**element).and_then(Value::as_object) else { return false };
            (!below.member || is_member(found)) && holds(&fields[&**element], below)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(fields: Value) -> FieldSet {
        FieldSet::parse(&fields).expect("a set of fields")
    }

    #[test]
    fn the_json_form_round_trips() {
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}},
        });
        assert_eq!(set(fields.clone()).to_value(), fields);
        assert_eq!(
            set(fields).paths(100),
            [
                ".metadata.labels",
                ".metadata.labels.app",
                ".spec.ports[port=80,protocol=\"TCP\"]",
                ".spec.ports[port=80,protocol=\"TCP\"].port",
            ]
        );
        for malformed in [json!([]), json!({"x": {}}), json!({"f:a": 1}), json!({"": {}}), json!({"f": {}})] {
            assert_eq!(FieldSet::parse(&malformed), None, "{malformed}");
        }
    }

    #[test]
    fn sets_are_sets() {
        let a = set(json!({"f:x": {".": {}, "f:y": {}}, "f:z": {}}));
        let b = set(json!({"f:x": {"f:y": {}}, "f:w": {}}));
        let mut sum = a.clone();
        sum.add(&b);
        assert_eq!(sum.to_value(), json!({"f:w": {}, "f:x": {".": {}, "f:y": {}}, "f:z": {}}));
        let mut rest = a.clone();
        rest.subtract(&b);
        assert_eq!(rest.to_value(), json!({"f:x": {}, "f:z": {}}));
        assert_eq!(a.intersection(&b).to_value(), json!({"f:x": {"f:y": {}}}));
        rest.subtract(&a);
        assert!(rest.is_empty());
    }

    #[test]
    fn json_forms_are_compared_without_reading_them() {
        let fields = json!({"f:x": {".": {}, "f:y": {}}, "f:z": {"f:a": {}}});
        assert!(share(&fields, &set(json!({"f:x": {"f:y": {}}, "f:q": {}}))));
        assert!(share(&fields, &set(json!({"f:x": {}}))));
        assert!(!share(&fields, &set(json!({"f:z": {}}))), "f:z itself is not in the set");
        assert!(holds(&fields, &set(json!({"f:x": {".": {}, "f:y": {}}, "f:z": {"f:a": {}}}))));
        assert!(!holds(&fields, &set(json!({"f:z": {}}))));
        assert!(!holds(&fields, &set(json!({"f:x": {"f:y": {"f:deeper": {}}}}))));
    }
}
