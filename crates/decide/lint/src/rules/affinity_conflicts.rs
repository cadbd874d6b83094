//! Required affinity to pods that required anti-affinity excludes from the same domain.

use berth_api::syntax::labels::NESTED_TOPOLOGIES;
use berth_rules::{PodSet, PodTerm, SetRelation, TopologyScope};

use crate::finding::Findings;
use crate::input::LintInput;
use crate::subject::Subject;
use crate::terms::shown;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        for affinity in &subject.pod.rules.required_affinity {
            own_conflict(input, subject, affinity, findings);
            conflict_of_partners(input, subject, affinity, findings);
        }
    }
}

/// The pods that the affinity requires are among those that the anti-affinity excludes.
fn own_conflict(input: &LintInput<'_>, subject: &Subject<'_>, affinity: &PodTerm, findings: &mut Findings) {
    let required = PodSet::of(affinity);
    let is_own = subject.is_in(&required, &input.namespaces);
    if is_own && subject.replicas.is_some_and(|replicas| replicas <= 1) {
        return;
    }
    let is_in_conflict = |(anti, excluded): &(&PodTerm, &PodSet)| {
        anti.limit == 0
            && matches!(input.relation(&required, excluded), SetRelation::Equal | SetRelation::ContainedIn)
            && covers(input, &affinity.topology, &anti.topology)
    };
    if let Some((anti, _)) = subject.required_anti_affinity().find(is_in_conflict) {
        let result = if is_own { "only the first pod can be placed" } else { "no pod can be placed" };
        let message = format!(
            "the term requires pods with {} nearby, and {} excludes them from the same domain: {result}",
            shown(&affinity.selector),
            subject.path(&anti.path)
        );
        findings.add(&subject.object, subject.path(&affinity.path), message);
    }
}

/// All pods that the affinity requires exclude the pod by their anti-affinity.
fn conflict_of_partners(
    input: &LintInput<'_>,
    subject: &Subject<'_>,
    affinity: &PodTerm,
    findings: &mut Findings,
) {
    let required = PodSet::of(affinity);
    let mut partners = input.population.in_set(&required).peekable();
    if partners.peek().is_none() || subject.is_in(&required, &input.namespaces) {
        return;
    }
    let excludes = |i: Option<usize>| {
        let partner = &input.subjects[i?];
        let excludes = |(anti, excluded): &(&PodTerm, &PodSet)| {
            input.work.spend(1 + anti.selector.requirements().len())
                && anti.limit == 0
                && subject.is_in(excluded, &input.namespaces)
                && covers(input, &affinity.topology, &anti.topology)
        };
        let excluding = partner.required_anti_affinity().find(excludes);
        excluding.map(|(anti, _)| format!("{} of {}", partner.path(&anti.path), partner.shown()))
    };
    let Some(terms) = partners.map(|partner| excludes(partner.subject)).collect::<Option<Vec<_>>>() else {
        return;
    };
    if let Some(term) = terms.first() {
        let message = format!(
            "the term requires pods with {} nearby, and {term} keeps this pod away from them: no pod can be placed",
            shown(&affinity.selector)
        );
        findings.add(&subject.object, subject.path(&affinity.path), message);
    }
}

/// Whether pods that share a domain of one topology share a domain of another one.
pub(super) fn covers(input: &LintInput<'_>, inner: &TopologyScope, outer: &TopologyScope) -> bool {
    let rank = |key: &str| {
        let key = key.replace("failure-domain.beta.kubernetes.io", "topology.kubernetes.io");
        NESTED_TOPOLOGIES.iter().position(|nested| *nested == key)
    };
    match (inner, outer) {
        (TopologyScope::Key(inner), TopologyScope::Key(outer)) => {
            let is_nested =
                || matches!((rank(inner), rank(outer)), (Some(inner), Some(outer)) if inner <= outer);
            // A node without the outer label is in no domain of it.
            inner == outer
                || is_nested() && input.nodes.have_label_if(inner, outer)
                || is_nested_in_nodes(input, inner, outer)
        }
        (TopologyScope::Key(inner), TopologyScope::All) => input.settings.all_topologies.contains(inner),
        (TopologyScope::All, _) => inner == outer,
    }
}

/// Whether the nodes of each domain of one key are in one domain of the other.
fn is_nested_in_nodes(input: &LintInput<'_>, inner: &str, outer: &str) -> bool {
    let domains = input.nodes.domains(inner);
    let outer_of = |i: &usize| input.nodes.get(*i).metadata.label(outer);
    !domains.is_empty()
        && input.work.spend(input.nodes.all().len())
        && domains.values().all(|nodes| {
            outer_of(&nodes[0]).is_some() && nodes.iter().all(|node| outer_of(node) == outer_of(&nodes[0]))
        })
}
