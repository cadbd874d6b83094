//! Label selectors and node selector terms, requirement by requirement.

use std::cmp::Ordering;

use berth_api::object::{LabelSelector, Node, NodeSelectorTerm, SelectorRequirement, StringMap};

use super::versions::compare_versions;

/// Whether labels satisfy one requirement. No labels satisfy an unknown operator.
pub fn satisfies(requirement: &SelectorRequirement, labels: &StringMap) -> bool {
    let value = labels.get(&requirement.key);
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|v| requirement.values.contains(v)),
        "NotIn" => value.is_none_or(|v| !requirement.values.contains(v)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compares(requirement, value, |have, bound| have > bound),
        "Lt" => compares(requirement, value, |have, bound| have < bound),
        "VersionGt" => version(requirement, value) == Some(Ordering::Greater),
        "VersionLt" => version(requirement, value) == Some(Ordering::Less),
        _ => false,
    }
}

fn version(requirement: &SelectorRequirement, value: Option<&String>) -> Option<Ordering> {
    compare_versions(value?, requirement.values.first()?)
}

fn compares(
    requirement: &SelectorRequirement,
    value: Option<&String>,
    holds: impl Fn(i64, i64) -> bool,
) -> bool {
    let [bound] = requirement.values.as_slice() else { return false };
    match (value.map(|v| v.parse::<i64>()), bound.parse::<i64>()) {
        (Some(Ok(have)), Ok(bound)) => holds(have, bound),
        _ => false,
    }
}

/// Whether a label selector selects an object. A null selector selects nothing, an empty one everything.
pub fn selects(selector: Option<&LabelSelector>, labels: &StringMap) -> bool {
    selector.is_some_and(|s| {
        contains_all(&s.match_labels, labels) && s.match_expressions.iter().all(|r| satisfies(r, labels))
    })
}

pub fn contains_all(pairs: &StringMap, labels: &StringMap) -> bool {
    pairs.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Whether a selector has no requirement at all.
pub fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.is_empty() && selector.match_expressions.is_empty()
}

/// Whether a node satisfies all expressions and fields of a v1 term (an empty term: yes).
pub fn node_satisfies_all(term: &NodeSelectorTerm, node: &Node) -> bool {
    term.match_expressions.iter().all(|r| satisfies(r, &node.metadata.labels))
        && term.match_fields.iter().all(|r| node_satisfies_field(r, node))
}

/// Fields compare with a single value; a field other than the name is empty.
fn node_satisfies_field(requirement: &SelectorRequirement, node: &Node) -> bool {
    let have = if requirement.key == "metadata.name" { node.metadata.name.as_str() } else { "" };
    match (requirement.operator.as_str(), requirement.values.as_slice()) {
        ("In", [value]) => have == value,
        ("NotIn", [value]) => have != value,
        _ => false,
    }
}

/// Why kube-scheduler cannot parse a node selector term, if so.
///
/// kube-scheduler parses the terms more strictly than the API server validates them: the values of every operator must be
/// label values, so `Gt` with `-2` is invalid.
pub fn invalid_term(term: &NodeSelectorTerm) -> Option<String> {
    let expressions = term.match_expressions.iter().enumerate();
    let fields = term.match_fields.iter().enumerate();
    expressions
        .filter_map(|(i, r)| Some(format!("matchExpressions[{i}]{}", invalid_expression(r)?)))
        .chain(fields.filter_map(|(i, r)| Some(format!("matchFields[{i}]{}", invalid_field(r)?))))
        .next()
}

fn invalid_expression(requirement: &SelectorRequirement) -> Option<String> {
    let SelectorRequirement { key, operator, values } = requirement;
    if !is_qualified_name(key) {
        return Some(format!(".key: Invalid value: {key:?}: not a label key"));
    }
    let problem = match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => Some("for 'in', 'notin' operators, values set can't be empty"),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            Some("values set must be empty for exists and does not exist")
        }
        "Gt" | "Lt" if values.len() != 1 => Some("for 'Gt', 'Lt' operators, exactly one value is required"),
        "Gt" | "Lt" if values[0].parse::<i64>().is_err() => {
            Some("for 'Gt', 'Lt' operators, the value must be an integer")
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => None,
        _ => return Some(format!(".operator: Unsupported value: {operator:?}")),
    };
    if let Some(problem) = problem {
        return Some(format!(".values: Invalid value: {values:?}: {problem}"));
    }
    let (i, value) = values.iter().enumerate().find(|(_, v)| !is_label_value(v))?;
    Some(format!(
        ".values[{i}][{key}]: Invalid value: {value:?}: a valid label must be an empty string or consist of \
         alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    ))
}

fn invalid_field(requirement: &SelectorRequirement) -> Option<String> {
    let SelectorRequirement { operator, values, .. } = requirement;
    match operator.as_str() {
        "In" | "NotIn" if values.len() != 1 => {
            Some(format!(".values: Invalid value: {values:?}: must have one element"))
        }
        "In" | "NotIn" => None,
        _ => Some(format!(".operator: Unsupported value: {operator:?}")),
    }
}

fn is_label_value(value: &str) -> bool {
    value.is_empty() || (value.len() <= 63 && is_name(value))
}

/// `[prefix/]name`, the prefix a DNS subdomain.
fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let subdomain = |prefix: &str| {
        prefix.len() <= 253
            && prefix.split('.').all(|part| {
                !part.is_empty()
                    && !part.starts_with('-')
                    && !part.ends_with('-')
                    && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            })
    };
    prefix.is_none_or(subdomain) && name.len() <= 63 && is_name(name)
}

/// Letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|b| b.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}
