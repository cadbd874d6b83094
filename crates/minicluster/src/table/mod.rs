//! Objects as clients for people want them: rows of a `Table`, or their metadata alone (`meta.k8s.io`).
//!
//! The columns and what is in them are kubectl's own; columns of priority 1 are shown with `-o wide`.

mod accept;
mod columns;
mod config;
mod duration;
mod event;
mod node;
mod pod;
mod row;
mod service;
mod storage;
mod workload;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use accept::{Form, negotiate};
pub use duration::human_duration;

use crate::resource::Resource;
use columns::printer;
use row::Row;

/// What a row carries of its object (`includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

impl IncludeObject {
    /// The value of the query parameter; `None` if it is no such value. Absent and empty mean the default.
    pub fn parse(parameter: Option<&str>) -> Option<IncludeObject> {
        match parameter {
            None | Some("" | "Metadata") => Some(IncludeObject::Metadata),
            Some("None") => Some(IncludeObject::None),
            Some("Object") => Some(IncludeObject::Object),
            Some(_) => None,
        }
    }
}

/// How a table is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `meta.k8s.io/v1` or `meta.k8s.io/v1beta1`.
    pub api_version: &'static str,
    /// What rows carry of their objects.
    pub include: IncludeObject,
    /// Whether the columns are described. In a watch only the first event describes them.
    pub headers: bool,
    /// What ages are counted from.
    pub now: Timestamp,
}

/// A table of objects of `resource`. `metadata` is that of the list; for one object, [`metadata_of`] makes it.
pub fn table<'o>(
    resource: &Resource,
    objects: impl IntoIterator<Item = &'o Value>,
    metadata: Value,
    options: &Options,
) -> Value {
    let printer = printer(resource.group, resource.kind);
    let rows: Vec<Value> = objects
        .into_iter()
        .map(|object| {
            let row = Row { object, now: options.now };
            let mut made = Map::new();
            made.insert("cells".to_owned(), Value::Array((printer.cells)(&row)));
            if let Some(conditions) = printer.conditions.and_then(|conditions| conditions(&row)) {
                made.insert("conditions".to_owned(), conditions);
            }
            let object = match options.include {
                IncludeObject::None => Value::Null,
                IncludeObject::Metadata => partial_object_metadata(object, options.api_version),
                IncludeObject::Object => object.clone(),
            };
            made.insert("object".to_owned(), object);
            Value::Object(made)
        })
        .collect();
    let columns = match options.headers {
        true => printer.columns.iter().map(columns::Column::definition).collect(),
        false => Value::Null,
    };
    json!({
        "kind": "Table",
        "apiVersion": options.api_version,
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

/// The list metadata of a table with one object.
pub fn metadata_of(object: &Value) -> Value {
    json!({ "resourceVersion": object["metadata"]["resourceVersion"].as_str().unwrap_or_default() })
}

/// The object's metadata alone.
pub fn partial_object_metadata(object: &Value, api_version: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": api_version,
        "metadata": object["metadata"],
    })
}

/// A list of metadata; `metadata` is that of the list.
pub fn partial_object_metadata_list<'o>(
    objects: impl IntoIterator<Item = &'o Value>,
    metadata: Value,
    api_version: &str,
) -> Value {
    let items: Vec<Value> =
        objects.into_iter().map(|object| partial_object_metadata(object, api_version)).collect();
    json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": api_version,
        "metadata": metadata,
        "items": items,
    })
}

#[cfg(test)]
mod tests;
