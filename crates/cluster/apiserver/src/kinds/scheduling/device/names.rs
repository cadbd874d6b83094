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

const MIXED_CASE: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end \
     with an alphanumeric character (e.g. 'Example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// As [`validate_driver`], in the words of rules that types declare.
pub fn validate_declared_driver(path: &str, name: &Value, causes: &mut Causes) {
    let text = text(name, "");
    if text.len() > 253 {
        causes.invalid(path, name, "must be no more than 253 bytes");
    } else if !text.is_empty() && !syntax::dns_subdomain(&text.to_lowercase()).is_empty() {
        causes.invalid(path, name, MIXED_CASE);
    }
    if text.len() > MAX_DRIVER_NAME {
        let why = format!("Too long: may not be more than {MAX_DRIVER_NAME} characters");
        causes.push(CauseType::FieldValueTooLong, path, why);
    }
}

/// As [`validate_pool`], in the words of rules that types declare.
pub fn validate_declared_pool(path: &str, name: &Value, causes: &mut Causes) {
    let text = text(name, "");
    if text.len() > MAX_POOL_NAME {
        causes.too_long(path, MAX_POOL_NAME);
    }
    for (i, part) in text.split('/').enumerate().filter(|_| !text.is_empty()) {
        let why = |problem| format!("segment {i}: {problem}");
        causes.problems(path, &part.into(), syntax::declared_subdomain(part).into_iter().map(why).collect());
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
    match text.split('/').collect::<Vec<_>>()[..] {
        [domain, name] if !domain.is_empty() => {
            let problems = syntax::declared_subdomain(domain);
            let why = |problem| format!("prefix: {problem}");
            causes.problems(path, &domain.into(), problems.into_iter().map(why).collect());
            match name {
                "" => causes.invalid(path, &"".into(), "the name must not be empty"),
                name => validate_identifier(path, name, causes),
            }
        }
        [_] => {
            validate_identifier(path, text, causes);
            causes.invalid(
                path,
                name,
                "a fully qualified name must be a domain and a name separated by a slash",
            );
        }
        [_, _] => validate_qualified_name(path, text, causes),
        // kube-apiserver 1.37.2 accepts further slashes, and such an attribute is one of no device.
        _ => {}
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

/// JSON that only a driver understands: an object of limited size.
pub fn validate_raw(path: &str, raw: &Value, max_bytes: usize, causes: &mut Causes) {
    match raw {
        Value::Null => causes.required(path, ""),
        Value::Array(_) => causes.invalid(path, &"<value omitted>".into(), "must be a valid JSON object"),
        _ if raw.to_string().len() > max_bytes => causes.too_long(path, max_bytes),
        Value::Object(_) => {}
        _ => causes.invalid(path, &"<value omitted>".into(), "must be a valid JSON object"),
    }
}
