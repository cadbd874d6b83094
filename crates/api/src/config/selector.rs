//! Node affinity in a configuration (`addedAffinity`): reading and validation.

use super::fields::{Fields, Node};
use crate::object::{
    NodeAffinity, NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm, SelectorRequirement,
};

/// Reads a v1 node affinity. As in kube-scheduler, empty terms and any weight are let through: an empty
/// term matches no node.
pub(super) fn read_node_affinity(node: &Node<'_>) -> Option<NodeAffinity> {
    let mut fields = node.fields()?;
    let required = fields.get("requiredDuringSchedulingIgnoredDuringExecution").and_then(|node| {
        let mut selector = node.fields()?;
        let node_selector_terms = selector.items("nodeSelectorTerms").iter().filter_map(read_term).collect();
        selector.finish();
        Some(NodeSelector { node_selector_terms })
    });
    let preferred = fields.items("preferredDuringSchedulingIgnoredDuringExecution");
    fields.finish();
    Some(NodeAffinity {
        required_during_scheduling_required_during_execution: None,
        required_during_scheduling_ignored_during_execution: required,
        preferred_during_scheduling_ignored_during_execution: preferred
            .iter()
            .filter_map(read_preferred_term)
            .collect(),
    })
}

fn read_preferred_term(node: &Node<'_>) -> Option<PreferredSchedulingTerm> {
    let mut fields = node.fields()?;
    let weight = fields.get("weight").map_or(Some(0), |weight| weight.int32());
    let preference = fields.get("preference").and_then(|term| read_term(&term));
    fields.finish();
    Some(PreferredSchedulingTerm { weight: weight?, preference, match_expressions: Vec::new() })
}

fn read_term(node: &Node<'_>) -> Option<NodeSelectorTerm> {
    let mut fields = node.fields()?;
    let term = NodeSelectorTerm {
        match_expressions: read_requirements(&mut fields, "matchExpressions", check_expression),
        match_fields: read_requirements(&mut fields, "matchFields", check_field),
    };
    fields.finish();
    Some(term)
}

fn read_requirements(
    term: &mut Fields<'_>,
    name: &'static str,
    check: fn(&mut Fields<'_>, &SelectorRequirement),
) -> Vec<SelectorRequirement> {
    let mut requirements = Vec::new();
    for node in term.items(name) {
        let Some(mut fields) = node.fields() else { continue };
        let mut text = |name| fields.get(name).map_or(Some(""), |n| n.string()).map(str::to_owned);
        let (key, operator) = (text("key"), text("operator"));
        let values = fields.get("values").map(|list| list.strings()).unwrap_or_default();
        if let (Some(key), Some(operator)) = (key, operator) {
            let requirement = SelectorRequirement { key, operator, values };
            check(&mut fields, &requirement);
            requirements.push(requirement);
        }
        fields.finish();
    }
    requirements
}

/// A requirement on node labels.
fn check_expression(fields: &mut Fields<'_>, requirement: &SelectorRequirement) {
    let report = fields.report;
    if let Some(error) = label_name_error(&requirement.key) {
        report.error(fields.path_of("key"), format!("Invalid value: {:?}: {error}", requirement.key));
    }
    let values = fields.path_of("values");
    let n_values = requirement.values.len();
    let whole_numbers = || requirement.values.iter().all(|v| v.parse::<i64>().is_ok());
    match requirement.operator.as_str() {
        "In" | "NotIn" if n_values == 0 => {
            report.error(values, "Invalid value: []: for 'in', 'notin' operators, values set can't be empty");
        }
        "Exists" | "DoesNotExist" if n_values != 0 => {
            report.error(values, "Invalid value: values set must be empty for exists and does not exist");
        }
        "Gt" | "Lt" if n_values != 1 => {
            report.error(values, "Invalid value: for 'Gt', 'Lt' operators, exactly one value is required");
        }
        "Gt" | "Lt" if !whole_numbers() => {
            report.error(
                format!("{values}[0]"),
                "Invalid value: for 'Gt', 'Lt' operators, the value must be an integer",
            );
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => report.error(
            fields.path_of("operator"),
            format!(
                "Unsupported value: {other:?}: supported values: \"DoesNotExist\", \"Exists\", \"Gt\", \
                 \"In\", \"Lt\", \"NotIn\""
            ),
        ),
    }
    for (i, value) in requirement.values.iter().enumerate().filter(|(_, v)| !is_label_value(v)) {
        report.error(
            format!("{}[{i}]", fields.path_of("values")),
            format!("Invalid value: {value:?}: {NAME_RULE}"),
        );
    }
}

/// A requirement on node fields.
fn check_field(fields: &mut Fields<'_>, requirement: &SelectorRequirement) {
    if !["In", "NotIn"].contains(&requirement.operator.as_str()) {
        fields.report.error(
            fields.path_of("operator"),
            format!("Unsupported value: {:?}: supported values: \"In\", \"NotIn\"", requirement.operator),
        );
    }
    if requirement.values.len() != 1 {
        fields.report.error(fields.path_of("values"), "Invalid value: must have one element");
    }
}

const NAME_RULE: &str = "must be at most 63 alphanumeric characters, '-', '_' or '.', starting and ending \
                         with an alphanumeric character";

/// What is wrong with a qualified name (`example.com/name` or `name`), if anything.
pub(super) fn label_name_error(text: &str) -> Option<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if name.is_empty() || !is_label_value(name) {
        return Some(format!("name part {NAME_RULE}"));
    }
    prefix.filter(|prefix| !is_dns_subdomain(prefix)).map(|_| {
        "prefix part must be a lower case DNS subdomain of at most 253 characters, such as example.com"
            .to_owned()
    })
}

fn is_label_value(text: &str) -> bool {
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            bytes.len() <= 63
                && first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && bytes.iter().all(inner)
        }
        _ => true,
    }
}

fn is_dns_subdomain(text: &str) -> bool {
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    let label = |label: &str| {
        let bytes = label.as_bytes();
        !bytes.is_empty() && bytes.iter().all(inner) && bytes[0] != b'-' && bytes[bytes.len() - 1] != b'-'
    };
    text.len() <= 253 && text.split('.').all(label)
}
