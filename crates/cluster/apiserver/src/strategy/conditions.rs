//! Validation of `metav1.Condition`s.

use berth_api::syntax;
use serde_json::Value;

use super::fields::{Causes, repeated, text};

const MAX_REASON: usize = 1024;
const MAX_MESSAGE: usize = 32 * 1024;
const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric \
     characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or \
     'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// Validates conditions, of which each has another type.
pub fn validate_conditions(path: &str, conditions: &Value, causes: &mut Causes) {
    let conditions = conditions.as_array().map_or(&[][..], Vec::as_slice);
    for i in repeated(conditions.iter().map(|condition| text(condition, "/type"))) {
        causes.duplicate(&format!("{path}[{i}]"), &conditions[i]["type"]);
    }
    for (i, condition) in conditions.iter().enumerate() {
        let field = |name: &str| format!("{path}[{i}].{name}");
        match text(condition, "/type") {
            "" => causes.required(&field("type"), "is required"),
            ty => causes.problems(&field("type"), &condition["type"], syntax::label_key(ty)),
        }
        match text(condition, "/status") {
            "" => causes.required(&field("status"), ""),
            _ => causes.one_of(&field("status"), &condition["status"], &["False", "True", "Unknown"]),
        }
        if condition["observedGeneration"].as_i64().is_some_and(|generation| generation < 0) {
            let why = "must be greater than or equal to zero";
            causes.invalid(&field("observedGeneration"), &condition["observedGeneration"], why);
        }
        if condition["lastTransitionTime"].is_null() {
            causes.required(&field("lastTransitionTime"), "");
        }
        match text(condition, "/reason") {
            "" => causes.required(&field("reason"), ""),
            reason if !is_reason(reason) => causes.invalid(&field("reason"), &condition["reason"], REASON),
            reason if reason.len() > MAX_REASON => causes.too_long(&field("reason"), MAX_REASON),
            _ => {}
        }
        if text(condition, "/message").len() > MAX_MESSAGE {
            causes.too_long(&field("message"), MAX_MESSAGE);
        }
    }
}

fn is_reason(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(is_word)
        && text.chars().all(|c| is_word(c) || matches!(c, ',' | ':'))
}
