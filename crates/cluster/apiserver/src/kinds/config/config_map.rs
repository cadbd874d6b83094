//! ConfigMaps, and the rules that they share with Secrets.

use crate::kinds::prelude::*;

/// Largest size of the data in bytes.
const MAX_DATA_BYTES: usize = 1024 * 1024;

pub struct ConfigMap;

impl Strategy for ConfigMap {
    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        validate_data(value, causes);
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        validate_immutable(new, old, causes);
    }
}

/// Validates size and keys of the data.
pub fn validate_data(value: &Value, causes: &mut Causes) {
    let size: usize = ["data", "binaryData"]
        .iter()
        .filter_map(|field| value[*field].as_object())
        .flatten()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MAX_DATA_BYTES {
        causes.invalid("", &Value::from(""), &format!("Too long: must have at most {MAX_DATA_BYTES} bytes"));
    }
    for key in value["data"].as_object().into_iter().flatten().map(|(key, _)| key) {
        let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if key.is_empty() || key.len() > 253 || !key.bytes().all(fine) || matches!(key.as_str(), "." | "..") {
            causes.invalid(
                &format!("data[{key}]"),
                &Value::from(key.as_str()),
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
            );
        }
    }
}

/// Validates a change of an object that may be immutable.
pub fn validate_immutable(new: &Value, old: &Value, causes: &mut Causes) {
    if old["immutable"] != true {
        return;
    }
    for field in ["immutable", "data", "binaryData"] {
        if new[field] != old[field] {
            causes.forbidden(field, "field is immutable when `immutable` is set");
        }
    }
}

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::integer("Data", "How many entries it has.", |row| {
        (row.count("/data") + row.count("/binaryData")).into()
    }),
    AGE,
];
