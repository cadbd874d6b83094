//! ConfigMaps, and the rules that they share with Secrets.

use crate::kinds::prelude::*;
use crate::strategy::field_rules::config_key;

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
        causes.problems(&format!("data[{key}]"), &key.as_str().into(), config_key(key));
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
