//! Preemption for a group: all of its members fit once the victims are gone, or no pod is evicted. The same search finds
//! the room that is held for a group while it waits for pods to end.

use berth_api::object::NamespacedName;

use super::search::Member;
use super::{Deciding, Group, domains_in_turn, order};
use crate::decision::{self, Outcome};
use crate::preemption::{self, DisruptionBudget, Leaving, Preemption, Victims};
use crate::state::device::ReleasedClaims;
use crate::state::pod::prepared::PreparedPod;
use crate::view::rejections::RejectionViews;

/// The pods that leave for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupVictims {
    /// For each member the node that it then fits on; none for members beyond the required number that do not fit.
    pub nodes: Vec<Option<String>>,
    /// The pods to be evicted, at least one; or those that are waited for.
    pub victims: Vec<NamespacedName>,
    /// How many of them are protected by a budget that does not allow it.
    pub n_pdb_violations: usize,
    /// Pods of lower priority that are nominated to these nodes: clear their nominations, and decide them again.
    pub nominations: Vec<NamespacedName>,
}

/// Which pods have to be evicted so that a group fits that was not placed.
///
/// Members are decided one after another; an unschedulable one gets the victims that a single pod would get. Of the
/// domains where that ends with a valid placement, the one with the fewest violations of budgets is chosen, then the one
/// with the fewest victims, then the first.
pub(crate) fn preempt(
    by: Deciding<'_>,
    group: &Group<'_>,
    budgets: &[DisruptionBudget],
) -> Option<GroupVictims> {
    search(by, group, budgets, Leaving::Evicted)
}

/// Where a group fits once running pods of lower or equal priority have ended: all but `staying`. Chosen as by
/// [`preempt`].
pub(crate) fn reserve(
    by: Deciding<'_>,
    group: &Group<'_>,
    staying: &[NamespacedName],
) -> Option<GroupVictims> {
    // Pods that stay are more important than any other while the search lasts.
    let Deciding { state, views, nominations, domains, .. } = by;
    let mut important = Vec::new();
    for name in staying {
        if let Some(pod) = state.find_pod(name.namespace(), name.name()) {
            let priority = &mut state.pods.get_mut(pod).precedence.priority;
            important.push((pod, std::mem::replace(priority, i32::MAX)));
        }
    }
    // Their candidates are those of preemption for other pods.
    let mut rejections = RejectionViews::default();
    let by = Deciding { state: &mut *state, views, rejections: &mut rejections, nominations, domains };
    let found = search(by, group, &[], Leaving::Awaited);
    for (pod, priority) in important.into_iter().rev() {
        state.pods.get_mut(pod).precedence.priority = priority;
    }
    found
}

fn search(
    mut by: Deciding<'_>,
    group: &Group<'_>,
    budgets: &[DisruptionBudget],
    leaving: Leaving,
) -> Option<GroupVictims> {
    let order = order(by.state, group.members);
    let first = &group.members[*order.first()?];
    let mut best: Option<GroupVictims> = None;
    let cost = |found: &GroupVictims| (found.n_pdb_violations, found.victims.len());
    for domain in domains_in_turn(&by, group, first) {
        let members = Member::all(by.state, group.members, &order, &domain);
        let mut trial = Trial {
            by: &mut by,
            leaving,
            budgets: budgets.to_vec(),
            placed: Vec::new(),
            evicted: Vec::new(),
            released: ReleasedClaims::default(),
            found: Vec::new(),
        };
        let fits = trial.run(&members, group.min);
        let found = trial.end(&order);
        let is_found = fits && (leaving == Leaving::Awaited || !found.victims.is_empty());
        if is_found && best.as_ref().is_none_or(|best| cost(&found) < cost(best)) {
            best = Some(found);
        }
    }
    best
}

/// An attempt in one domain.
struct Trial<'a, 'b> {
    by: &'a mut Deciding<'b>,
    leaving: Leaving,
    /// What the victims so far have left of them.
    budgets: Vec<DisruptionBudget>,
    placed: Vec<(PreparedPod, Outcome)>,
    /// With their nodes.
    evicted: Vec<(PreparedPod, String)>,
    /// The claims of these.
    released: ReleasedClaims,
    found: Vec<Victims>,
}

impl Trial<'_, '_> {
    fn run(&mut self, members: &[Member], min: usize) -> bool {
        let mut n_placed = 0;
        for (at, member) in members.iter().enumerate() {
            let outcome = self.place(member);
            n_placed += usize::from(outcome.node().is_some());
            if n_placed + members.len() - at - 1 < min {
                return false;
            }
            let mut assigned = member.valid.clone();
            if self.leaving == Leaving::Awaited {
                // Members do not wait for each other to end.
                assigned.precedence.priority = i32::MAX;
            }
            self.by.assign(&assigned, &outcome, true);
            self.placed.push((member.valid.clone(), outcome));
        }
        self.by.broken(self.placed.iter().map(|(pod, outcome)| (pod, outcome))).is_none()
    }

    fn place(&mut self, member: &Member) -> Outcome {
        let outcome = self.by.decide(&member.strict);
        let pod = match &member.relaxed {
            Some(relaxed) if outcome.node().is_none() => relaxed,
            _ => &member.strict,
        };
        let outcome = if outcome.node().is_none() { self.by.decide(pod) } else { outcome };
        if outcome.node().is_some() {
            return outcome;
        }
        let Deciding { state, rejections, nominations, .. } = &mut *self.by;
        let Preemption::Victims(found) =
            preemption::preempt(state, rejections, nominations, pod, &self.budgets, self.leaving)
        else {
            return outcome;
        };
        let victims = found.victims.iter().filter_map(|name| state.find_pod(name.namespace(), name.name()));
        let victims: Vec<_> = victims.collect();
        DisruptionBudget::use_up(&mut self.budgets, state, &victims);
        let frees_devices = preemption::frees_devices(state, pod);
        for victim in victims {
            let (pod, node) = (state.as_pending(victim), found.node.clone());
            state.remove_record(victim);
            if let Some(devices) = pod.devices.as_ref().filter(|_| frees_devices) {
                state.release_claims(devices, &mut self.released);
            }
            self.evicted.push((pod, node));
        }
        let node = state.find_node(&found.node);
        let placed = node.and_then(|node| decision::decide_on(state, nominations, pod, node));
        self.found.push(found);
        placed.unwrap_or(outcome)
    }

    /// Takes everything back.
    fn end(self, order: &[usize]) -> GroupVictims {
        let mut nodes = vec![None; order.len()];
        for (i, (pod, outcome)) in order.iter().zip(&self.placed) {
            self.by.assign(pod, outcome, false);
            nodes[*i] = outcome.node().map(str::to_owned);
        }
        self.by.state.take_back_claims(self.released);
        for (pod, node) in self.evicted.iter().rev() {
            self.by.state.assign(pod, node);
        }
        let n_pdb_violations = self.found.iter().map(|found| found.n_pdb_violations).sum();
        let victims = self.found.iter().flat_map(|found| &found.victims).cloned().collect();
        let mut nominations: Vec<_> = self.found.into_iter().flat_map(|found| found.nominations).collect();
        nominations.sort_unstable();
        nominations.dedup();
        GroupVictims { nodes, victims, n_pdb_violations, nominations }
    }
}
