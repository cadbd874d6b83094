//! Human-readable form of objects: rows of a `Table` (`meta.k8s.io/v1`).
//!
//! Columns and cells match kubectl's. Columns of priority 1 are shown with `-o wide`.

mod autoscaler;
mod columns;
mod config;
mod custom;
mod duration;
mod event;
mod extension;
mod network;
mod node;
mod parse;
mod pod;
mod rbac;
mod row;
mod service;
mod storage;
mod workload;

use berth_schema::resource::Resource;
use jiff::Timestamp;
use serde_json::{Value, json};

pub use duration::human_duration;
pub use parse::parse;

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
    included: &[u8],
    with_columns: bool,
    now: Timestamp,
) -> Vec<u8> {
    let version = &object["metadata"]["resourceVersion"];
    let metadata = json!({"resourceVersion": version.as_str().unwrap_or_default()});
    let columns = if with_columns { columns(resource) } else { Value::Null };
    let mut table = head_with(&columns, &metadata).into_bytes();
    write_row(&mut table, resource, object, included, now);
    table.extend_from_slice(b"]}");
    table
}

/// The text of a table up to its first row; `]}` follows the last. `metadata` is that of the list.
pub fn head(resource: &Resource, metadata: &Value) -> String {
    head_with(&columns(resource), metadata)
}

fn head_with(columns: &Value, metadata: &Value) -> String {
    format!(
        r#"{{"kind":"Table","apiVersion":"{API_VERSION}","metadata":{metadata},"columnDefinitions":{columns},"rows":["#
    )
}

/// The descriptions of the columns.
pub fn columns(resource: &Resource) -> Value {
    if let Some(custom) = resource.custom {
        return custom::columns(custom);
    }
    printer(resource.group, resource.kind).columns.iter().map(columns::Column::definition).collect()
}

/// Writes the row of an object with the JSON of the part that it includes; ages are counted up to `now`.
pub fn write_row(out: &mut Vec<u8>, resource: &Resource, object: &Value, included: &[u8], now: Timestamp) {
    let printer = printer(resource.group, resource.kind);
    let row = Row { object, now };
    // A JSON value serializes into memory without failing.
    let write = |out: &mut Vec<u8>, value: &Value| drop(serde_json::to_writer(out, value));
    out.extend_from_slice(br#"{"cells":"#);
    let cells = resource.custom.map_or_else(|| (printer.cells)(&row), |custom| custom::cells(custom, &row));
    write(out, &Value::Array(cells));
    if let Some(conditions) = printer.conditions.and_then(|conditions| conditions(&row)) {
        out.extend_from_slice(br#","conditions":"#);
        write(out, &conditions);
    }
    out.extend_from_slice(br#","object":"#);
    out.extend_from_slice(included);
    out.push(b'}');
}

#[cfg(test)]
mod tests;
