//! `NodeAffinity`: `spec.nodeSelector`, required and preferred node affinity, and the profile's added affinity.

use std::collections::BTreeSet;

use berth_api::object::{Node, NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm};

use super::terms::{Dialect, preferred_node_terms, required_node_selectors};
use super::{Code, Question, Verdict, attributes, normalize, reject, selector};

/// The only possible nodes, when every v1 term names its nodes; `Err` when the names of every term contradict each other.
pub fn named_nodes(q: Question) -> Result<Option<BTreeSet<String>>, String> {
    let affinity = q.pod.spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let Some(required) = required.filter(|r| !r.node_selector_terms.is_empty()) else { return Ok(None) };
    let mut names = BTreeSet::new();
    for term in &required.node_selector_terms {
        let by_name = term.match_fields.iter().filter(|r| r.key == "metadata.name" && r.operator == "In");
        let sets = by_name.map(|r| r.values.iter().cloned().collect::<BTreeSet<String>>());
        match sets.reduce(|a, b| a.intersection(&b).cloned().collect()) {
            Some(in_term) => names.extend(in_term),
            None => return Ok(None),
        }
    }
    if names.is_empty() { Err("pod affinity terms conflict".to_owned()) } else { Ok(Some(names)) }
}

pub fn filter(q: Question, node: &Node) -> Verdict {
    let added = q.profile.node_affinity.added_affinity.as_ref();
    let added = added.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    if added.is_some_and(|s| !node_matches(Dialect::V1, s, node)) {
        return reject(
            Code::UnschedulableAndUnresolvable,
            "node(s) didn't match scheduler-enforced node affinity",
        );
    }
    if !satisfies_required(q, node) {
        return reject(
            Code::UnschedulableAndUnresolvable,
            "node(s) didn't match Pod's node affinity/selector",
        );
    }
    Ok(())
}

/// Whether a node satisfies the pod's own node selector and required node affinity.
pub fn satisfies_required(q: Question, node: &Node) -> bool {
    selector::contains_all(&q.pod.spec.node_selector, &node.metadata.labels)
        && required_node_selectors(q.pod, q.options)
            .iter()
            .all(|s| node_matches(s.dialect, &s.selector, node))
}

/// Whether a node breaks a rule that holds only at scheduling time: added affinity, node selector, and required affinity
/// that is ignored during execution.
pub fn breaks_rules_of_scheduling(q: Question, node: &Node) -> bool {
    let added = q.profile.node_affinity.added_affinity.as_ref();
    let added = added.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let ignored = required_node_selectors(q.pod, q.options);
    added.is_some_and(|s| !node_matches(Dialect::V1, s, node))
        || !selector::contains_all(&q.pod.spec.node_selector, &node.metadata.labels)
        || ignored.iter().any(|s| !s.executing && !node_matches(s.dialect, &s.selector, node))
}

/// Whether a selector in the v1 dialect selects a node.
pub fn selects_node(selector: &NodeSelector, node: &Node) -> bool {
    node_matches(Dialect::V1, selector, node)
}

/// Terms are ORed. In v1 an empty term, or one that kube-scheduler cannot read, matches nothing; in the
/// proposal an empty term matches every node.
pub fn node_matches(dialect: Dialect, selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| match dialect {
        Dialect::V1 => {
            !is_empty(term)
                && selector::invalid_term(term).is_none()
                && selector::node_satisfies_all(term, node)
        }
        Dialect::Proposal => satisfies_proposal(term, node),
    })
}

fn satisfies_proposal(term: &NodeSelectorTerm, node: &Node) -> bool {
    !term.is_null
        && term.match_expressions.iter().all(|r| selector::satisfies(r, &node.metadata.labels))
        && term.match_fields.iter().all(|r| attributes::node_satisfies_proposal_field(r, node))
        && term.match_annotations.iter().all(|r| attributes::node_satisfies_annotation(r, node))
}

fn is_empty(term: &NodeSelectorTerm) -> bool {
    term.match_expressions.is_empty() && term.match_fields.is_empty() && term.match_annotations.is_empty()
}

/// A preferred term in either form.
fn preferred_term(term: &PreferredSchedulingTerm) -> NodeSelectorTerm {
    let mut all = term.preference.clone().unwrap_or_default();
    all.match_expressions.extend(term.match_expressions.iter().cloned());
    all
}

/// kube-scheduler fails on a pod with a preferred term that it cannot parse.
pub fn check_preferences(q: Question) -> Result<(), String> {
    for (i, (dialect, term)) in preferred_node_terms(q.pod, q.options).iter().enumerate() {
        let preference = term.preference.clone().unwrap_or_default();
        if *dialect == Dialect::V1
            && term.weight != 0
            && let Some(problem) = selector::invalid_term(&preference)
        {
            return Err(format!("[{i}].{problem}"));
        }
    }
    Ok(())
}

pub fn score(q: Question, feasible: &[&Node]) -> Option<Vec<i64>> {
    let added = q.profile.node_affinity.added_affinity.as_ref();
    let added = added.map(|a| a.preferred_during_scheduling_ignored_during_execution.clone());
    let mut terms: Vec<(Dialect, NodeSelectorTerm)> = Vec::new();
    let mut weights: Vec<i64> = Vec::new();
    for term in added.unwrap_or_default() {
        terms.push((Dialect::V1, term.preference.unwrap_or_default()));
        weights.push(i64::from(term.weight));
    }
    for (dialect, term) in preferred_node_terms(q.pod, q.options) {
        weights.push(i64::from(term.weight));
        terms.push(match dialect {
            Dialect::V1 => (dialect, term.preference.unwrap_or_default()),
            Dialect::Proposal => (dialect, preferred_term(&term)),
        });
    }
    if terms.is_empty() {
        return None;
    }
    let raw: Vec<i64> = feasible
        .iter()
        .map(|node| {
            let matching =
                terms.iter().zip(&weights).filter(|((_, t), _)| !is_empty(t)).filter(|((dialect, t), _)| {
                    match dialect {
                        Dialect::V1 => selector::node_satisfies_all(t, node),
                        Dialect::Proposal => satisfies_proposal(t, node),
                    }
                });
            matching.map(|(_, weight)| weight).sum()
        })
        .collect();
    Some(normalize(&raw, false))
}
