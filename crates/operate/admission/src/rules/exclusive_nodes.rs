//! Budgets for exclusive nodes ("Denial of Service": charging opportunity cost).
//!
//! A pod whose anti-affinity rejects all other pods takes a whole node, even if its requests are small. The budget is
//! charged for the pod's node. An unbound pod is charged for the only node it may use; otherwise the policy
//! selects the largest, the average or the currently best node.

use berth_api::syntax::quantity::Quantity;

use super::attributes::PodAttributes;
use crate::answer::{Denial, ReviewError};
use crate::findings::Findings;
use crate::policy::{Action, ExclusiveNodesLimit, Measure};
use crate::rule::Rule;
use crate::state::{Charge, ExclusivePod, PLACING_PROFILE, State, StateAccess, exclusive_term, pinned_node};

/// Checks that the exclusive pods of the namespace, including this one, stay within its budget.
pub(crate) fn stays_within_exclusive_nodes<K: StateAccess>(
    attributes: &PodAttributes<'_>,
    limit: &ExclusiveNodesLimit,
    action: Action,
    access: &K,
    found: &mut Findings,
) -> Result<(), ReviewError> {
    let Some(term) = exclusive_term(&attributes.pod.rules) else { return Ok(()) };
    if !attributes.blocking_terms().any(|blocking| blocking.path == term.path) {
        return Ok(());
    }
    let refused = access.ask("the budget of exclusive nodes", |state| {
        state.expire(attributes.now);
        check(state, attributes, limit, action, found.is_denied())
    })?;
    if let Some(why) = refused {
        let message = format!("{}: {why}", term.path);
        found.broken(action, Denial::forbidden(Rule::ExclusiveNodes, attributes.request, message));
    }
    Ok(())
}

fn check(
    state: &mut State,
    attributes: &PodAttributes<'_>,
    limit: &ExclusiveNodesLimit,
    action: Action,
    is_denied: bool,
) -> Option<String> {
    let metadata = &attributes.pod.object.metadata;
    let namespace = metadata.namespace.as_str();
    // A pod with `generateName` has no name yet: the request uid replaces it.
    let name = if metadata.name.is_empty() { &attributes.request.uid } else { &metadata.name };
    let pod = ExclusivePod { node: None, pinned: pinned_node(&attributes.pod.object, &attributes.pod.rules) };
    let charge = match (limit.charge, &pod.pinned) {
        (Measure::Actual, None) => {
            place(state, attributes).unwrap_or_else(|| state.charge(&pod, Measure::Largest))
        }
        (measure, _) => state.charge(&pod, measure),
    };
    let others: Vec<Charge> =
        state.exclusive.of(namespace, name).map(|other| state.charge(other, limit.charge)).collect();
    let (mut milli_cpu, mut memory) = (charge.milli_cpu, charge.memory);
    for other in &others {
        milli_cpu = milli_cpu.saturating_add(other.milli_cpu);
        memory = memory.saturating_add(other.memory);
    }
    let n_nodes = others.len() as u64 + 1;

    let mut over = Vec::new();
    if let Some(most) = limit.nodes.filter(|most| n_nodes > *most) {
        over.push(format!("{n_nodes} of {most} nodes"));
    }
    let cpu = Quantity::from_millis(milli_cpu);
    if let Some(most) = limit.cpu.filter(|most| cpu > *most) {
        over.push(format!("{cpu} of {most} cpu"));
    }
    if let Some(most) = limit.memory.filter(|most| Quantity::from_units(memory) > *most) {
        over.push(format!("{} of {} memory", in_bytes(memory), in_bytes(most.units())));
    }
    if over.is_empty() {
        if !attributes.request.dry_run && !is_denied {
            state.exclusive.reserve(namespace, name, pod, attributes.now);
        }
        return None;
    }
    // A pod that only causes a warning is created, and counts.
    if action == Action::Warn && !attributes.request.dry_run && !is_denied {
        state.exclusive.reserve(namespace, name, pod, attributes.now);
    }
    Some(format!(
        "a pod that rejects all other pods on its node is charged the whole node, and namespace {namespace:?} would \
         take {} that its budget allows (nodes not known yet are charged as {})",
        over.join(" and "),
        limit.charge.as_str()
    ))
}

/// The node that the engine would select now.
fn place(state: &mut State, attributes: &PodAttributes<'_>) -> Option<Charge> {
    let mut pod = attributes.pod.object.clone();
    PLACING_PROFILE.clone_into(&mut pod.spec.scheduler_name);
    let cluster = state.cluster();
    let prepared = cluster.prepare(&pod);
    let outcome = cluster.decide(&prepared);
    state.nodes.get(outcome.node()?)
}

/// Formats an amount of memory in binary units.
fn in_bytes(amount: i64) -> String {
    let units = [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let unit = units.iter().find(|(_, bytes)| amount != 0 && amount % bytes == 0);
    unit.map_or_else(|| amount.to_string(), |(unit, bytes)| format!("{}{unit}", amount / bytes))
}
