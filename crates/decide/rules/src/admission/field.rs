//! Field errors, printed exactly as Kubernetes prints them.

use std::fmt;

use serde::Serialize;

use berth_api::syntax::quantity::Quantity;

berth_api::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub enum ErrorType(as_str) {
        #[serde(rename = "FieldValueRequired")]
        Required = "FieldValueRequired",
        /// A value is malformed or out of bounds.
        #[serde(rename = "FieldValueInvalid")]
        Invalid = "FieldValueInvalid",
        #[serde(rename = "FieldValueNotSupported")]
        NotSupported = "FieldValueNotSupported",
        /// A value is not allowed in these circumstances.
        #[serde(rename = "FieldValueForbidden")]
        Forbidden = "FieldValueForbidden",
        /// A value that must be unique is duplicated.
        #[serde(rename = "FieldValueDuplicate")]
        Duplicate = "FieldValueDuplicate",
        #[serde(rename = "FieldValueTooLong")]
        TooLong = "FieldValueTooLong",
        /// A value refers to something that does not exist.
        #[serde(rename = "FieldValueNotFound")]
        NotFound = "FieldValueNotFound",
    }
}

impl ErrorType {
    fn words(self) -> &'static str {
        match self {
            ErrorType::Required => "Required value",
            ErrorType::Invalid => "Invalid value",
            ErrorType::NotSupported => "Unsupported value",
            ErrorType::Forbidden => "Forbidden",
            ErrorType::Duplicate => "Duplicate value",
            ErrorType::TooLong => "Too long",
            ErrorType::NotFound => "Not found",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    #[serde(rename = "type")]
    pub error_type: ErrorType,
    /// Path of the field, such as `spec.affinity.nodeAffinity`.
    pub field: String,
    /// What a valid value is; may be empty.
    pub detail: String,
    /// The whole message: `path: Invalid value: "x": detail`.
    pub error: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)
    }
}

/// A value as an error message shows it. The variants differ because Kubernetes prints plain strings
/// with Go's quoting, and enumerated types and quantities as JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BadValue<'a> {
    Text(&'a str),
    Enumerated(&'a str),
    Json(&'a str),
    Number(i64),
    Omitted,
}

impl<'a> From<&'a str> for BadValue<'a> {
    fn from(text: &'a str) -> Self {
        BadValue::Text(text)
    }
}

impl<'a> From<&'a String> for BadValue<'a> {
    fn from(text: &'a String) -> Self {
        BadValue::Text(text)
    }
}

impl From<i32> for BadValue<'_> {
    fn from(number: i32) -> Self {
        BadValue::Number(i64::from(number))
    }
}

impl fmt::Display for BadValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadValue::Text(text) => f.write_str(&go_quoted(text)),
            BadValue::Enumerated(text) => f.write_str(&go_json(text)),
            BadValue::Json(json) => f.write_str(json),
            BadValue::Number(number) => write!(f, "{number}"),
            BadValue::Omitted => Ok(()),
        }
    }
}

/// A string as Go's `%q` prints it.
fn go_quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            ' '..='~' => quoted.push(c),
            c if c.is_ascii() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if is_printable(c) => quoted.push(c),
            c if u32::from(c) < 0x1_0000 => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether a character is printable in Go; combining marks are.
fn is_printable(c: char) -> bool {
    // `str::escape_debug` escapes a combining mark only at the start of the text.
    let text: String = ['a', c].iter().collect();
    text.escape_debug().count() == 2
}

/// A string as Go's JSON encoder prints it, which also escapes what HTML reserves.
pub(crate) fn go_json(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// A path to a field, converted to text only for errors.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'a> {
    Root(&'a str),
    Child(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
    Key(&'a Path<'a>, &'a str),
}

impl<'a> Path<'a> {
    pub fn child(&'a self, name: &'a str) -> Path<'a> {
        Path::Child(self, name)
    }

    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }

    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root(name) => f.write_str(name),
            Path::Child(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Path::Key(parent, key) => write!(f, "{parent}[{key}]"),
        }
    }
}

/// Further errors of an object are counted, not kept.
const MAX_ERRORS: usize = 100;
/// Longer texts in an error are cut to this many bytes.
const MAX_TEXT: usize = 4096;

/// Cuts a text that repeats what a user sent.
pub fn shortened(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        text.push_str("...");
    }
    text
}

/// The errors found so far, in order.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    list: Vec<FieldError>,
    omitted: usize,
}

impl Errors {
    fn push(&mut self, error_type: ErrorType, path: &Path<'_>, value: Option<BadValue<'_>>, detail: String) {
        if self.list.len() == MAX_ERRORS {
            self.omitted += 1;
            return;
        }
        let field = shortened(path.to_string());
        let mut error = format!("{field}: {}", error_type.words());
        if let Some(value) = value.filter(|v| !matches!(v, BadValue::Omitted)) {
            error.push_str(&format!(": {value}"));
        }
        if !detail.is_empty() {
            error.push_str(": ");
            error.push_str(&detail);
        }
        let (detail, error) = (shortened(detail), shortened(error));
        self.list.push(FieldError { error_type, field, detail, error });
    }

    /// The errors; the last one says how many more there are.
    pub fn into_list(mut self) -> Vec<FieldError> {
        if let Some(last) = self.list.last_mut().filter(|_| self.omitted > 0) {
            let more = format!(" (and {} more errors)", self.omitted);
            last.detail.push_str(&more);
            last.error.push_str(&more);
        }
        self.list
    }

    pub fn required(&mut self, path: &Path<'_>, detail: &str) {
        self.push(ErrorType::Required, path, None, detail.to_owned());
    }

    pub fn forbidden(&mut self, path: &Path<'_>, detail: &str) {
        self.push(ErrorType::Forbidden, path, None, detail.to_owned());
    }

    pub fn invalid<'v>(
        &mut self,
        path: &Path<'_>,
        value: impl Into<BadValue<'v>>,
        detail: impl Into<String>,
    ) {
        self.push(ErrorType::Invalid, path, Some(value.into()), detail.into());
    }

    pub fn invalid_each(&mut self, path: &Path<'_>, value: &str, messages: Vec<String>) {
        for message in messages {
            self.invalid(path, value, message);
        }
    }

    pub fn invalid_quantity(&mut self, path: &Path<'_>, value: Quantity, detail: impl Into<String>) {
        self.invalid(path, &value.to_string(), detail);
    }

    pub fn duplicate(&mut self, path: &Path<'_>, value: &str) {
        self.push(ErrorType::Duplicate, path, Some(BadValue::Text(value)), String::new());
    }

    pub fn duplicate_json(&mut self, path: &Path<'_>, json: &str) {
        self.push(ErrorType::Duplicate, path, Some(BadValue::Json(json)), String::new());
    }

    pub fn not_found(&mut self, path: &Path<'_>, value: &str, detail: String) {
        self.push(ErrorType::NotFound, path, Some(BadValue::Text(value)), detail);
    }

    pub fn too_long(&mut self, path: &Path<'_>, max_bytes: usize) {
        self.push(ErrorType::TooLong, path, None, format!("may not be more than {max_bytes} bytes"));
    }

    pub fn not_supported(&mut self, path: &Path<'_>, value: &str, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|value| go_quoted(value)).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        self.push(ErrorType::NotSupported, path, Some(BadValue::Enumerated(value)), detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_as_go_does() {
        for (text, quoted, json) in [
            ("plain", r#""plain""#, r#""plain""#),
            ("a\"b\\", r#""a\"b\\""#, r#""a\"b\\""#),
            ("a<b>&", r#""a<b>&""#, r#""a\u003cb\u003e\u0026""#),
            ("\u{1}\t\u{7f}", r#""\x01\t\x7f""#, "\"\\u0001\\t\u{7f}\""),
            ("größe", "\"größe\"", "\"größe\""),
            ("e\u{301}", "\"e\u{301}\"", "\"e\u{301}\""),
            ("\u{200b}", r#""\u200b""#, "\"\u{200b}\""),
            ("\u{e0001}", r#""\U000e0001""#, "\"\u{e0001}\""),
            ("🙂", "\"🙂\"", "\"🙂\""),
        ] {
            assert_eq!(go_quoted(text), quoted);
            assert_eq!(go_json(text), json);
        }
    }
}
