//! Preferences that score all nodes alike.

use berth_api::read::Kind;
use berth_rules::{
    NodeRequirement, NodeSelectorRule, NodeTerm, PodSet, PodTerm, PreferredNodeTerm, Selector, SetRelation,
    TopologyScope, WhenUnsatisfiable,
};

use crate::finding::Findings;
use crate::input::LintInput;
use crate::nodes::{alternatives, is_satisfiable, term_requirements};
use crate::subject::Subject;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        if subject.kind == Kind::DaemonSet || !subject.written.spec.node_name.is_empty() {
            bound_to_nodes(subject, findings);
            continue;
        }
        empty_preferences(subject, findings);
        let terms = &subject.pod.rules.preferred_node_affinity;
        let required = if terms.is_empty() { None } else { satisfiable_alternatives(input, subject) };
        for term in terms {
            if let Some(message) = useless_node_term(input, subject, required.as_deref(), term) {
                findings.add(&subject.object, subject.path(&term.path), message);
            }
        }
        for term in subject.terms().filter(|term| !term.required) {
            if let Some(message) = useless_pod_term(input, subject, term.term, term.anti) {
                findings.add(&subject.object, subject.path(term.path()), message);
            }
        }
        let constraints = subject.pod.rules.spread_constraints.iter();
        for constraint in constraints.filter(|c| c.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway) {
            if let Some(message) = one_domain(input, subject, &constraint.topology_key) {
                findings.add(&subject.object, subject.path(&constraint.path), message);
            }
        }
    }
}

/// Preferences of pods whose nodes are decided.
fn bound_to_nodes(subject: &Subject<'_>, findings: &mut Findings) {
    let nodes = subject.pod.rules.preferred_node_affinity.iter().map(|term| term.path.clone());
    let terms = subject.terms().filter(|term| !term.required).map(|term| term.path());
    let constraints = subject.pod.rules.spread_constraints.iter();
    let constraints = constraints.filter(|c| c.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway);
    let message = match subject.kind {
        Kind::DaemonSet => "each pod of a DaemonSet is bound to its node: a preference has no effect",
        _ => "spec.nodeName binds the pod to a node: a preference has no effect",
    };
    for path in nodes.chain(terms).chain(constraints.map(|constraint| constraint.path.clone())) {
        findings.add(&subject.object, subject.path(path), message);
    }
}

/// Preferred node terms without requirements, which parsing leaves out.
fn empty_preferences(subject: &Subject<'_>, findings: &mut Findings) {
    for (path, affinity) in subject.affinities() {
        let Some(rules) = &affinity.node_affinity else { continue };
        let terms = rules.preferred_during_scheduling_ignored_during_execution.iter().enumerate();
        let is_empty = |term: &berth_api::object::PreferredSchedulingTerm| {
            let preference = term.preference.clone().unwrap_or_default();
            let n = preference.match_expressions.len() + preference.match_fields.len();
            n + preference.match_annotations.len() + term.match_expressions.len() == 0
        };
        for (i, _) in terms.filter(|(_, term)| is_empty(term)) {
            let path = subject
                .path(format!("{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{i}]"));
            findings.add(&subject.object, path, "a preference without requirements matches no node");
        }
    }
}

/// What the required rules allow, without what no node can satisfy.
fn satisfiable_alternatives(input: &LintInput<'_>, subject: &Subject<'_>) -> Option<Vec<Selector>> {
    let selectors = alternatives(&subject.pod.rules, &input.work)?.into_iter().map(Selector::new);
    Some(selectors.filter(Selector::is_satisfiable).collect())
}

fn useless_node_term(
    input: &LintInput<'_>,
    subject: &Subject<'_>,
    required: Option<&[Selector]>,
    term: &PreferredNodeTerm,
) -> Option<String> {
    if term.requirements.iter().any(|r| matches!(r, NodeRequirement::Attribute(_))) {
        return None;
    }
    let term_alone = NodeTerm::All(term.requirements.clone());
    let preferred = term_requirements(&term_alone)?;
    if !is_satisfiable(&preferred) {
        return Some("no node can match the preference: its requirements contradict each other".to_owned());
    }
    let required = required?;
    if required.is_empty() || preferred.len() < term.requirements.len() {
        return None;
    }
    let preferred = Selector::new(preferred);
    let steps = |selector: &Selector| 1 + selector.requirements().len() + selector.n_values();
    let n_preferred = steps(&preferred);
    let n_required: usize = required
        .iter()
        .map(|required| {
            (1 + required.requirements().len()) * (1 + preferred.requirements().len()) + required.n_values()
        })
        .sum();
    let eligible = input.nodes.eligible(subject);
    if !input.work.spend(n_required + n_preferred * (required.len() + eligible.nodes.len())) {
        return None;
    }
    let implies = |required: &Selector| {
        matches!(required.relation(&preferred), SetRelation::Equal | SetRelation::ContainedIn)
    };
    if required.iter().all(implies) {
        return Some("all nodes that the required rules allow match the preference".to_owned());
    }
    if !required.iter().any(|required| required.common_labels(&preferred).is_some()) {
        return Some("the required rules exclude all nodes that match the preference".to_owned());
    }
    let rule = NodeSelectorRule {
        path: String::new(),
        dialect: berth_rules::Dialect::V1,
        required_during_execution: false,
        terms: vec![term_alone],
        node_names: None,
    };
    let matches = |i: &&usize| {
        let metadata = &input.nodes.get(**i).metadata;
        rule.matches(&metadata.name, &metadata.labels)
    };
    let (n_matching, n_nodes) = (eligible.nodes.iter().filter(matches).count(), eligible.nodes.len());
    match n_matching {
        _ if n_nodes < 2 => None,
        0 => Some(format!("none of the {n_nodes} nodes that the pod may run on matches the preference")),
        n if n == n_nodes => {
            Some(format!("all {n_nodes} nodes that the pod may run on match the preference"))
        }
        _ => None,
    }
}

fn useless_pod_term(
    input: &LintInput<'_>,
    subject: &Subject<'_>,
    term: &PodTerm,
    anti: bool,
) -> Option<String> {
    let required =
        if anti { &subject.pod.rules.required_anti_affinity } else { &subject.pod.rules.required_affinity };
    let is_same = |other: &&PodTerm| {
        let relation = input.relation(&PodSet::of(term), &PodSet::of(other));
        other.limit == 0
            && other.topology == term.topology
            && (relation == SetRelation::Equal || anti && relation == SetRelation::ContainedIn)
    };
    if let Some(other) = required.iter().find(is_same) {
        return Some(format!("{} requires it already", subject.path(&other.path)));
    }
    match &term.topology {
        TopologyScope::Key(key) => one_domain(input, subject, key),
        TopologyScope::All => None,
    }
}

/// If all nodes that the pod may run on are in one domain of a topology.
fn one_domain(input: &LintInput<'_>, subject: &Subject<'_>, key: &str) -> Option<String> {
    let eligible = input.nodes.eligible(subject);
    let domains = input.nodes.domains_of(key, &eligible);
    let n_nodes = eligible.nodes.len();
    let domain = domains.first().filter(|_| domains.len() == 1 && n_nodes > 1)?;
    let mut nodes = eligible.nodes.iter().map(|i| input.nodes.get(*i));
    let all = nodes.all(|node| node.metadata.labels.contains_key(key));
    all.then(|| format!("all {n_nodes} nodes that the pod may run on have {key}={domain}"))
}
