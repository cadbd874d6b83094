//! RuntimeClasses. Admission merges them into pods.

use berth_api::read::from_value;
use berth_rules::admission::validate_runtime_class;
use berth_schema::resource::RUNTIME_CLASSES;

use crate::kinds::prelude::*;

pub static RUNTIME_CLASS: Typed =
    Typed { immutable: &["/handler"], is_fixed_first: true, check: validate, ..Typed::new(&RUNTIME_CLASSES) };

fn validate(class: &Value, causes: &mut Causes) {
    match from_value(class) {
        // The type requires a handler.
        Ok(class) => {
            let errors = validate_runtime_class(&class);
            let errors = errors.iter().filter(|e| !(e.field == "handler" && class.handler.is_empty()));
            causes.0.extend(errors.map(|error| cause(error, "")));
        }
        Err(error) => causes.invalid("", &Value::Null, &error.to_string()),
    }
}

pub const COLUMNS: &[Column] =
    &[NAME, Column::field("Handler", "The runtime's configuration.", "/handler"), AGE];
