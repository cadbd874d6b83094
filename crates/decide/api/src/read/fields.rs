//! Reading a JSON value field by field, with all findings and their paths.
//!
//! serde stops at the first error, and its strict mode reports no path; users want all errors of a configuration file at
//! once.

use std::cell::RefCell;
use std::fmt;

use jiff::SignedDuration;
use serde_json::{Map, Value};

use crate::feature_gates::FeatureGates;
use crate::syntax::similar::nearest;

/// An error or a warning about one field of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMessage {
    /// Path of the field, such as `profiles[0].pluginConfig[1].args.hardPodAffinityWeight`.
    pub path: String,
    /// The problem and how to fix it.
    pub text: String,
}

impl fmt::Display for ConfigMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.text);
        }
        write!(f, "{}: {}", self.path, self.text)
    }
}

/// All errors of a configuration; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(pub Vec<ConfigMessage>);

impl fmt::Display for ConfigErrors {
    /// One finding per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, message) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{message}")?;
        }
        Ok(())
    }
}

/// Collects the findings of one reading.
#[derive(Debug, Default)]
pub struct Findings {
    errors: RefCell<Vec<ConfigMessage>>,
    warnings: RefCell<Vec<ConfigMessage>>,
    /// Whether fields that kube-scheduler does not have are accepted.
    extensions: bool,
    /// Features whose fields are accepted.
    pub feature_gates: FeatureGates,
}

impl Findings {
    /// Without extensions, fields that kube-scheduler does not have are errors.
    pub fn new(extensions: bool, feature_gates: FeatureGates) -> Findings {
        Findings { extensions, feature_gates, ..Findings::default() }
    }

    /// Adds an error at this path.
    pub fn error(&self, path: impl Into<String>, text: impl Into<String>) {
        self.errors.borrow_mut().push(ConfigMessage { path: path.into(), text: text.into() });
    }

    /// Adds a warning about this path.
    pub fn warn(&self, path: impl Into<String>, text: impl Into<String>) {
        self.warnings.borrow_mut().push(ConfigMessage { path: path.into(), text: text.into() });
    }

    /// The warnings.
    ///
    /// # Errors
    /// All errors, if there are any.
    pub fn finish(self) -> Result<Vec<ConfigMessage>, ConfigErrors> {
        let errors = self.errors.into_inner();
        if errors.is_empty() { Ok(self.warnings.into_inner()) } else { Err(ConfigErrors(errors)) }
    }
}

/// A value with its path in the file.
#[derive(Clone)]
pub struct Node<'a> {
    pub value: &'a Value,
    /// Field path; empty for the whole file.
    pub path: String,
    pub findings: &'a Findings,
}

impl<'a> Node<'a> {
    /// Reports an error about this value.
    pub fn error(&self, text: impl Into<String>) {
        self.findings.error(self.path.as_str(), text);
    }

    /// Reports this value as invalid, quoting it as Kubernetes does.
    pub fn invalid(&self, detail: &str) {
        self.error(format!("Invalid value: {}: {detail}", self.value));
    }

    /// Reports that this value has the wrong type.
    pub fn must_be(&self, what: &str) {
        let is = match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        self.error(format!("must be {what}, not {is}"));
    }

    /// Whether extensions are enabled; reports an error if this value, which is one, is not allowed.
    pub fn is_extension_enabled(&self) -> bool {
        if !self.findings.extensions {
            self.error("Forbidden: an extension of Berth, and extensions are disabled");
        }
        self.findings.extensions
    }

    pub fn fields(&self) -> Option<Fields<'a>> {
        let Value::Object(map) = self.value else {
            self.must_be("an object");
            return None;
        };
        Some(Fields { map, path: self.path.clone(), findings: self.findings, known: Vec::new() })
    }

    pub fn items(&self) -> Vec<Node<'a>> {
        let Value::Array(items) = self.value else {
            self.must_be("a list");
            return Vec::new();
        };
        let item = |(i, value)| Node { value, path: format!("{}[{i}]", self.path), findings: self.findings };
        items.iter().enumerate().map(item).collect()
    }

    pub fn string(&self) -> Option<&'a str> {
        let text = self.value.as_str();
        if text.is_none() {
            self.must_be("a string");
        }
        text
    }

    pub fn bool(&self) -> Option<bool> {
        let flag = self.value.as_bool();
        if flag.is_none() {
            self.must_be("true or false");
        }
        flag
    }

    /// An integer of 64 bits.
    pub fn int64(&self) -> Option<i64> {
        let number = self.value.as_i64();
        if number.is_none() {
            match self.value {
                Value::Number(_) => self.invalid("must be an integer of 64 bits"),
                _ => self.must_be("an integer"),
            }
        }
        number
    }

    /// An integer of 32 bits.
    pub fn int32(&self) -> Option<i32> {
        let number = i32::try_from(self.int64()?).ok();
        if number.is_none() {
            self.invalid("must be an integer of 32 bits");
        }
        number
    }

    /// An integer between two bounds, both included.
    pub fn int_between(&self, low: i32, high: i32) -> Option<i32> {
        let number = self.int32()?;
        if !(low..=high).contains(&number) {
            self.invalid(&format!("not in valid range [{low}, {high}]"));
            return None;
        }
        Some(number)
    }

    /// A Go duration such as `1m30s`, which may be negative.
    pub fn duration(&self) -> Option<SignedDuration> {
        let duration = self.string()?.parse().ok();
        if duration.is_none() {
            self.invalid(NO_DURATION);
        }
        duration
    }

    pub fn strings(&self) -> Vec<String> {
        self.items().iter().filter_map(|item| item.string()).map(str::to_owned).collect()
    }
}

/// What a text that is no duration should be.
pub const NO_DURATION: &str = "must be a duration, for example 15s or 1m30s";

/// The type of a field that is checked but not used.
#[derive(Clone, Copy)]
pub enum Kind {
    /// true or false.
    Bool,
    /// An integer.
    Int,
    Number,
    /// A text.
    String,
}

/// The fields of one object. Fields that were not read are unknown fields.
pub struct Fields<'a> {
    map: &'a Map<String, Value>,
    /// Field path of the object.
    pub path: String,
    pub findings: &'a Findings,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// A field of Berth alone: false by default, and an error without extensions.
    pub fn extension_flag(&mut self, name: &'static str) -> bool {
        let flag = self.get(name).filter(|flag| flag.is_extension_enabled());
        flag.and_then(|flag| flag.bool()).unwrap_or_default()
    }

    /// A field; `null` is the same as absent.
    pub fn get(&mut self, name: &'static str) -> Option<Node<'a>> {
        if !self.known.contains(&name) {
            self.known.push(name);
        }
        let value = self.map.get(name).filter(|value| !value.is_null())?;
        Some(Node { value, path: self.path_of(name), findings: self.findings })
    }

    /// The items of a list field; none when it is absent.
    pub fn items(&mut self, name: &'static str) -> Vec<Node<'a>> {
        self.get(name).map_or_else(Vec::new, |list| list.items())
    }

    /// A required string field, not empty.
    pub fn required_string(&mut self, name: &'static str) -> Option<Node<'a>> {
        match self.get(name) {
            Some(node) if node.value.as_str() == Some("") => node.error("Required value: can not be empty"),
            Some(node) => return node.string().map(|_| node),
            None => self.findings.error(self.path_of(name), "Required value"),
        }
        None
    }

    /// Checks the types of fields that do not influence decisions.
    pub fn accept(&mut self, fields: &[(&'static str, Kind)]) {
        for (name, kind) in fields {
            let Some(node) = self.get(name) else { continue };
            match kind {
                Kind::Bool => drop(node.bool()),
                Kind::Int => drop(node.int64()),
                Kind::Number if node.value.is_number() => {}
                Kind::Number => node.must_be("a number"),
                Kind::String => drop(node.string()),
            }
        }
    }

    /// Reports the fields that were not read.
    pub fn finish(self) {
        for ConfigMessage { path, text } in self.unread() {
            self.findings.error(path, text);
        }
    }

    /// The fields that were not read, for files that may have more fields than are known here.
    pub fn unread(&self) -> Vec<ConfigMessage> {
        let names = self.map.keys().filter(|name| !self.known.contains(&name.as_str()));
        let message = |name: &String| {
            let text = format!("unknown field; {}", suggestion(name, &self.known));
            ConfigMessage { path: self.path_of(name), text }
        };
        names.map(message).collect()
    }
}

/// "did you mean ..." when a candidate is similar, else the list of candidates.
pub fn suggestion(given: &str, candidates: &[&str]) -> String {
    match nearest(given, candidates.iter().copied()) {
        Some(candidate) => format!("did you mean {candidate:?}?"),
        None => format!("known here: {}", candidates.join(", ")),
    }
}
