//! Which objects a request means: namespace, label selector, field selector.

use berth_api::admission::syntax;
use berth_api::rules::{Requirement, Selector};
use berth_schema::resource::Resource;

use super::object::Facts;

/// A selector that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The text is not a label selector.
    #[error("unable to parse requirement: {0}")]
    Label(String),
    /// The text is not a field selector.
    #[error("invalid selector: '{0}'; can't understand '{1}'")]
    Field(String, String),
    /// The resource has no such selectable field.
    #[error("field label not supported: {0}")]
    UnknownField(String),
}

/// Where a field selector reads its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldPlace {
    Name,
    Namespace,
    Index(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    place: FieldPlace,
    value: String,
    equal: bool,
}

/// What a list or a watch selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Only this namespace.
    pub namespace: Option<String>,
    labels: Selector,
    fields: Vec<FieldRequirement>,
}

impl Default for Filter {
    fn default() -> Self {
        Filter { namespace: None, labels: Selector::EVERYTHING, fields: Vec::new() }
    }
}

impl Filter {
    /// Reads the two selectors of a request.
    ///
    /// # Errors
    /// One of them is malformed, or names a field that cannot be selected by.
    pub fn parse(
        resource: &Resource,
        namespace: Option<&str>,
        label_selector: &str,
        field_selector: &str,
    ) -> Result<Filter, SelectorError> {
        Ok(Filter {
            namespace: namespace.map(str::to_owned),
            labels: parse_labels(label_selector)?,
            fields: parse_fields(resource, field_selector)?,
        })
    }

    /// Everything in a namespace.
    pub fn in_namespace(namespace: &str) -> Filter {
        Filter { namespace: Some(namespace.to_owned()), ..Filter::default() }
    }

    /// Whether it selects everything in its namespace.
    pub fn is_everything(&self) -> bool {
        self.fields.is_empty() && self.labels.is_everything()
    }

    /// The one name it can select, if the field selector says so.
    pub fn name(&self) -> Option<&str> {
        self.fields.iter().find(|f| f.equal && f.place == FieldPlace::Name).map(|f| f.value.as_str())
    }

    /// The value that the resource's watched field must have, if the field selector says so.
    pub fn bound_to(&self, resource: &Resource) -> Option<&str> {
        let place = FieldPlace::Index(resource.watched_field()?);
        self.fields.iter().find(|f| f.equal && f.place == place).map(|f| f.value.as_str())
    }

    /// Whether an object is selected.
    pub fn matches(&self, facts: &Facts) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| *facts.namespace == *namespace)
            && self.fields.iter().all(|f| {
                let value = match f.place {
                    FieldPlace::Name => &*facts.name,
                    FieldPlace::Namespace => &*facts.namespace,
                    FieldPlace::Index(i) => facts.fields.get(i).map_or("", |value| value),
                };
                (value == f.value) == f.equal
            })
            && self.labels.matches(|key| facts.label(key))
    }
}

fn parse_fields(resource: &Resource, text: &str) -> Result<Vec<FieldRequirement>, SelectorError> {
    let mut requirements = Vec::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let (name, value, equal) = if let Some((name, value)) = part.split_once("!=") {
            (name, value, false)
        } else if let Some((name, value)) = part.split_once("==") {
            (name, value, true)
        } else if let Some((name, value)) = part.split_once('=') {
            (name, value, true)
        } else {
            return Err(SelectorError::Field(text.to_owned(), part.to_owned()));
        };
        let place = match name.trim() {
            "metadata.name" => FieldPlace::Name,
            "metadata.namespace" => FieldPlace::Namespace,
            name => {
                let index = resource.selectable_fields.iter().position(|field| field.name == name);
                FieldPlace::Index(index.ok_or_else(|| SelectorError::UnknownField(name.to_owned()))?)
            }
        };
        requirements.push(FieldRequirement { place, value: unescaped(value), equal });
    }
    Ok(requirements)
}

/// Field selectors escape `\`, `,` and `=` with a backslash.
fn unescaped(value: &str) -> String {
    if !value.contains('\\') {
        return value.to_owned();
    }
    let mut text = String::with_capacity(value.len());
    let mut escaped = false;
    for c in value.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            text.push(c);
            escaped = false;
        }
    }
    text
}

/// Reads a label selector as requests write it: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>5`.
///
/// # Errors
/// The text is malformed, or a key or value is not one a label can have.
pub fn parse_labels(text: &str) -> Result<Selector, SelectorError> {
    let mut requirements = Vec::new();
    for part in split_outside_parentheses(text) {
        if !part.trim().is_empty() {
            requirements.push(parse_requirement(part.trim())?);
        } else if !text.trim().is_empty() {
            return Err(SelectorError::Label(format!("found ',', expected: identifier in {text:?}")));
        }
    }
    Ok(Selector::new(requirements))
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn parse_requirement(part: &str) -> Result<Requirement, SelectorError> {
    let requirement = if let Some(key) = part.strip_prefix('!') {
        Requirement::DoesNotExist(label_key(key)?)
    } else if let Some((key, value)) = part.split_once("!=") {
        Requirement::NotIn(label_key(key)?, vec![label_value(value)?])
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        Requirement::In(label_key(key)?, vec![label_value(value)?])
    } else if let Some((key, bound)) = part.split_once('>') {
        Requirement::Gt(label_key(key)?, integer(bound)?)
    } else if let Some((key, bound)) = part.split_once('<') {
        Requirement::Lt(label_key(key)?, integer(bound)?)
    } else if let Some((key, rest)) = part.split_once(char::is_whitespace) {
        let (operator, set) = rest.split_once('(').unwrap_or((rest, ""));
        let Some(set) = set.trim().strip_suffix(')') else {
            return Err(SelectorError::Label(format!("{part:?}")));
        };
        let mut values = set.split(',').map(label_value).collect::<Result<Vec<_>, _>>()?;
        values.sort_unstable();
        values.dedup();
        match operator.trim() {
            "in" => Requirement::In(label_key(key)?, values),
            "notin" => Requirement::NotIn(label_key(key)?, values),
            other => {
                return Err(SelectorError::Label(format!("found '{other}', expected: in, notin")));
            }
        }
    } else {
        Requirement::Exists(label_key(part)?)
    };
    Ok(requirement)
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
    bound.trim().parse().map_err(|_| {
        SelectorError::Label(format!(
            "values[0]: Invalid value: {:?}: for 'Gt', 'Lt' operators, the value must be an integer",
            bound.trim()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_schema::resource::PODS;

    fn facts(labels: &[(&str, &str)], node: &str) -> Facts {
        let pods = &PODS;
        let labels: serde_json::Map<_, _> =
            labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).into())).collect();
        let value = serde_json::json!({"metadata": {"name": "a", "namespace": "n", "labels": labels},
            "spec": {"nodeName": node}});
        Facts::of(pods, &value)
    }

    #[test]
    fn selectors_select() {
        let pods = &PODS;
        let object = facts(&[("app", "web"), ("n", "5")], "m");
        for (labels, fields, wanted) in [
            ("", "", true),
            ("app=web", "", true),
            ("app==web,n>4", "", true),
            ("n<5", "", false),
            ("app!=web", "", false),
            ("other!=web", "", true),
            ("app in (db, web),!other", "", true),
            ("app notin (db,web)", "", false),
            ("app", "", true),
            ("!app", "", false),
            ("app=", "", false),
            ("", "spec.nodeName=m", true),
            ("", "spec.nodeName!=m", false),
            ("", "spec.nodeName==", false),
            ("", "metadata.name=a,metadata.namespace=n", true),
            ("", "status.phase!=Failed", true),
        ] {
            let filter = Filter::parse(pods, None, labels, fields).unwrap();
            assert_eq!(filter.matches(&object), wanted, "{labels:?} {fields:?}");
        }
        let elsewhere = Filter::parse(pods, Some("other"), "", "").unwrap();
        assert!(!elsewhere.matches(&object));
    }

    #[test]
    fn malformed_selectors_are_errors() {
        let pods = &PODS;
        for (labels, fields) in [
            ("a b", ""),
            ("a in b", ""),
            ("a in (b", ""),
            ("a=b,,c", ""),
            ("=b", ""),
            ("a=b c", ""),
            ("a>x", ""),
            ("a of (b)", ""),
            ("", "spec.nodeName"),
            ("", "spec.color=red"),
        ] {
            assert!(Filter::parse(pods, None, labels, fields).is_err(), "{labels:?} {fields:?}");
        }
    }
}
