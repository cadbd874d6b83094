//! Human-readable form of objects: rows of a `Table` (`meta.k8s.io/v1`).
//!
//! Columns and cells match kubectl's. Columns of priority 1 are shown with `-o wide`.

pub mod columns;
mod custom;
pub mod duration;
mod parse;
pub mod row;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use parse::parse;

use columns::{Column, Columns};
use row::Row;

const API_VERSION: &str = "meta.k8s.io/v1";

/// The part of the object that a row includes (`includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
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
    columns: Columns,
    object: &Value,
    included: &[u8],
    with_columns: bool,
    now: Timestamp,
) -> Vec<u8> {
    let version = &object["metadata"]["resourceVersion"];
    let metadata = json!({"resourceVersion": version.as_str().unwrap_or_default()});
    let definitions = if with_columns { definitions(columns) } else { Value::Null };
    let mut table = head_with(&definitions, &metadata).into_bytes();
    write_row(&mut table, columns, object, included, now);
    table.extend_from_slice(b"]}");
    table
}

/// The text of a table up to its first row; `]}` follows the last. `metadata` is that of the list.
pub fn head(columns: Columns, metadata: &Value) -> String {
    head_with(&definitions(columns), metadata)
}

fn head_with(definitions: &Value, metadata: &Value) -> String {
    format!(
        r#"{{"kind":"Table","apiVersion":"{API_VERSION}","metadata":{metadata},"columnDefinitions":{definitions},"rows":["#
    )
}

fn definitions(columns: Columns) -> Value {
    match columns {
        Columns::BuiltIn(columns, _) => columns.iter().map(Column::definition).collect(),
        Columns::Custom(custom) => custom::columns(custom),
    }
}

/// Writes the row of an object with the JSON of the part that it includes; ages are counted up to `now`.
pub fn write_row(out: &mut Vec<u8>, columns: Columns, object: &Value, included: &[u8], now: Timestamp) {
    let row = Row::new(object, now);
    let (cells, conditions) = match columns {
        Columns::BuiltIn(columns, conditions) => {
            (columns.iter().map(|column| column.cell(&row)).collect(), conditions(&row))
        }
        Columns::Custom(custom) => (custom::cells(custom, &row), None),
    };
    // A JSON value serializes into memory without failing.
    let write = |out: &mut Vec<u8>, value: &Value| drop(serde_json::to_writer(out, value));
    out.extend_from_slice(br#"{"cells":"#);
    write(out, &Value::Array(cells));
    if let Some(conditions) = conditions {
        out.extend_from_slice(br#","conditions":"#);
        write(out, &conditions);
    }
    out.extend_from_slice(br#","object":"#);
    out.extend_from_slice(included);
    out.push(b'}');
}

#[cfg(test)]
mod tests;
