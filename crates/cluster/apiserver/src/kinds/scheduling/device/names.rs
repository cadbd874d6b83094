//! Names of drivers, pools, devices, attributes and conditions, and the lists of them.

use berth_api::syntax;

use crate::kinds::prelude::*;
pub use crate::strategy::fields::{limited, limited_set};

const MAX_DRIVER_NAME: usize = 63;
const MAX_POOL_NAME: usize = 253;
const MAX_IDENTIFIER: usize = 32;
const C_IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
     alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is \
     '[A-Za-z_][A-Za-z0-9_]*')";

/// Conditions of a device at most, in each of the two lists.
const MAX_BINDING_CONDITIONS: usize = 4;

/// A text with the problems of a rule; an empty text is missing, which the type's own rules say.
pub fn validate_name(path: &str, name: &Value, rule: fn(&str) -> Vec<String>, causes: &mut Causes) {
    let text = name.as_str().unwrap_or_default();
    if !text.is_empty() {
        causes.problems(path, name, rule(text));
    }
}

pub fn validate_driver(path: &str, name: &Value, causes: &mut Causes) {
    let text = name.as_str().unwrap_or_default();
    if text.len() > MAX_DRIVER_NAME {
        causes.too_long(path, MAX_DRIVER_NAME);
    }
    if !text.is_empty() {
        causes.problems(path, name, syntax::dns_subdomain(&text.to_lowercase()));
    }
}

/// The name of a pool: DNS subdomains with slashes between them.
pub fn validate_pool(path: &str, name: &Value, causes: &mut Causes) {
    let text = name.as_str().unwrap_or_default();
    if text.is_empty() {
        return;
    }
    if text.len() > MAX_POOL_NAME {
        causes.too_long(path, MAX_POOL_NAME);
    }
    for part in text.split('/') {
        causes.problems(path, &part.into(), syntax::dns_subdomain(part));
    }
}

/// The name of an attribute or a capacity: an identifier, in a domain or not.
pub fn validate_qualified_name(path: &str, name: &str, causes: &mut Causes) {
    match name.split('/').collect::<Vec<_>>()[..] {
        [name] => validate_identifier(path, name, causes),
        [domain, name] => {
            match domain {
                "" => causes.invalid(path, &"".into(), "the domain must not be empty"),
                domain => validate_driver(path, &domain.into(), causes),
            }
            match name {
                "" => causes.invalid(path, &"".into(), "the name must not be empty"),
                name => validate_identifier(path, name, causes),
            }
        }
        _ => causes.invalid(path, &name.into(), "must not contain more than one slash"),
    }
}

/// The name of an attribute with its domain.
pub fn validate_fully_qualified_name(path: &str, name: &Value, causes: &mut Causes) {
    let text = name.as_str().unwrap_or_default();
    validate_qualified_name(path, text, causes);
    if !text.contains('/') {
        causes.invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn validate_identifier(path: &str, name: &str, causes: &mut Causes) {
    if name.len() > MAX_IDENTIFIER {
        causes.too_long(path, MAX_IDENTIFIER);
    }
    let is_word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !is_word || name.bytes().next().is_none_or(|b| b.is_ascii_digit()) {
        causes.invalid(path, &name.into(), C_IDENTIFIER);
    }
}

/// `bindingConditions` and `bindingFailureConditions` of a device or a result.
pub fn validate_binding_conditions(device: &Value, path: &str, causes: &mut Causes) {
    let lists = ["bindingConditions", "bindingFailureConditions"];
    let [conditions, failures] = lists.map(|list| {
        let field = format!("{path}.{list}");
        let given = limited_set(&device[list], &field, MAX_BINDING_CONDITIONS, |item| item, causes);
        for (i, condition) in given.iter().enumerate() {
            let problems = syntax::label_key(condition.as_str().unwrap_or_default());
            causes.problems(&format!("{field}[{i}]"), condition, problems);
        }
        given
    });
    for (i, failure) in failures.iter().enumerate().filter(|(_, failure)| conditions.contains(failure)) {
        let why = "bindingFailureConditions must not overlap with bindingConditions";
        causes.invalid(&format!("{path}.bindingFailureConditions[{i}]"), failure, why);
    }
    let [has_conditions, has_failures] = lists.map(|list| !is_empty(&device[list]));
    if !has_conditions && has_failures {
        let why = "bindingConditions are required to use bindingFailureConditions";
        causes.invalid(&format!("{path}.bindingConditions"), &device["bindingConditions"], why);
    }
    if has_conditions && !has_failures {
        let why = "bindingFailureConditions are required to use bindingConditions";
        causes.invalid(&format!("{path}.bindingFailureConditions"), &device["bindingFailureConditions"], why);
    }
}

pub fn validate_node_selector(selector: &Value, path: &str, causes: &mut Causes) {
    let Ok(selector) = berth_api::read::from_value(selector) else { return };
    for error in berth_rules::admission::validate_node_selector(&selector) {
        let cause = crate::strategy::fields::cause(&error, path);
        causes.push(cause.cause_type, &cause.field, cause.message);
    }
}

/// JSON that only a driver understands: an object of limited size.
pub fn validate_raw(path: &str, raw: &Value, max_bytes: usize, causes: &mut Causes) {
    match raw {
        Value::Null => causes.required(path, ""),
        _ if raw.to_string().len() > max_bytes => causes.too_long(path, max_bytes),
        Value::Object(_) => {}
        _ => causes.invalid(path, &"<value omitted>".into(), "must be a valid JSON object"),
    }
}
