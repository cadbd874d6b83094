//! Preemption for a single pod.

use std::time::Duration;

use berth_client::events::ObjectReference;
use berth_engine::{NotEligible, Preemption, Victims};
use berth_input::journal::Entry;
use berth_mirror::Source;
use tokio::time::Instant;

use crate::completion::Eviction;
use crate::context::Context;
use crate::queue::PodId;

/// Preempts for an unschedulable pod: nominates it to a node, and evicts its victims there or, if its profile says so, on several
/// nodes. Returns the message of the attempt with the result. `of_claims`: what another plugin says in PostFilter if nothing helps; `group`: the PodGroup of the pod.
pub(crate) fn preempt(
    context: &mut Context,
    id: PodId,
    message: String,
    of_claims: &str,
    group: Option<ObjectReference>,
    period: Duration,
) -> String {
    if let Some(why) = context.state.mirror.unreadable(Source::Budgets) {
        return format!("{message}{of_claims} preemption: not tried: {why}");
    }
    let Some(queued) = context.pending.pods.get_mut(id) else { return message };
    let began = Instant::now();
    if queued.pod.spec.preemption_policy.as_deref() != Some("Never") {
        context.pending.metrics.preemption_attempts.inc();
    }
    let mut preemption = context.state.cluster.preempt(queued.decided(), context.state.budgets.list());
    let too_many = match &preemption {
        Preemption::Victims(_) => queued.preemptions.too_many(began, period),
        _ => None,
    };
    match too_many {
        Some(reason) => preemption = Preemption::NoCandidate { reason },
        None => {
            let name = || queued.pod.metadata.namespaced_name();
            context.state.recorder.record(|| Entry::Preemption(Box::new(preemption.recorded(name()))));
        }
    }
    let status = match &preemption {
        Preemption::Victims(_) => "Success",
        _ => "Unschedulable",
    };
    let profile = &queued.pod.spec.scheduler_name;
    context.pending.metrics.ran("DefaultPreemption", "PostFilter", status, profile, began.elapsed());
    let message = match preemption.message() {
        Some(why) => format!("{message}{of_claims} {why}"),
        None => message,
    };
    match preemption {
        Preemption::Victims(victims) => evict(context, id, group, victims, began),
        // While victims of this pod terminate, its nomination stays. It is decided again when those that other attempts
        // evict from its node are gone.
        Preemption::NotEligible(NotEligible::VictimsTerminating) => queued.preemption = Some(Vec::new()),
        Preemption::NotEligible(NotEligible::PolicyNever) => {}
        Preemption::NoCandidate { .. } | Preemption::NotNeeded => context.state.clear_nomination(&queued.pod),
    }
    message
}

fn evict(
    context: &mut Context,
    id: PodId,
    group: Option<ObjectReference>,
    victims: Victims,
    chosen_at: Instant,
) {
    let Some(queued) = context.pending.pods.get_mut(id) else { return };
    let pod = queued.pod.clone();
    context.state.cluster.nominate_for_victims(queued.decided(), &victims.node, &victims.victims);
    context.pending.metrics.preemption_victims.observe(victims.victims.len() as f64);
    tracing::info!(
        pod = pod.key(),
        node = victims.node,
        victims = victims.victims.len(),
        on_other_nodes = victims.elsewhere.len(),
        search_ended_at_limit = victims.is_cut,
        violated_budgets = victims.n_pdb_violations,
        "preempting"
    );
    let found: Vec<_> = victims.victims.into_iter().filter_map(|name| context.state.victim(name)).collect();
    queued.preemption = Some(found.clone());
    context.pending.clear_nominations(&mut context.state, &victims.nominations);
    let eviction =
        Eviction { id: Some(id), pod, group, node: victims.node.into(), victims: found, chosen_at };
    context.pending.statuses.evict(&mut context.pending.pods, eviction);
}
