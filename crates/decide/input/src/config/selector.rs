//! Node affinity in a configuration (`addedAffinity`): reading and validation.

use berth_api::object::{
    NodeAffinity, NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm, SelectorRequirement,
};
use berth_api::read::fields::{Fields, Node};
use berth_rules::{Dialect, NodeTerm};

/// Reads a v1 node affinity. As in kube-scheduler, empty terms and any weight are accepted; an empty term matches no
/// node.
pub(super) fn read_node_affinity(node: &Node<'_>) -> Option<NodeAffinity> {
    let mut fields = node.fields()?;
    let required = fields.get("requiredDuringSchedulingIgnoredDuringExecution").and_then(|node| {
        let mut selector = node.fields()?;
        let node_selector_terms = selector.items("nodeSelectorTerms").iter().filter_map(read_term).collect();
        selector.finish();
        Some(NodeSelector { node_selector_terms, ..NodeSelector::default() })
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
        match_expressions: read_requirements(&mut fields, "matchExpressions"),
        match_fields: read_requirements(&mut fields, "matchFields"),
        ..NodeSelectorTerm::default()
    };
    // The engine accepts only terms that parse.
    if let NodeTerm::Invalid(error) = NodeTerm::parse(&term, Dialect::V1) {
        let (place, text) = error.split_once(": ").unwrap_or(("", &error));
        node.findings.error(format!("{}.{place}", node.path), text);
    }
    fields.finish();
    Some(term)
}

fn read_requirements(term: &mut Fields<'_>, name: &'static str) -> Vec<SelectorRequirement> {
    let mut requirements = Vec::new();
    for node in term.items(name) {
        let Some(mut fields) = node.fields() else { continue };
        let mut text = |name| fields.get(name).map_or(Some(""), |n| n.string()).map(str::to_owned);
        let (key, operator) = (text("key"), text("operator"));
        let values = fields.get("values").map(|list| list.strings()).unwrap_or_default();
        if let (Some(key), Some(operator)) = (key, operator) {
            requirements.push(SelectorRequirement { key, operator, values });
        }
        fields.finish();
    }
    requirements
}
