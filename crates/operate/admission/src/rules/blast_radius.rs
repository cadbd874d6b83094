//! Budgets for the blast radius of required anti-affinity: the nodes and pods that one pod blocks by symmetry
//! (inter-pod affinity proposal, "A comment on symmetry" and "Denial of Service"). The numbers are the engine's.

use berth_engine::{Reach, TermRadius};

use super::attributes::PodAttributes;
use crate::answer::{Denial, ReviewError};
use crate::findings::Findings;
use crate::policy::{Action, BlastRadiusLimit, Measure};
use crate::rule::Rule;
use crate::state::{PLACING_PROFILE, StateAccess};

/// Checks that no required anti-affinity term of the pod blocks more nodes or running pods than the budget allows.
pub(crate) fn stays_within_blast_radius<K: StateAccess>(
    attributes: &PodAttributes<'_>,
    limit: &BlastRadiusLimit,
    action: Action,
    access: &K,
    found: &mut Findings,
) -> Result<(), ReviewError> {
    if attributes.blocking_terms().next().is_none() {
        return Ok(());
    }
    let mut pod = attributes.pod.clone();
    PLACING_PROFILE.clone_into(&mut pod.spec.scheduler_name);
    let radius = access.ask("the budget of blast radius", move |state| {
        let prepared = state.cluster().prepare(&pod);
        state.cluster().blast_radius(&prepared)
    })?;
    for term in &radius.terms {
        if let Some(why) = beyond(term, limit) {
            let namespace = &attributes.pod.metadata.namespace;
            let after = match term.limit {
                0 => String::new(),
                limit => format!(" once {limit} matching pods share a domain with the pod,"),
            };
            let message =
                format!("{}:{after} {why} that the budget of namespace {namespace:?} allows", term.term);
            found.broken(action, Denial::forbidden(Rule::BlastRadius, attributes.request, message));
        }
    }
    Ok(())
}

fn beyond(term: &TermRadius, limit: &BlastRadiusLimit) -> Option<String> {
    let (reach, which) = domain(term, limit.measure)?;
    let (n_nodes, n_pods) = (reach.n_nodes as u64, term.n_matching_pods as u64);
    let mut over = Vec::new();
    if let Some(most) = limit.nodes.filter(|most| n_nodes > *most) {
        over.push(format!("{n_nodes} of {most} nodes"));
    }
    if let Some(most) = limit.pods.filter(|most| n_pods > *most) {
        over.push(format!("{n_pods} of {most} running pods"));
    }
    if over.is_empty() {
        return None;
    }
    let at = reach.domain.as_ref().map(|pair| format!(", {pair}")).unwrap_or_default();
    Some(format!("by symmetry, required anti-affinity would shut out ({which}{at}) {}", over.join(" and ")))
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
