//! Decoding of objects into types, with errors that name the object and the field.

use serde::Deserialize;
use serde_json::Value;

use super::Manifest;
use super::value::{ValueError, from_value};

/// A field with a wrong type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {path}: {message}")]
pub struct DecodeError {
    /// Kind, namespace and name.
    pub object: String,
    /// Path of the field.
    pub path: String,
    /// The error and how to fix it.
    pub message: String,
}

/// Decodes an object.
///
/// # Errors
/// The first field with a wrong type.
pub fn decode<'de, T: Deserialize<'de>>(manifest: &'de Manifest) -> Result<T, DecodeError> {
    decode_at(&manifest.value, "", manifest)
}

/// Decodes a part of `object`; `prefix` is the path of the part, such as `spec.template`.
///
/// # Errors
/// The first field with a wrong type.
pub fn decode_at<'de, T: Deserialize<'de>>(
    value: &'de Value,
    prefix: &str,
    object: &dyn std::fmt::Display,
) -> Result<T, DecodeError> {
    from_value(value).map_err(|error| DecodeError {
        object: object.to_string(),
        path: error.path_below(prefix),
        message: explained(&error, value),
    })
}

/// The message of an error about a value: in plain words, and how to fix it.
pub fn explained(error: &ValueError, value: &Value) -> String {
    let mut message = in_plain_words(&super::error::shortened(error.message()));
    if matches!(error.find(value), Some(Value::Number(_) | Value::Bool(_)))
        && message.ends_with("expected a string")
    {
        message.push_str(": quote it");
    }
    message
}

/// A message of serde without the names of Rust's types.
fn in_plain_words(message: &str) -> String {
    const WORDS: [(&str, &str); 9] = [
        ("expected a sequence", "expected a list"),
        ("expected a map", "expected an object"),
        ("type: sequence", "type: list"),
        ("type: map", "type: object"),
        ("type: unit value", "type: null"),
        ("expected i32", "expected an integer of 32 bits"),
        ("expected i64", "expected an integer of 64 bits"),
        ("expected u16", "expected an integer from 0 to 65535"),
        ("expected u32", "expected an integer from 0 to 4294967295"),
    ];
    let message = match message.split_once("expected struct ") {
        Some((found, _)) => format!("{found}expected an object"),
        None => message.to_owned(),
    };
    WORDS.iter().fold(message, |message, (word, plain)| message.replace(word, plain))
}
