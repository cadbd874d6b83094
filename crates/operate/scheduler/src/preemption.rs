//! Preemption for a single pod.

use std::time::Duration;

use berth_api::journal::Entry;
use berth_engine::{NotEligible, Preemption, Victims};
use tokio::time::Instant;

use crate::completion::Eviction;
use crate::pending::PendingPods;
use crate::queue::PodId;
use crate::state::State;

/// Preempts for an unschedulable pod: nominates it to a node, and evicts its victims there. Returns the message of the
/// attempt with the result.
pub(crate) fn preempt(
    state: &mut State,
    pending: &mut PendingPods,
    id: PodId,
    message: String,
    period: Duration,
) -> String {
    let Some(queued) = pending.pods.get_mut(id) else { return message };
    let began = Instant::now();
    if queued.pod.spec.preemption_policy.as_deref() != Some("Never") {
        pending.metrics.preemption_attempts.inc();
    }
    let mut preemption = state.cluster.preempt(queued.decided(), state.budgets.list());
    let too_many = match &preemption {
        Preemption::Victims(_) => queued.preemptions.too_many(began, period),
        _ => None,
    };
    match too_many {
        Some(reason) => preemption = Preemption::NoCandidate { reason },
        None => {
            let name = || queued.pod.metadata.namespaced_name();
            state.recorder.record(|| Entry::Preemption(Box::new(preemption.recorded(name()))));
        }
    }
    let status = match &preemption {
        Preemption::Victims(_) => "Success",
        _ => "Unschedulable",
    };
    let profile = &queued.pod.spec.scheduler_name;
    pending.metrics.ran("DefaultPreemption", "PostFilter", status, profile, began.elapsed());
    let message = match preemption.message() {
        Some(why) => format!("{message} {why}"),
        None => message,
    };
    match preemption {
        Preemption::Victims(victims) => evict(state, pending, id, victims),
        // While victims of this pod terminate, its nomination stays. It is decided again when those that other attempts
        // evict from its node are gone.
        Preemption::NotEligible(NotEligible::VictimsTerminating) => queued.preemption = Some(Vec::new()),
        Preemption::NotEligible(NotEligible::PolicyNever) => {}
        Preemption::NoCandidate { .. } | Preemption::NotNeeded => state.clear_nomination(&queued.pod),
    }
    message
}

fn evict(state: &mut State, pending: &mut PendingPods, id: PodId, victims: Victims) {
    let Some(queued) = pending.pods.get_mut(id) else { return };
    queued.preemptions.add(Instant::now());
    let pod = queued.pod.clone();
    state.cluster.nominate(queued.decided(), &victims.node);
    pending.metrics.preemption_victims.observe(victims.victims.len() as f64);
    tracing::info!(
        pod = pod.key(),
        node = victims.node,
        victims = victims.victims.len(),
        violated_budgets = victims.n_pdb_violations,
        "preempting"
    );
    let found: Vec<_> = victims.victims.into_iter().filter_map(|name| state.victim(name)).collect();
    queued.preemption = Some(found.clone());
    pending.clear_nominations(state, &victims.nominations);
    let eviction = Eviction { id, pod, node: victims.node.into(), victims: found };
    pending.statuses.evict(&mut pending.pods, eviction);
}
