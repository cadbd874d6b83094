//! Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::config_map::{validate_data, validate_immutable};
use crate::kinds::prelude::*;

pub struct Secret;

impl Strategy for Secret {
    fn default(&self, value: &mut Value) {
        take_string_data(value);
        if let Some(fields) = value.as_object_mut() {
            default_text(fields, "type", "Opaque");
        }
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        validate_data(value, causes);
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        causes.unchanged("type", &new["type"], &old["type"]);
        validate_immutable(new, old, causes);
    }
}

fn take_string_data(secret: &mut Value) {
    let Some(texts) = secret.as_object_mut().and_then(|fields| fields.shift_remove("stringData")) else {
        return;
    };
    let Some(texts) = texts.as_object().filter(|texts| !texts.is_empty()) else { return };
    if let Some(data) = object(secret, "data") {
        for (key, text) in texts {
            data.insert(key.clone(), Value::from(STANDARD.encode(text.as_str().unwrap_or_default())));
        }
    }
}

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::field("Type", "What the secret is for.", "/type"),
    Column::count("Data", "How many entries it has.", "/data"),
    AGE,
];
