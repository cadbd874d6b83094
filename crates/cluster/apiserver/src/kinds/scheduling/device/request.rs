//! What claims and their templates request, and the selectors and the configuration that classes also have.

use std::collections::HashSet;

use berth_api::syntax;
use berth_rules::{DeviceSelector, MAX_SELECTOR_BYTES, derived_attribute_problem};

use super::names::{
    limited, limited_set, validate_declared_driver, validate_fully_qualified_name, validate_name,
    validate_raw,
};
use crate::kinds::prelude::*;

const MAX_REQUESTS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const MAX_CONSTRAINTS: usize = 32;
pub const MAX_CONFIG: usize = 32;
const MAX_SELECTORS: usize = 32;
const MAX_DERIVED: usize = 32;
const MAX_PARAMETERS: usize = 10 * 1024;

/// The names that a claim gives its requests and alternatives, as other fields refer to them: `REQUEST` or
/// `REQUEST/ALTERNATIVE`.
pub struct RequestNames<'v>(HashSet<(&'v str, Option<&'v str>)>);

impl<'v> RequestNames<'v> {
    pub fn of(devices: &'v Value) -> RequestNames<'v> {
        let names = items(devices, "requests").iter().flat_map(|request| {
            let name = text(request, "/name");
            let alternatives = items(request, "firstAvailable").iter();
            let alternatives = alternatives.map(move |alternative| (name, Some(text(alternative, "/name"))));
            alternatives.chain([(name, None)])
        });
        RequestNames(names.collect())
    }

    pub fn validate(&self, path: &str, reference: &Value, causes: &mut Causes) {
        const NO_REQUEST: &str = "must be the name of a request in the claim or the name of a request and a subrequest \
                                  separated by '/'";
        let name = reference.as_str().unwrap_or_default();
        let (request, alternative) = match name.split_once('/') {
            Some((request, alternative)) => (request, Some(alternative)),
            None => (name, None),
        };
        if alternative.is_none_or(|alternative| !alternative.contains('/')) {
            for part in std::iter::once(request).chain(alternative) {
                causes.problems(path, &part.into(), syntax::dns_label(part));
            }
        }
        if !self.0.contains(&(request, alternative)) {
            causes.invalid(path, reference, NO_REQUEST);
        }
    }

    /// Validates the `requests` of a constraint or a configuration.
    pub fn validate_all(&self, path: &str, references: &Value, causes: &mut Causes) {
        let path = format!("{path}.requests");
        for (i, reference) in
            limited_set(references, &path, MAX_REQUESTS, |item| item, causes).iter().enumerate()
        {
            self.validate(&format!("{path}[{i}]"), reference, causes);
        }
    }
}

/// Sets the default count of each request for a number of devices.
pub fn default_counts(devices: &mut Value) {
    for request in items_mut(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly") {
            default_count(exactly);
        }
        items_mut(request, "firstAvailable").iter_mut().for_each(default_count);
    }
}

fn default_count(request: &mut Value) {
    let is_counted = request["allocationMode"] == "ExactCount";
    if is_counted
        && matches!(request["count"].as_i64(), None | Some(0))
        && let Some(fields) = request.as_object_mut()
    {
        fields.insert("count".to_owned(), 1.into());
    }
}

pub fn validate_devices(devices: &Value, path: &str, causes: &mut Causes) {
    let names = RequestNames::of(devices);
    let field = format!("{path}.requests");
    let requests = limited_names(&devices["requests"], &field, MAX_REQUESTS, causes);
    for (i, request) in requests.iter().enumerate() {
        validate_request(request, items(devices, "constraints"), &format!("{field}[{i}]"), causes);
    }
    let field = format!("{path}.constraints");
    let constraints = limited(&devices["constraints"], &field, MAX_CONSTRAINTS, causes);
    for (i, constraint) in constraints.iter().enumerate() {
        validate_constraint(constraint, &names, &format!("{field}[{i}]"), causes);
    }
    let field = format!("{path}.config");
    for (i, config) in limited(&devices["config"], &field, MAX_CONFIG, causes).iter().enumerate() {
        let field = format!("{field}[{i}]");
        names.validate_all(&field, &config["requests"], causes);
        validate_config(config, &field, causes);
    }
}

/// The items of a list, which differ in their names.
fn limited_names<'v>(list: &'v Value, path: &str, max: usize, causes: &mut Causes) -> &'v [Value] {
    let list = limited(list, path, max, causes);
    for i in repeated(list.iter().map(|item| &item["name"])) {
        causes.duplicate(&format!("{path}[{i}]"), &list[i]);
    }
    list
}

fn validate_request(request: &Value, constraints: &[Value], path: &str, causes: &mut Causes) {
    let request_name = text(request, "/name");
    causes.problems(&format!("{path}.name"), &request_name.into(), syntax::dns_label(request_name));
    let alternatives = &request["firstAvailable"];
    match (request["exactly"].is_null(), is_empty(alternatives)) {
        (true, true) => causes.required(path, "exactly one of `exactly` or `firstAvailable` is required"),
        (false, false) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            causes.invalid(path, &Value::Null, why);
        }
        (false, true) => {
            let (exactly, path) = (&request["exactly"], format!("{path}.exactly"));
            validate_choice(exactly, &path, syntax::dns_subdomain, causes);
            validate_derived(exactly, constraints, &[request_name], &path, causes);
        }
        (true, false) => {
            let field = format!("{path}.firstAvailable");
            let alternatives = limited_names(alternatives, &field, MAX_ALTERNATIVES, causes);
            for (i, alternative) in alternatives.iter().enumerate() {
                let field = format!("{field}[{i}]");
                let name = text(alternative, "/name");
                causes.problems(&format!("{field}.name"), &name.into(), syntax::dns_label(name));
                validate_choice(alternative, &field, syntax::declared_subdomain, causes);
                let name = format!("{request_name}/{name}");
                validate_derived(alternative, constraints, &[request_name, &name], &field, causes);
            }
        }
    }
}

/// An exact request or an alternative.
fn validate_choice(choice: &Value, path: &str, class: fn(&str) -> Vec<String>, causes: &mut Causes) {
    validate_name(&format!("{path}.deviceClassName"), &choice["deviceClassName"], class, causes);
    validate_selectors(&choice["selectors"], &format!("{path}.selectors"), causes);
    let (count, field) = (choice["count"].as_i64().unwrap_or_default(), format!("{path}.count"));
    match text(choice, "/allocationMode") {
        "All" if count != 0 => {
            causes.invalid(&field, &count.into(), "must not be specified when allocationMode is 'All'");
        }
        "ExactCount" if count <= 0 => causes.invalid(&field, &count.into(), "must be greater than zero"),
        _ => {}
    }
    validate_tolerations(&choice["tolerations"], &format!("{path}.tolerations"), causes);
}

/// Attributes that are derived from those of a device, for the constraints on a request.
fn validate_derived(choice: &Value, constraints: &[Value], names: &[&str], path: &str, causes: &mut Causes) {
    let path = format!("{path}.derivedAttributes");
    let derived = items(choice, "derivedAttributes");
    let is_used = |attribute: &Value| {
        constraints.iter().any(|constraint| {
            let of = ["matchAttribute", "distinctAttribute"]
                .into_iter()
                .find(|field| !constraint[field].is_null());
            let requests = items(constraint, "requests");
            of.is_some_and(|field| constraint[field] == *attribute)
                && (requests.is_empty()
                    || requests.iter().any(|request| names.iter().any(|name| request == name)))
        })
    };
    for i in repeated(derived.iter().map(|attribute| &attribute["name"])) {
        causes.duplicate(&format!("{path}[{i}]"), &derived[i]["name"]);
    }
    for (i, attribute) in derived.iter().enumerate() {
        let (field, name) = (format!("{path}[{i}].name"), &attribute["name"]);
        if is_empty(name) {
            causes.required(&field, "");
        } else {
            if !is_used(name) {
                let why = "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this \
                           request";
                causes.invalid(&field, name, why);
            }
            validate_fully_qualified_name(&field, name, causes);
        }
        let (field, expression) = (format!("{path}[{i}].expression"), &attribute["expression"]);
        match expression.as_str().unwrap_or_default() {
            // The type says so.
            "" => {}
            text if text.len() > MAX_SELECTOR_BYTES => causes.too_long(&field, MAX_SELECTOR_BYTES),
            text => {
                if let Some(why) = derived_attribute_problem(text) {
                    causes.invalid(&field, expression, &why);
                }
            }
        }
    }
    if derived.len() > MAX_DERIVED {
        causes.too_many(&path, derived.len(), MAX_DERIVED);
    }
}

/// Tolerations of a request, or of an allocated device.
pub fn validate_tolerations(tolerations: &Value, path: &str, causes: &mut Causes) {
    for (i, toleration) in tolerations.as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}[{i}]");
        validate_name(&format!("{path}.key"), &toleration["key"], syntax::label_key, causes);
        let (value, field) = (&toleration["value"], format!("{path}.value"));
        if text(toleration, "/operator") == "Exists" {
            if !is_empty(value) {
                causes.invalid(&field, value, "must be empty for operator `Exists`");
            }
        } else {
            validate_name(&field, value, syntax::label_value, causes);
        }
        let effect = &toleration["effect"];
        if !is_empty(effect) {
            causes.one_of(&format!("{path}.effect"), effect, super::EFFECTS);
        }
    }
}

/// Selectors of a request or a class.
pub fn validate_selectors(selectors: &Value, path: &str, causes: &mut Causes) {
    for (i, selector) in limited(selectors, path, MAX_SELECTORS, causes).iter().enumerate() {
        if selector["cel"].is_null() {
            causes.required(&format!("{path}[{i}].cel"), "");
        } else {
            validate_expression(
                &format!("{path}[{i}].cel.expression"),
                &selector["cel"]["expression"],
                causes,
            );
        }
    }
}

fn validate_expression(path: &str, expression: &Value, causes: &mut Causes) {
    let text = expression.as_str().unwrap_or_default();
    if text.len() > MAX_SELECTOR_BYTES {
        return causes.too_long(path, MAX_SELECTOR_BYTES);
    }
    match DeviceSelector::compile(text) {
        Err(reason) => causes.invalid(path, &text.into(), &reason),
        Ok(selector) if selector.exceeds_cost_limit() => {
            causes.forbidden(path, "too complex, exceeds cost limit");
        }
        Ok(_) => {}
    }
}

fn validate_constraint(constraint: &Value, names: &RequestNames<'_>, path: &str, causes: &mut Causes) {
    names.validate_all(path, &constraint["requests"], causes);
    match (&constraint["matchAttribute"], &constraint["distinctAttribute"]) {
        (Value::Null, Value::Null) => {
            let why = r#"exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set"#;
            causes.required(path, why);
        }
        (Value::Null, name) => {
            validate_fully_qualified_name(&format!("{path}.distinctAttribute"), name, causes);
        }
        // The other one does not count then.
        (name, _) => validate_fully_qualified_name(&format!("{path}.matchAttribute"), name, causes),
    }
}

/// Configuration of a class, a claim or an allocation.
pub fn validate_config(config: &Value, path: &str, causes: &mut Causes) {
    let (opaque, path) = (&config["opaque"], format!("{path}.opaque"));
    if opaque.is_null() {
        causes.required(&path, "");
        return;
    }
    validate_raw(&format!("{path}.parameters"), &opaque["parameters"], MAX_PARAMETERS, causes);
    validate_declared_driver(&format!("{path}.driver"), &opaque["driver"], causes);
}
