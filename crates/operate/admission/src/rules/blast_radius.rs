//! Budgets for the blast radius of anti-affinity: the nodes and pods that one pod blocks by symmetry with required terms, and
//! makes worse with preferred ones (inter-pod affinity proposal, "A comment on symmetry" and "Denial of Service"). The numbers
//! are the engine's.

use berth_api::syntax::format::counted;
use berth_engine::{Reach, TermRadius};

use super::attributes::PodAttributes;
use crate::answer::{Denial, ReviewError};
use crate::findings::Findings;
use crate::policy::{Action, BlastRadiusLimit, Measure};
use crate::rule::Rule;
use crate::state::{PLACING_PROFILE, StateAccess};

/// Checks that no anti-affinity term of the pod reaches more nodes or running pods than the budget allows: that no required term blocks
/// more, or with the rule [`Rule::PreferredBlastRadius`], that no preferred term makes more of them worse.
pub(crate) fn stays_within_blast_radius<K: StateAccess>(
    attributes: &PodAttributes<'_>,
    rule: Rule,
    (limit, action): (&BlastRadiusLimit, Action),
    access: &K,
    found: &mut Findings,
) -> Result<(), ReviewError> {
    let is_preferred = rule == Rule::PreferredBlastRadius;
    let (has_terms, what, would) = match is_preferred {
        false => (
            attributes.blocking_terms().next().is_some(),
            "the budget of blast radius",
            "required anti-affinity would block",
        ),
        true => (
            !attributes.pod.rules.preferred_anti_affinity.is_empty(),
            "the budget of preferred blast radius",
            "preferred anti-affinity would lower the scores of",
        ),
    };
    if !has_terms {
        return Ok(());
    }
    let mut pod = attributes.pod.object.clone();
    PLACING_PROFILE.clone_into(&mut pod.spec.scheduler_name);
    let terms = access.ask(what, move |state| {
        let prepared = state.cluster().prepare(&pod);
        match is_preferred {
            false => state.cluster().blast_radius(&prepared).terms,
            true => state.cluster().preferred_blast_radius(&prepared).preferred,
        }
    })?;
    check(attributes, &terms, limit, action, rule, would, found);
    Ok(())
}

fn check(
    attributes: &PodAttributes<'_>,
    terms: &[TermRadius],
    limit: &BlastRadiusLimit,
    action: Action,
    rule: Rule,
    would: &str,
    found: &mut Findings,
) {
    let namespace = &attributes.pod.object.metadata.namespace;
    for term in terms {
        let Some((reach, which)) = domain(term, limit.measure) else { continue };
        let at = reach.domain.as_ref().map(|pair| format!(", {pair}")).unwrap_or_default();
        let match_it = if term.n_matching_pods == 1 { "matches it" } else { "match it" };
        let (n_nodes, n_pods) =
            (counted(reach.n_nodes, "node"), counted(term.n_matching_pods, "running pod"));
        let radius = format!("{n_nodes} ({which}{at}), and {n_pods} {match_it}");
        found.measured(rule, format!("{}: {radius}", term.term));
        let is_over = |n: usize, most: Option<u64>| most.is_some_and(|most| n as u64 > most);
        if !is_over(reach.n_nodes, limit.nodes) && !is_over(term.n_matching_pods, limit.pods) {
            continue;
        }
        let after = match term.limit {
            0 => String::new(),
            limit => format!(" once {limit} matching pods share a domain with the pod,"),
        };
        let allowed = [(limit.nodes, "node"), (limit.pods, "running pod")];
        let allowed = allowed.into_iter().filter_map(|(most, what)| Some(counted(most? as usize, what)));
        let message = format!(
            "{}:{after} by symmetry, {would} {radius}; the budget of namespace {namespace:?} allows {}",
            term.term,
            allowed.collect::<Vec<_>>().join(" and ")
        );
        found.broken(action, Denial::forbidden(rule, attributes.request, message));
    }
}

/// The measured domain; `None` if no node has the term's topology key, so the term blocks no pod.
fn domain(term: &TermRadius, measure: Measure) -> Option<(&Reach, &'static str)> {
    let largest = || term.largest.as_ref().map(|reach| (reach, "its largest domain"));
    match measure {
        Measure::Largest => largest(),
        Measure::Average => term.average.as_ref().map(|reach| (reach, "an average domain")),
        Measure::Actual => term.actual.as_ref().map(|r| (r, "the domain it would go to")).or_else(largest),
    }
}
