//! Human-readable form of objects: rows of a `Table` (`meta.k8s.io/v1`).
//!
//! Columns and cells match kubectl's. Columns of priority 1 are shown with `-o wide`.

mod autoscaler;
mod columns;
mod config;
mod duration;
mod event;
mod extension;
mod network;
mod node;
mod pod;
mod rbac;
mod row;
mod service;
mod storage;
mod workload;

use berth_schema::resource::Resource;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use duration::human_duration;

use crate::store::partial_metadata;
use columns::printer;
use row::Row;

const API_VERSION: &str = "meta.k8s.io/v1";

/// The part of the object that a row includes (`includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Parses the query parameter, whose default is empty; `None` if the value is unknown.
    pub fn parse(parameter: &str) -> Option<IncludeObject> {
        match parameter {
            "" | "Metadata" => Some(IncludeObject::Metadata),
            "None" => Some(IncludeObject::None),
            "Object" => Some(IncludeObject::Object),
            _ => None,
        }
    }
}

/// A table of one object. In a watch only the first event describes the columns.
pub fn table(
    resource: &Resource,
    object: &Value,
    include: IncludeObject,
    with_columns: bool,
    now: Timestamp,
) -> Value {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    json!({
        "kind": "Table",
        "apiVersion": API_VERSION,
        "metadata": { "resourceVersion": version },
        "columnDefinitions": if with_columns { columns(resource) } else { Value::Null },
        "rows": [row(resource, object, include, now)],
    })
}

/// The text of a table up to its first row; `]}` follows the last. `metadata` is that of the list.
pub fn head(resource: &Resource, metadata: &Value) -> String {
    let columns = columns(resource);
    format!(
        r#"{{"kind":"Table","apiVersion":"{API_VERSION}","metadata":{metadata},"columnDefinitions":{columns},"rows":["#
    )
}

/// The descriptions of the columns.
pub fn columns(resource: &Resource) -> Value {
    printer(resource.group, resource.kind).columns.iter().map(columns::Column::definition).collect()
}

/// The row of an object; ages are counted up to `now`.
pub fn row(resource: &Resource, object: &Value, include: IncludeObject, now: Timestamp) -> Value {
    let printer = printer(resource.group, resource.kind);
    let row = Row { object, now };
    let mut made = Map::new();
    made.insert("cells".to_owned(), Value::Array((printer.cells)(&row)));
    if let Some(conditions) = printer.conditions.and_then(|conditions| conditions(&row)) {
        made.insert("conditions".to_owned(), conditions);
    }
    let object = match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => partial_metadata(object),
        IncludeObject::Object => object.clone(),
    };
    made.insert("object".to_owned(), object);
    Value::Object(made)
}

#[cfg(test)]
mod tests;
