//! Defaults and validation by structural schemas. Messages are those of kube-apiserver.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{LazyLock, Mutex, PoisonError};

use berth_api::work::WorkBudget;
use regex::{Regex, RegexBuilder};

use crate::kinds::prelude::*;
use crate::request::{CauseType, MAX_BODY_BYTES};
use crate::strategy::field_rules::AddressRange;

/// Sizes of compiled patterns: most need less than the first; those that need more than the second check nothing.
const SMALL_PATTERN: usize = 1 << 16;
const LARGE_PATTERN: usize = 1 << 20;
/// Size of all compiled patterns that are kept.
const MAX_PATTERNS: usize = 64 << 20;
/// The work for one object, in steps of well below a microsecond: users write both schemas and objects, and a small schema
/// times a small object may be much.
const MAX_STEPS: u64 = 10_000_000;
/// Further problems of an object are not listed.
const MAX_PROBLEMS: usize = 100;

/// Work that may still be done.
struct Budget {
    steps: WorkBudget,
    bytes: Cell<usize>,
}

impl Budget {
    fn new() -> Budget {
        Budget { steps: WorkBudget::new(MAX_STEPS), bytes: Cell::new(MAX_BODY_BYTES) }
    }

    fn spend(&self, steps: usize) {
        self.steps.spend(steps).ok();
    }

    fn is_spent(&self) -> bool {
        self.steps.is_spent() || self.bytes.get() == 0
    }
}

fn n_properties(schema: &Value) -> usize {
    schema["properties"].as_object().map_or(0, Map::len)
}

/// Sets what is absent, and what is null although the schema does not allow it. An object for which this is too much work,
/// or that would become too large, is left incomplete: [`validate_by`] refuses it for the same reason.
pub fn default_by(schema: &Value, value: &mut Value) {
    set_defaults(schema, value, &Budget::new());
}

fn set_defaults(schema: &Value, value: &mut Value, budget: &Budget) {
    budget.spend(1 + n_properties(schema));
    if budget.is_spent() {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                let Some(default) = property.get("default") else { continue };
                let absent = match fields.get(name) {
                    None => true,
                    Some(value) => value.is_null() && property["nullable"] != true,
                };
                if absent {
                    let length = default.to_string().len();
                    budget.bytes.set(budget.bytes.get().saturating_sub(length));
                    fields.insert(name.clone(), default.clone());
                    // The object is too large now, and is refused for that.
                    if budget.is_spent() {
                        return;
                    }
                }
            }
            for (name, value) in fields {
                let property = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
                set_defaults(property, value, budget);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| set_defaults(&schema["items"], item, budget)),
        _ => {}
    }
}

/// Validates an object; its metadata is validated elsewhere.
pub fn validate_by(schema: &Value, value: &Value, causes: &mut Causes) {
    if value.to_string().len() > MAX_BODY_BYTES {
        return causes
            .forbidden("", &format!("the object with its defaults is larger than {MAX_BODY_BYTES} bytes"));
    }
    let budget = Budget::new();
    let mut validator = Validator { path: String::new(), causes, budget: &budget };
    validator.fields(schema, value.as_object().unwrap_or(&Map::new()), true);
    if budget.is_spent() {
        let why = "checking the object against the schema of its CustomResourceDefinition is too much work: \
                   simplify the schema, or split the object";
        causes.forbidden("", why);
    }
}

struct Validator<'c> {
    path: String,
    causes: &'c mut Causes,
    budget: &'c Budget,
}

impl Validator<'_> {
    fn at(&mut self, element: &str, check: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if !self.path.is_empty() && !element.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(element);
        check(self);
        self.path.truncate(length);
    }

    fn is_full(&self) -> bool {
        self.causes.0.len() >= MAX_PROBLEMS || self.budget.is_spent()
    }

    fn invalid(&mut self, value: &Value, why: &str) {
        let why = format!("{} in body {why}", self.path);
        self.causes.invalid(&self.path, value, &why);
    }

    fn wrong_type(&mut self, expected: &str, value: &Value) {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let message = format!(
            "Invalid value: \"{kind}\": {} in body must be of type {expected}: \"{kind}\"",
            self.path
        );
        self.causes.push(CauseType::FieldValueTypeInvalid, &self.path, message);
    }

    fn value(&mut self, schema: &Value, value: &Value) {
        self.budget.spend(1);
        if self.is_full() || !schema.is_object() {
            return;
        }
        if value.is_null() && schema["nullable"] == true {
            return;
        }
        let fits = match (schema["type"].as_str(), value) {
            _ if schema["x-kubernetes-int-or-string"] == true => {
                value.is_string() || value.is_i64() || value.is_u64()
            }
            (None | Some(""), _) => true,
            (Some("integer"), Value::Number(number)) => number.as_f64().is_some_and(|n| n.fract() == 0.0),
            (Some("number"), value) => value.is_number(),
            (Some("string"), value) => value.is_string(),
            (Some("boolean"), value) => value.is_boolean(),
            (Some("array"), value) => value.is_array(),
            (Some("object"), value) => value.is_object(),
            _ => false,
        };
        if !fits {
            let expected = match schema["x-kubernetes-int-or-string"] == true {
                true => "integer,string",
                false => schema["type"].as_str().unwrap_or_default(),
            };
            return self.wrong_type(expected, value);
        }
        if let Some(allowed) = schema["enum"].as_array() {
            self.budget.spend(allowed.len());
            if !allowed.contains(value) {
                let supported: Vec<String> =
                    allowed.iter().take(MAX_PROBLEMS).map(Value::to_string).collect();
                let message =
                    format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
                self.causes.push(CauseType::FieldValueNotSupported, &self.path, message);
            }
        }
        match value {
            Value::String(text) => self.text(schema, value, text),
            Value::Number(number) => self.number(schema, value, number.as_f64().unwrap_or(0.0)),
            Value::Array(list) => self.list(schema, value, list),
            Value::Object(fields) => {
                self.fields(schema, fields, schema["x-kubernetes-embedded-resource"] == true);
            }
            Value::Null | Value::Bool(_) => {}
        }
        self.combinations(schema, value);
    }

    fn text(&mut self, schema: &Value, value: &Value, text: &str) {
        let length = text.chars().count() as u64;
        if let Some(max) = schema["maxLength"].as_u64().filter(|max| length > *max) {
            let message = format!("Too long: may not be more than {max} bytes");
            self.causes.push(CauseType::FieldValueTooLong, &self.path, message);
        }
        if let Some(min) = schema["minLength"].as_u64().filter(|min| length < *min) {
            self.invalid(value, &format!("should be at least {min} chars long"));
        }
        if let Some(pattern) = schema["pattern"].as_str()
            && let Some(regex) = compiled(pattern, text, self.budget)
            && !self.budget.is_spent()
            && !regex.is_match(text)
        {
            self.invalid(value, &format!("should match '{pattern}'"));
        }
        if let Some(format) = schema["format"].as_str().filter(|format| !has_format(format, text)) {
            let message =
                format!("Invalid value: {value}: {} in body must be of type {format}: {value}", self.path);
            self.causes.push(CauseType::FieldValueTypeInvalid, &self.path, message);
        }
    }

    fn number(&mut self, schema: &Value, value: &Value, number: f64) {
        let strictly = |field: &str| schema[field] == true;
        if let Some(min) = schema["minimum"].as_f64() {
            if strictly("exclusiveMinimum") && number <= min {
                self.invalid(value, &format!("should be greater than {min}"));
            } else if number < min {
                self.invalid(value, &format!("should be greater than or equal to {min}"));
            }
        }
        if let Some(max) = schema["maximum"].as_f64() {
            if strictly("exclusiveMaximum") && number >= max {
                self.invalid(value, &format!("should be less than {max}"));
            } else if number > max {
                self.invalid(value, &format!("should be less than or equal to {max}"));
            }
        }
        if let Some(of) = schema["multipleOf"].as_f64()
            && of > 0.0
            && (number / of).fract() != 0.0
        {
            self.invalid(value, &format!("should be a multiple of {of}"));
        }
        if schema["format"] == "int32" && value.as_i64().is_none_or(|n| i32::try_from(n).is_err()) {
            self.invalid(value, &format!("must be of type int32: {value}"));
        }
    }

    fn count(
        &mut self,
        schema: &Value,
        value: &Value,
        count: usize,
        (least, most, what): (&str, &str, &str),
    ) {
        if let Some(max) = schema[most].as_u64().filter(|max| count as u64 > *max) {
            self.causes.too_many(&self.path, count, usize::try_from(max).unwrap_or(usize::MAX));
        }
        if let Some(min) = schema[least].as_u64().filter(|min| (count as u64) < *min) {
            self.invalid(value, &format!("should have at least {min} {what}"));
        }
    }

    fn list(&mut self, schema: &Value, value: &Value, list: &[Value]) {
        let keys = match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => Some(&[][..]),
            Some("map") => schema["x-kubernetes-list-map-keys"].as_array().map(Vec::as_slice),
            _ => None,
        };
        let mut seen = HashSet::new();
        for (index, item) in list.iter().enumerate() {
            let element = format!("[{index}]");
            if let Some(keys) = keys {
                let named = |key: &Value| {
                    let key = key.as_str().unwrap_or_default();
                    (key.to_owned(), item[key].clone())
                };
                let identity = match keys {
                    [] => item.clone(),
                    keys => Value::Object(keys.iter().map(named).collect()),
                };
                if !seen.insert(identity.to_string()) {
                    self.at(&element, |this| this.causes.duplicate(&this.path, &identity));
                }
            }
            self.at(&element, |this| this.value(&schema["items"], item));
            if self.is_full() {
                return;
            }
        }
        self.count(schema, value, list.len(), ("minItems", "maxItems", "items"));
    }

    fn fields(&mut self, schema: &Value, fields: &Map<String, Value>, is_object: bool) {
        // As for the defaults, which look for each property.
        self.budget.spend(n_properties(schema));
        if schema.get("minProperties").is_some() || schema.get("maxProperties").is_some() {
            let value = Value::Object(fields.clone());
            self.count(schema, &value, fields.len(), ("minProperties", "maxProperties", "properties"));
        }
        self.budget.spend(schema["required"].as_array().map_or(0, Vec::len));
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if fields.get(name).is_none_or(Value::is_null) && schema["properties"][name]["nullable"] != true {
                self.at(name, |this| this.causes.required(&this.path, ""));
            }
        }
        for (name, value) in fields {
            let is_missing =
                value.is_null() && items(schema, "required").iter().any(|required| required == name);
            if is_missing || is_object && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
                continue;
            }
            match schema["properties"].get(name) {
                Some(property) => self.at(name, |this| this.value(property, value)),
                None if schema["additionalProperties"].is_object() => {
                    self.at(name, |this| this.value(&schema["additionalProperties"], value));
                }
                None => {}
            }
        }
    }

    fn combinations(&mut self, schema: &Value, value: &Value) {
        // A schema with all that follows from its members would have reported the type already.
        let budget = self.budget;
        let holds = |schema: &Value| {
            let mut causes = Causes::default();
            Validator { path: String::new(), causes: &mut causes, budget }.value(schema, value);
            causes.0.is_empty()
        };
        for all in schema["allOf"].as_array().into_iter().flatten() {
            self.value(all, value);
        }
        if let Some(any) = schema["anyOf"].as_array()
            && schema["x-kubernetes-int-or-string"] != true
            && !any.iter().any(holds)
        {
            self.invalid(value, "must validate at least one schema (anyOf)");
        }
        if let Some(one) = schema["oneOf"].as_array()
            && one.iter().filter(|schema| holds(schema)).count() != 1
        {
            self.invalid(value, "must validate one and only one schema (oneOf)");
        }
        if schema["not"].is_object() && holds(&schema["not"]) {
            self.invalid(value, "must not validate the schema (not)");
        }
    }
}

/// A pattern; `None` if it is not a regular expression of this server, which then checks nothing. What compiling it costs,
/// and matching the text at worst, is taken from the budget.
fn compiled(pattern: &str, text: &str, budget: &Budget) -> Option<Regex> {
    let (regex, size) = kept(pattern).unwrap_or_else(|| {
        let build = |size| RegexBuilder::new(pattern).size_limit(size).dfa_size_limit(size).build().ok();
        let (regex, size) = match build(SMALL_PATTERN) {
            Some(regex) => (Some(regex), SMALL_PATTERN),
            None => (build(LARGE_PATTERN), LARGE_PATTERN),
        };
        budget.spend(size / 4);
        keep(pattern, (regex.clone(), size));
        (regex, size)
    });
    budget.spend(text.len().saturating_mul(size / SMALL_PATTERN * 8));
    regex
}

/// A compiled pattern with its size at most.
type Compiled = (Option<Regex>, usize);

/// The patterns that were compiled, by their texts, and the sum of their sizes.
static PATTERNS: LazyLock<Mutex<(HashMap<String, Compiled>, usize)>> = LazyLock::new(Mutex::default);

fn kept(pattern: &str) -> Option<Compiled> {
    PATTERNS.lock().unwrap_or_else(PoisonError::into_inner).0.get(pattern).cloned()
}

fn keep(pattern: &str, compiled: Compiled) {
    let mut patterns = PATTERNS.lock().unwrap_or_else(PoisonError::into_inner);
    let (compiled_patterns, sum) = &mut *patterns;
    *sum += compiled.1 + pattern.len();
    if *sum > MAX_PATTERNS {
        compiled_patterns.clear();
        *sum = compiled.1 + pattern.len();
    }
    compiled_patterns.insert(pattern.to_owned(), compiled);
}

/// Whether a text has a format. Unknown formats hold for every text.
fn has_format(format: &str, text: &str) -> bool {
    use base64::Engine as _;
    match format {
        "date-time" | "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "ip" => text.parse::<IpAddr>().is_ok(),
        "cidr" => AddressRange::parse(text).is_some(),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => uuid::Uuid::try_parse(text).is_ok(),
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "uri" => text.contains(':') || text.starts_with('/'),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 5},
            "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4},
            "port": {"x-kubernetes-int-or-string": true},
            "at": {"type": "string", "format": "date-time"},
            "note": {"type": "string", "nullable": true},
            "items": {"type": "array", "maxItems": 2, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["key"],
                "items": {"type": "object", "properties": {"key": {"type": "string"},
                    "depth": {"type": "integer", "default": 3}}}},
            "either": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        }}}})
    }

    #[test]
    fn problems_have_paths_and_the_messages_of_kube_apiserver() {
        let cases = [
            (json!({"size": 3, "color": "red", "name": "abc", "port": "http", "note": null}), ""),
            (json!({}), "spec.size: Required value"),
            (
                json!({"size": "x"}),
                "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
            ),
            (
                json!({"size": 0}),
                "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
            ),
            (
                json!({"size": 6}),
                "spec.size: Invalid value: 6: spec.size in body should be less than or equal to 5",
            ),
            (
                json!({"size": 1, "color": "green"}),
                "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
            ),
            (
                json!({"size": 1, "name": "A1"}),
                "spec.name: Invalid value: \"A1\": spec.name in body should match '^[a-z]+$'",
            ),
            (json!({"size": 1, "name": "abcde"}), "spec.name: Too long: may not be more than 4 bytes"),
            (
                json!({"size": 1, "port": 1.5}),
                "spec.port: Invalid value: \"number\": spec.port in body must be of type integer,string: \"number\"",
            ),
            (
                json!({"size": 1, "at": "noon"}),
                "spec.at: Invalid value: \"noon\": spec.at in body must be of type date-time: \"noon\"",
            ),
            (
                json!({"size": 1, "items": [{"key": "a"}, {"key": "a"}]}),
                "spec.items[1]: Duplicate value: {\"key\":\"a\"}",
            ),
            (
                json!({"size": 1, "items": [{}, {"key": "a"}, {"key": "b"}]}),
                "spec.items: Too many: 3: must have at most 2 items",
            ),
            (
                json!({"size": 1, "either": {"a": "", "b": ""}}),
                "spec.either: Invalid value: {\"a\":\"\",\"b\":\"\"}: \
                spec.either in body must validate one and only one schema (oneOf)",
            ),
        ];
        for (spec, expected) in cases {
            let mut causes = Causes::default();
            validate_by(&schema(), &json!({"metadata": {"x": 1}, "spec": spec}), &mut causes);
            let problems: Vec<_> =
                causes.0.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
            assert_eq!(problems.join("; "), expected, "{spec}");
        }
    }

    #[test]
    fn defaults_fill_what_is_absent_or_wrongly_null() {
        let mut value = json!({"spec": {"size": 1, "color": null, "items": [{"key": "a"}]}});
        default_by(&schema(), &mut value);
        let expected = json!({"size": 1, "color": "red", "items": [{"key": "a", "depth": 3}]});
        assert_eq!(value, json!({ "spec": expected }));
    }
}
