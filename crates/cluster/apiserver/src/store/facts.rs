//! The fields of an object that selectors read, and claims, in few allocations: a store holds millions.

use std::borrow::Cow;
use std::fmt;

use berth_schema::resource::Resource;
use serde_json::Value;

use super::claim::{Claim, claims_of};
use super::json::Json;

/// The fields that selectors read, and claims.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Namespace and name, then the labels by key, then the values of the selectable fields, without separators.
    text: Box<str>,
    /// Where each of them ends.
    ends: Box<[u32]>,
    n_labels: u32,
    /// The values that no other object may have.
    pub claims: Box<[Claim]>,
}

impl Facts {
    pub fn of(resource: &Resource, object: &Json<'_>) -> Facts {
        let text = |pointer| text_at(object, &[pointer], "");
        let labels = object.pointer("/metadata/labels");
        let labels = labels.as_ref().and_then(|labels| labels.as_object()).into_iter().flatten();
        let mut labels: Vec<(&str, &str)> =
            labels.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())).collect();
        labels.sort_unstable();
        let fields = resource.selectable_fields.iter();
        let fields: Vec<_> = fields.map(|field| text_at(object, field.pointers, field.default)).collect();
        let claims = claims_of(resource, object).into();
        let fields = fields.iter().map(|field| &**field);
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        Facts { claims, ..Facts::new(&namespace, &name, &labels, fields) }
    }

    fn new<'a>(
        namespace: &'a str,
        name: &'a str,
        labels: &[(&'a str, &'a str)],
        fields: impl Iterator<Item = &'a str>,
    ) -> Facts {
        let (mut text, mut ends) = (String::new(), Vec::new());
        let labels_and_fields = labels.iter().flat_map(|(key, value)| [*key, *value]).chain(fields);
        for part in [namespace, name].into_iter().chain(labels_and_fields) {
            text.push_str(part);
            ends.push(text.len() as u32);
        }
        Facts { text: text.into(), ends: ends.into(), n_labels: labels.len() as u32, claims: Box::default() }
    }

    /// The same with other labels, which are sorted, and other values of the selectable fields.
    pub fn with<'a>(&'a self, labels: &[(&'a str, &'a str)], fields: impl Iterator<Item = &'a str>) -> Facts {
        Facts { claims: self.claims.clone(), ..Facts::new(self.namespace(), self.name(), labels, fields) }
    }

    fn part(&self, i: usize) -> Option<&str> {
        let end = *self.ends.get(i)? as usize;
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Some(&self.text[start..end])
    }

    /// Namespace; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.part(0).unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.part(1).unwrap_or_default()
    }

    /// Labels, sorted by key.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        (0..self.n_labels as usize).map(|i| self.label_at(i))
    }

    fn label_at(&self, i: usize) -> (&str, &str) {
        let part = |i| self.part(i).unwrap_or_default();
        (part(2 + 2 * i), part(3 + 2 * i))
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// The value of the resource's selectable field with this index.
    pub fn field(&self, i: usize) -> Option<&str> {
        self.part(2 + 2 * self.n_labels as usize + i)
    }

    /// Values of the resource's selectable fields, in its order.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        (0..).map_while(|i| self.field(i))
    }

    /// Whether no selector tells the two apart.
    pub fn is_selected_as(&self, other: &Facts) -> bool {
        self.n_labels == other.n_labels && self.ends == other.ends && self.text == other.text
    }
}

impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (labels, fields): (Vec<_>, Vec<_>) = (self.labels().collect(), self.fields().collect());
        write!(f, "{}/{} {labels:?} {fields:?} {:?}", self.namespace(), self.name(), self.claims)
    }
}

/// The value at the first pointer that has one, as selectors see it.
fn text_at<'a>(object: &'a Json<'_>, pointers: &[&str], default: &'a str) -> Cow<'a, str> {
    match pointers.iter().find_map(|pointer| object.pointer(pointer)) {
        Some(Cow::Borrowed(Value::String(text))) if !text.is_empty() => Cow::Borrowed(text),
        Some(Cow::Owned(Value::String(text))) if !text.is_empty() => Cow::Owned(text),
        Some(value) if value.is_boolean() || value.is_number() => Cow::Owned(value.to_string()),
        _ => Cow::Borrowed(default),
    }
}

#[cfg(test)]
mod tests {
    use berth_schema::resource::{NODES, PODS};
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_reads_as_it_was_written() {
        let pod = json!({"metadata": {"name": "a", "namespace": "n", "labels": {"x": "1", "app": "", "b": "2"}},
            "spec": {"nodeName": "m", "hostNetwork": true}, "status": {"podIP": "10.0.0.1"}});
        let facts = Facts::of(&PODS, &pod.into());
        assert_eq!((facts.namespace(), facts.name()), ("n", "a"));
        assert_eq!(facts.labels().collect::<Vec<_>>(), [("app", ""), ("b", "2"), ("x", "1")]);
        assert_eq!((facts.label("b"), facts.label("app"), facts.label("c")), (Some("2"), Some(""), None));
        let fields: Vec<_> = facts.fields().collect();
        assert_eq!(fields, ["m", "", "", "", "true", "", "10.0.0.1", ""]);
        assert_eq!((facts.field(4), facts.field(8)), (Some("true"), None));
        let again = facts.with(&facts.labels().collect::<Vec<_>>(), facts.fields());
        assert!(again == facts && again.is_selected_as(&facts));
        let none = Facts::of(&NODES, &json!({"metadata": {"name": "m"}}).into());
        assert_eq!((none.namespace(), none.name(), none.labels().count()), ("", "m", 0));
        assert_eq!((Facts::default().name(), Facts::default().field(0)), ("", None));
    }

    #[test]
    fn a_label_is_not_taken_for_a_field() {
        let facts = |labels: serde_json::Value, node: &str| {
            Facts::of(&PODS, &json!({"metadata": {"labels": labels}, "spec": {"nodeName": node}}).into())
        };
        assert!(!facts(json!({"a": "b"}), "").is_selected_as(&facts(json!({}), "ab")));
        assert!(facts(json!({"a": "b"}), "c").is_selected_as(&facts(json!({"a": "b"}), "c")));
    }
}
