//! Preemption for a group: all of its members fit once the victims are gone, or no pod is evicted. The same search finds
//! the room that is held for a group while it waits for pods to end.

use std::cmp::Reverse;
use std::sync::Arc;

use berth_api::object::NamespacedName;
use rustc_hash::FxHashMap;

use super::member::Member;
use super::{Deciding, Group, GroupOutcome, domains_in_turn, order};
use crate::decision::{self, Outcome};
use crate::preemption::{self, DisruptionBudget, Leaving, Preemption, Victims};
use crate::state::device::ReleasedClaims;
use crate::state::group::GroupId;
use crate::state::pod::PodId;
use crate::state::pod::prepared::PreparedPod;
use crate::view::rejections::RejectionViews;

/// The pods that leave for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupVictims {
    /// For each member the node that it then fits on; none for members beyond the required number that do not fit.
    pub nodes: Vec<Option<String>>,
    /// The pods to be evicted, at least one, the most important first; or those that are waited for.
    pub victims: Vec<NamespacedName>,
    /// How many of them are protected by a budget that does not allow it.
    pub n_pdb_violations: usize,
    /// Pods of lower priority that are nominated to these nodes: clear their nominations, and decide them again.
    pub nominations: Vec<NamespacedName>,
}

/// Which pods have to be evicted so that a group fits that was not placed.
///
/// As in kube-scheduler, the group is placed once in the cluster without all pods that it may preempt. Of these, as many as possible then
/// stay: first those that a budget protects, then the others, each time the most important first. Groups for which claims of devices are
/// deallocated are [searched for](search) instead: devices are not given back one by one.
pub(crate) fn preempt(
    mut by: Deciding<'_>,
    group: &Group<'_>,
    budgets: &[DisruptionBudget],
) -> Option<GroupVictims> {
    let frees_devices = || group.members.iter().any(|pod| preemption::frees_devices(by.state, pod));
    if group.composite.is_none() && frees_devices() {
        return search(by, group, budgets, Leaving::Evicted);
    }
    if !group.members.iter().all(|pod| pod.preempts && preemption::is_enabled(by.state, pod)) {
        return None;
    }
    let priority = group.members.iter().map(|pod| pod.precedence.priority).min()?;
    let order = order(by.state, group.members);
    let mut trial = Trial::new(&mut by, Leaving::Evicted, budgets);
    trial.evict_all_below(priority);
    let Deciding { state, views, rejections, nominations, domains } = &mut *trial.by;
    let outcome = super::decide(Deciding { state, views, rejections, nominations, domains }, group);
    let mut fits = false;
    if let GroupOutcome::Placed { members, .. } = outcome {
        fits = true;
        for i in &order {
            trial.put(group.members[*i].clone(), members[*i].clone());
        }
        trial.reprieve();
    }
    let found = trial.end(&order, budgets);
    (fits && !found.victims.is_empty()).then_some(found)
}

/// Where a group fits once running pods of lower or equal priority have ended: all but `staying`.
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

/// Members are decided one after another; an unschedulable one gets the victims that a single pod would get. Victims that a later
/// member made superfluous are then reprieved. Of the domains where that ends with a valid placement, the one with the fewest violations
/// of budgets is chosen, then the one with the fewest victims, then the first.
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
        let mut trial = Trial::new(&mut by, leaving, budgets);
        let fits = trial.run(&members, group.min);
        if fits {
            trial.reprieve();
        }
        let found = trial.end(&order, budgets);
        let is_found = fits && (leaving == Leaving::Awaited || !found.victims.is_empty());
        if is_found && best.as_ref().is_none_or(|best| cost(&found) < cost(best)) {
            best = Some(found);
        }
    }
    best
}

struct Evicted {
    pod: PreparedPod,
    node: Arc<str>,
    /// Its group, if that is evicted as a whole.
    group: Option<GroupId>,
    ranks_as_group: bool,
    violates_budget: bool,
}

/// An attempt in one domain.
struct Trial<'a, 'b> {
    by: &'a mut Deciding<'b>,
    leaving: Leaving,
    /// What the victims so far have left of them.
    budgets: Vec<DisruptionBudget>,
    placed: Vec<(PreparedPod, Outcome)>,
    evicted: Vec<Evicted>,
    released: ReleasedClaims,
    found: Vec<Victims>,
}

impl<'a, 'b> Trial<'a, 'b> {
    fn new(by: &'a mut Deciding<'b>, leaving: Leaving, budgets: &[DisruptionBudget]) -> Trial<'a, 'b> {
        Trial {
            by,
            leaving,
            budgets: budgets.to_vec(),
            placed: Vec::new(),
            evicted: Vec::new(),
            released: ReleasedClaims::default(),
            found: Vec::new(),
        }
    }

    /// Removes all pods of a lower priority; those of a group that is disrupted as a whole if that is the priority of each.
    fn evict_all_below(&mut self, priority: i32) {
        let state = &*self.by.state;
        let is_lower = |id: &PodId| state.pods.get(*id).precedence.priority < priority;
        let may_leave = |id: &PodId| match state.groups.as_a_whole(state.pods.get(*id).group) {
            Some(group) => state.groups.members(group).all(|member| is_lower(&member)),
            None => is_lower(id),
        };
        let running = state.nodes.iter().flat_map(|(_, node)| &node.pods).copied();
        let victims = preemption::pods_by_importance(state, running.filter(may_leave));
        let violations = DisruptionBudget::use_up(&mut self.budgets, state, &victims);
        for (victim, violates_budget) in victims.into_iter().zip(violations) {
            self.evict(victim, violates_budget);
        }
    }

    fn evict(&mut self, victim: PodId, violates_budget: bool) {
        let state = &mut *self.by.state;
        let group = state.groups.as_a_whole(state.pods.get(victim).group);
        let ranks_as_group = state.ranks_as_group(victim);
        // Members of a group may leave from other nodes.
        let node = state.symbols.shared_text(state.pods.get(victim).node_name);
        let pod = state.as_pending(victim);
        state.remove_record(victim);
        self.evicted.push(Evicted { pod, node, group, ranks_as_group, violates_budget });
    }

    fn put(&mut self, pod: PreparedPod, outcome: Outcome) {
        self.by.assign(&pod, &outcome, true);
        self.placed.push((pod, outcome));
    }

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
        let violations = DisruptionBudget::use_up(&mut self.budgets, state, &victims);
        let frees_devices = preemption::frees_devices(state, pod);
        for (victim, violates_budget) in victims.into_iter().zip(violations) {
            self.evict(victim, violates_budget);
            let devices = self.evicted.last().and_then(|evicted| evicted.pod.devices.as_ref());
            if let Some(devices) = devices.filter(|_| frees_devices) {
                self.by.state.release_claims(devices, &mut self.released);
            }
        }
        let Deciding { state, nominations, .. } = &mut *self.by;
        let node = state.find_node(&found.node);
        let placed = node.and_then(|node| decision::decide_on(state, nominations, pod, node));
        self.found.push(found);
        placed.unwrap_or(outcome)
    }

    /// Takes victims back without which the members fit as well. Devices of victims are not given back one by one.
    fn reprieve(&mut self) {
        if !self.released.is_empty() {
            return;
        }
        let mut units: Vec<Vec<Evicted>> = Vec::new();
        let mut of_group: FxHashMap<GroupId, usize> = FxHashMap::default();
        for evicted in std::mem::take(&mut self.evicted) {
            let n = units.len();
            let at = evicted.group.map_or(n, |group| *of_group.entry(group).or_insert(n));
            match units.get_mut(at) {
                Some(unit) => unit.push(evicted),
                None => units.push(vec![evicted]),
            }
        }
        units.sort_by_key(|unit| {
            let (protected, n) = (unit.iter().any(|evicted| evicted.violates_budget), unit.len());
            let precedence = || unit.iter().map(|evicted| evicted.pod.precedence);
            let priority = precedence().map(|precedence| precedence.priority).max();
            let started = precedence().map(|precedence| precedence.started).min();
            (Reverse(protected), Reverse(priority), Reverse(unit[0].ranks_as_group), Reverse(n), started)
        });
        let are_local = self.placed.iter().all(|(pod, _)| self.is_decided_by_its_node(pod));
        for unit in units {
            let is_local = |evicted: &Evicted| {
                self.by.state.rule_sets.get(evicted.pod.rule_set).required_anti_affinity.is_empty()
            };
            let is_local = are_local && unit.iter().all(is_local);
            for Evicted { pod, node, .. } in &unit {
                self.by.state.assign(pod, node);
            }
            // Most victims are needed by a member on their node.
            let is_near = |placed: &&(PreparedPod, Outcome)| {
                unit.iter().any(|evicted| placed.1.node() == Some(&*evicted.node))
            };
            let near = self.placed.iter().filter(is_near);
            let far = self.placed.iter().filter(|placed| !is_local && !is_near(placed));
            if self.by.broken(near.chain(far).map(|(pod, outcome)| (pod, outcome))).is_some() {
                unit.iter().for_each(|evicted| self.by.state.forget(&evicted.pod));
                self.evicted.extend(unit);
            }
        }
    }

    /// Whether pods on other nodes make no difference to a pod, but by their own rules.
    fn is_decided_by_its_node(&self, pod: &PreparedPod) -> bool {
        let rules = self.by.state.rule_sets.get(pod.rule_set);
        pod.volumes.is_none()
            && pod.devices.is_none()
            && rules.required_affinity.is_empty()
            && rules.required_anti_affinity.is_empty()
            && self.by.state.spread_of(pod).is_empty()
    }

    /// Takes everything back.
    fn end(self, order: &[usize], budgets: &[DisruptionBudget]) -> GroupVictims {
        let mut nodes = vec![None; order.len()];
        for (i, (pod, outcome)) in order.iter().zip(&self.placed) {
            self.by.assign(pod, outcome, false);
            nodes[*i] = outcome.node().map(str::to_owned);
        }
        self.by.state.take_back_claims(self.released);
        for Evicted { pod, node, .. } in self.evicted.iter().rev() {
            self.by.state.assign(pod, node);
        }
        let state = &*self.by.state;
        let evicted = self.evicted.iter().filter_map(|e| state.pods.find(e.pod.namespace, &e.pod.name));
        let ids = preemption::pods_by_importance(state, evicted);
        let violations = DisruptionBudget::use_up(&mut budgets.to_vec(), state, &ids);
        let n_pdb_violations = violations.into_iter().filter(|violates| *violates).count();
        let name = |id: PodId| {
            let pod = state.pods.get(id);
            NamespacedName::new(state.symbols.text(pod.namespace), &pod.name)
        };
        let victims = ids.into_iter().map(name).collect();
        let mut nominations: Vec<_> = self.found.into_iter().flat_map(|found| found.nominations).collect();
        nominations.sort_unstable();
        nominations.dedup();
        GroupVictims { nodes, victims, n_pdb_violations, nominations }
    }
}
