//! One object of an input.

use std::fmt;

use serde_json::{Map, Value};

use super::integer_bounds::quote_integer_bounds_of_object;
use super::{Kind, ReadError, SourceLocation};

/// An object with all its fields, in their order.
///
/// Two things differ from the text: objects inside a typed list (`PodList`) have the `apiVersion` and
/// `kind` that the list implies, and integer bounds of `Gt` and `Lt` in pod terms are strings (see
/// [`super::quote_integer_bounds`]).
///
/// A file of another type (such as the values of a chart) is not an error: an object without `kind`, `apiVersion`,
/// `metadata` and `spec` is passed on with an empty kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub kind: String,
    pub api_version: String,
    /// The whole object.
    pub value: Value,
    /// Where it was read.
    pub source: SourceLocation,
}

impl Manifest {
    /// Reads the kind of an object.
    ///
    /// # Errors
    /// It is not an object, or `kind` or `apiVersion` is missing or not a string.
    pub fn new(mut value: Value, source: SourceLocation) -> Result<Self, ReadError> {
        let Value::Object(object) = &value else {
            return Err(ReadError::NotAnObject { place: source, found: super::error::describe(&value) });
        };
        if !["kind", "apiVersion", "metadata", "spec"].iter().any(|field| object.contains_key(*field)) {
            return Ok(Manifest { kind: String::new(), api_version: String::new(), value, source });
        }
        let is_chart = ["name", "version", "apiVersion"].iter().all(|field| object.contains_key(*field));
        if is_chart && !object.contains_key("kind") {
            return Err(ReadError::HelmChart { place: source });
        }
        let Some(kind) = text_field(object, "kind") else {
            return Err(ReadError::MissingField { place: source, field: "kind", example: "kind: Pod" });
        };
        let Some(api_version) = text_field(object, "apiVersion") else {
            return Err(ReadError::MissingField {
                place: source,
                field: "apiVersion",
                example: "apiVersion: v1",
            });
        };
        quote_integer_bounds_of_object(&kind, &mut value);
        let manifest = Manifest { kind, api_version, value, source };
        check_name("name", manifest.name(), &manifest.source)?;
        check_name("namespace", manifest.namespace(), &manifest.source)?;
        Ok(manifest)
    }

    /// `metadata.name`, or an empty string.
    pub fn name(&self) -> &str {
        self.metadata("name")
    }

    /// `metadata.namespace`, or an empty string.
    pub fn namespace(&self) -> &str {
        self.metadata("namespace")
    }

    fn metadata(&self, field: &str) -> &str {
        self.value.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or_default()
    }
}

/// Names stand in lines of texts: with a line end, one object would look like several.
pub(super) fn check_name(field: &'static str, value: &str, place: &SourceLocation) -> Result<(), ReadError> {
    match value.contains(char::is_control) {
        false => Ok(()),
        true => Err(ReadError::ControlCharacter { place: place.clone(), field, value: value.to_owned() }),
    }
}

impl fmt::Display for Manifest {
    /// `Pod default/web`, or `Node n1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_namespaced =
            Kind::of(&self.api_version, &self.kind).map_or(!self.namespace().is_empty(), Kind::is_namespaced);
        let namespace = match (is_namespaced, self.namespace()) {
            (false, _) => "",
            (true, "") => DEFAULT_NAMESPACE,
            (true, namespace) => namespace,
        };
        f.write_str(&display_name(&self.kind, namespace, self.name()))
    }
}

/// The name of an object in messages: `Pod default/web`, `Node n1`.
pub fn display_name(kind: &str, namespace: &str, name: &str) -> String {
    match (namespace, name) {
        (_, "") => kind.to_owned(),
        ("", name) => format!("{kind} {name}"),
        (namespace, name) => format!("{kind} {namespace}/{name}"),
    }
}

/// The namespace of objects that name none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// A field that is a non-empty string.
pub(super) fn text_field(object: &Map<String, Value>, field: &str) -> Option<String> {
    object.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}
