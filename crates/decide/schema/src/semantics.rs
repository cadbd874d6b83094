//! How lists and maps are merged: facts of the Kubernetes API that its published OpenAPI carries as
//! `x-kubernetes-*` extensions and the generated bindings do not (`semantics.txt`).
//!
//! A list without a row is atomic, a map without one is granular, and a strategic merge patch replaces
//! both kinds of list.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

/// The attributes of definitions, by name without `io.k8s.`.
fn table() -> &'static FxHashMap<&'static str, &'static str> {
    static TABLE: OnceLock<FxHashMap<&str, &str>> = OnceLock::new();
    TABLE.get_or_init(|| rows(include_str!("semantics.txt")))
}

/// How a field is written that is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Empty {
    /// It is written, also if it is absent.
    Written,
    /// Likewise; it is `null` if it is absent.
    Null,
    /// It stays as it is.
    Kept,
}

/// The fields of a definition that Kubernetes does not leave out if they are empty (`encoded.txt`).
pub(super) fn encoded(definition: &str) -> impl Iterator<Item = (&'static str, Empty)> {
    static TABLE: OnceLock<FxHashMap<&str, &str>> = OnceLock::new();
    let table = TABLE.get_or_init(|| rows(include_str!("encoded.txt")));
    let row =
        definition.strip_prefix("io.k8s.").and_then(|short| table.get(short)).copied().unwrap_or_default();
    row.split_whitespace()
        .scan(Empty::Written, |empty, word| {
            match word {
                "null:" => *empty = Empty::Null,
                "kept:" => *empty = Empty::Kept,
                field => return Some(Some((field, *empty))),
            }
            Some(None)
        })
        .flatten()
}

/// The lines of a table by their first word.
fn rows(table: &'static str) -> FxHashMap<&'static str, &'static str> {
    table.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' ')).collect()
}

/// Optional list keys and their defaults.
static KEY_DEFAULTS: &[(&str, &str, &str)] =
    &[("api.core.v1.ContainerPort", "protocol", "TCP"), ("api.core.v1.ServicePort", "protocol", "TCP")];

/// Adds the `x-kubernetes-*` extensions of a definition.
pub(super) fn annotate(definition: &str, schema: &mut Value) {
    let Some(short) = definition.strip_prefix("io.k8s.") else { return };
    let attributes = table().get(short).copied().unwrap_or_default();
    if attributes.split(' ').any(|attribute| attribute == "atomic") {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for property in properties.values_mut() {
        if property.get("type").is_some_and(|t| t == "array") {
            property["x-kubernetes-list-type"] = json!("atomic");
        }
    }
    for (field, attributes) in attributes.split(' ').filter_map(|attribute| attribute.split_once('=')) {
        let Some(property) = properties.get_mut(field) else { continue };
        attributes.split('|').for_each(|attribute| annotate_field(property, attribute));
    }
    for (_, field, default) in KEY_DEFAULTS.iter().filter(|row| row.0 == short) {
        if let Some(property) = properties.get_mut(*field) {
            property["default"] = json!(default);
        }
    }
}

fn annotate_field(property: &mut Value, attribute: &str) {
    let (name, argument) = attribute.split_once('(').unwrap_or((attribute, ")"));
    let argument = argument.trim_end_matches(')');
    match name {
        "set" => property["x-kubernetes-list-type"] = json!("set"),
        "map" => {
            property["x-kubernetes-list-map-keys"] = argument.split(',').collect();
            property["x-kubernetes-list-type"] = json!("map");
        }
        "key" => property["x-kubernetes-patch-merge-key"] = json!(argument),
        "strategy" => property["x-kubernetes-patch-strategy"] = json!(argument),
        map_type => property["x-kubernetes-map-type"] = json!(map_type),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions;

    #[test]
    fn every_encoded_field_exists() {
        let all = definitions::generate(|_| true);
        for (definition, _) in rows(include_str!("encoded.txt")) {
            let name = format!("io.k8s.{definition}");
            let schema = all.get(&name).unwrap_or_else(|| panic!("UNKNOWN {definition}"));
            for (field, _) in encoded(&name) {
                assert!(schema["properties"][field].is_object(), "{definition}.{field}");
            }
        }
    }

    #[test]
    fn every_row_names_a_field_that_exists() {
        let all = definitions::generate(|_| true);
        for (definition, attributes) in table() {
            let schema = all.get(&format!("io.k8s.{definition}")).expect(definition);
            for (field, attributes) in attributes.split(' ').filter_map(|row| row.split_once('=')) {
                let property = &schema["properties"][field];
                assert!(property.is_object(), "{definition}.{field}");
                let is_list_type = attributes.starts_with("set") || attributes.starts_with("map(");
                assert!(!is_list_type || property["type"] == "array", "{definition}.{field}");
                for key in property["x-kubernetes-list-map-keys"].as_array().into_iter().flatten() {
                    let items =
                        definitions::referred(&property["items"]).expect("items of a map are objects");
                    let key = key.as_str().expect("a name");
                    assert!(all[items]["properties"][key].is_object(), "{definition}.{field}: {key}");
                }
            }
        }
        for (definition, field, _) in KEY_DEFAULTS {
            let property = &all[&format!("io.k8s.{definition}")]["properties"][field];
            assert_eq!(property["type"], "string", "{definition}.{field}");
        }
    }
}
