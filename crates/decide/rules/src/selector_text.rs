//! Label and field selectors in the text form of `kubectl -l`, `--field-selector` and the API's query parameters.
//!
//! The syntax and the messages are those of `k8s.io/apimachinery/pkg/labels` and `.../fields`.

use std::str::FromStr;

use super::{Requirement, Selector};
use berth_api::syntax;

/// Why a text is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error("unable to parse requirement: {0}")]
    Label(String),
    #[error("invalid selector: '{selector}'; can't understand '{part}'")]
    Field { selector: String, part: String },
}

/// Reads a label selector such as `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>5`. The empty text selects everything.
impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Selector, SelectorError> {
        if text.trim().is_empty() {
            return Ok(Selector::EVERYTHING);
        }
        let mut depth = 0_usize;
        let is_separator = |c: char| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        };
        let parts = text.split(is_separator).map(|part| match part.trim() {
            "" => Err(SelectorError::Label(format!("found ',', expected: identifier in {text:?}"))),
            part => parse_requirement(part),
        });
        Ok(Selector::new(parts.collect::<Result<_, _>>()?))
    }
}

fn parse_requirement(part: &str) -> Result<Requirement, SelectorError> {
    if part == "!" {
        return Err(SelectorError::Label("found '', expected: identifier".to_owned()));
    }
    if let Some(key) = part.strip_prefix('!') {
        return Ok(Requirement::DoesNotExist(label_key(key)?));
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(label_key(key)?, vec![label_value(value)?]));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        if value.starts_with('=') {
            return Err(SelectorError::Label("found '=', expected: identifier".to_owned()));
        }
        return Ok(Requirement::In(label_key(key)?, vec![label_value(value)?]));
    }
    if let Some((key, bound)) = part.split_once('>') {
        return Ok(Requirement::Gt(label_key(key)?, integer(bound)?));
    }
    if let Some((key, bound)) = part.split_once('<') {
        return Ok(Requirement::Lt(label_key(key)?, integer(bound)?));
    }
    let Some((key, rest)) = part.split_once(char::is_whitespace) else {
        return Ok(Requirement::Exists(label_key(part)?));
    };
    let (operator, set) = rest.split_once('(').unwrap_or((rest, ""));
    if !matches!(operator.trim(), "in" | "notin") {
        let found = rest.split_whitespace().next().unwrap_or_default();
        return Err(SelectorError::Label(format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt")));
    }
    if !rest.contains('(') {
        return Err(SelectorError::Label("found '', expected: '('".to_owned()));
    }
    let Some(set) = set.trim().strip_suffix(')') else {
        let expected = if set.trim().is_empty() { "',', ')' or identifier" } else { "',' or ')'" };
        return Err(SelectorError::Label(format!("found '', expected: {expected}")));
    };
    let mut values = set.split(',').map(label_value).collect::<Result<Vec<_>, _>>()?;
    values.sort_unstable();
    values.dedup();
    match operator.trim() {
        "in" => Ok(Requirement::In(label_key(key)?, values)),
        _ => Ok(Requirement::NotIn(label_key(key)?, values)),
    }
}

fn label_key(key: &str) -> Result<String, SelectorError> {
    let key = key.trim();
    match syntax::label_key(key).first() {
        Some(problem) => Err(SelectorError::Label(format!("key: Invalid value: {key:?}: {problem}"))),
        None => Ok(key.to_owned()),
    }
}

fn label_value(value: &str) -> Result<String, SelectorError> {
    let value = value.trim();
    match syntax::label_value(value).first() {
        Some(problem) => Err(SelectorError::Label(format!("values: Invalid value: {value:?}: {problem}"))),
        None => Ok(value.to_owned()),
    }
}

fn integer(bound: &str) -> Result<i64, SelectorError> {
    let bound = bound.trim();
    bound.parse().map_err(|_| {
        SelectorError::Label(format!(
            "values[0]: Invalid value: {bound:?}: for 'Gt', 'Lt' operators, the value must be an integer"
        ))
    })
}

/// A field selector: requirements on single fields, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// The requirements in the order of the text.
    pub requirements: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The name of the field, such as `spec.nodeName`.
    pub field: String,
    pub value: String,
    /// Whether the field must have the value (`=`) or must not have it (`!=`).
    pub equal: bool,
}

/// Reads a field selector such as `spec.nodeName=node-1,status.phase!=Failed`. The empty text selects everything. A
/// backslash escapes `,`, `=` and itself in values.
impl FromStr for FieldSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<FieldSelector, SelectorError> {
        let mut escaped = false;
        let is_separator = |c: char| {
            let is_escaped = escaped;
            escaped = c == '\\' && !is_escaped;
            c == ',' && !is_escaped
        };
        let parts = text.split(is_separator).filter(|part| !part.trim().is_empty());
        let parse = |part: &str| {
            let error = || SelectorError::Field { selector: text.to_owned(), part: part.to_owned() };
            let at = part.find(['!', '=']).ok_or_else(error)?;
            let (field, rest) = part.split_at(at);
            let (equal, value) = match rest.strip_prefix("!=") {
                Some(value) => (false, value),
                None => (true, rest.strip_prefix("==").or(rest.strip_prefix('=')).ok_or_else(error)?),
            };
            let value = unescaped(value).ok_or_else(error)?;
            Ok(FieldRequirement { field: field.trim().to_owned(), value, equal })
        };
        Ok(FieldSelector { requirements: parts.map(parse).collect::<Result<_, _>>()? })
    }
}

/// A value without its escapes; none if an escape is unknown or incomplete, or a character lacks one.
fn unescaped(value: &str) -> Option<String> {
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.push(chars.next().filter(|c| matches!(c, '\\' | ',' | '='))?),
            ',' | '=' => return None,
            _ => text.push(c),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_selectors_select() {
        let labels = [("app", "web"), ("n", "5")];
        for (text, wanted) in [
            ("", true),
            ("app=web", true),
            ("app == web,n>4", true),
            ("n<5", false),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (db, web),!other", true),
            ("app notin (db,web)", false),
            ("other notin (db)", true),
            ("app", true),
            ("!app", false),
            ("app=", false),
        ] {
            let selector: Selector = text.parse().unwrap();
            let matches = selector.matches(|key| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v));
            assert_eq!(matches, wanted, "{text:?}");
        }
    }

    #[test]
    fn malformed_label_selectors_are_refused_in_the_words_of_kube_apiserver() {
        for (text, why) in [
            ("a b c", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a in (b", "found '', expected: ',' or ')'"),
            ("!", "found '', expected: identifier"),
            ("a===b", "found '=', expected: identifier"),
        ] {
            let error = text.parse::<Selector>().unwrap_err();
            assert_eq!(error.to_string(), format!("unable to parse requirement: {why}"));
        }
        for text in ["a b", "a in b", "a in (b", "a)", "a=b,,c", "=b", "a=b c", "a>x", "a of (b)", ","] {
            assert!(text.parse::<Selector>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn field_selectors_are_read() {
        let requirement = |field: &str, value: &str, equal| FieldRequirement {
            field: field.to_owned(),
            value: value.to_owned(),
            equal,
        };
        for (text, requirements) in [
            ("", vec![]),
            ("spec.nodeName=m", vec![requirement("spec.nodeName", "m", true)]),
            ("a==,b!=c", vec![requirement("a", "", true), requirement("b", "c", false)]),
            (r"a=\,b\=\\,c=d", vec![requirement("a", r",b=\", true), requirement("c", "d", true)]),
        ] {
            assert_eq!(text.parse::<FieldSelector>().unwrap().requirements, requirements, "{text:?}");
        }
    }

    #[test]
    fn malformed_field_selectors_are_errors() {
        for text in ["spec.nodeName", "a!b", r"a=\b", r"a=b\", "a=b=c"] {
            let error = text.parse::<FieldSelector>().unwrap_err();
            assert_eq!(error.to_string(), format!("invalid selector: '{text}'; can't understand '{text}'"));
        }
    }
}
