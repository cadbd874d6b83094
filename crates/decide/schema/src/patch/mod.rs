//! The four kinds of patch, and field ownership.
//!
//! Patches are pure: the live object and the patch give the new object. Defaults, validation and storage come
//! after. [`json`], [`merge`] and [`strategic`] change a copy of the live object; [`apply`] is server-side
//! apply. [`managed`] keeps `metadata.managedFields` for every way of changing an object.

pub mod apply;
mod compare;
mod fields;
pub mod json;
pub mod managed;
pub mod merge;
mod order;
pub mod strategic;
mod typed;

#[cfg(test)]
mod tests;

use serde_json::Value;

/// A value as Go prints it.
pub fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let mut fields: Vec<_> =
                fields.iter().map(|(key, value)| format!("{key}:{}", go_text(value))).collect();
            fields.sort_unstable();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

/// Why a patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch does not match its content type: 400, `BadRequest`.
    #[error("{0}")]
    Malformed(String),
    /// The patch does not fit the object: 422, `Invalid`.
    #[error("the server rejected our request due to an error in our request")]
    Unprocessable(String),
    /// The patch does not match the type of the object: 500, without a reason.
    #[error("{0}")]
    Untyped(String),
    /// The result would be too large: 413, `RequestEntityTooLarge`.
    #[error("{0}")]
    TooLarge(String),
}
