//! Groups: pods that are placed together or not at all.
//!
//! Members are decided on one state. A placement is valid if each member's rules hold on its node while all other placed
//! members run on theirs. Rules between members are therefore decided together: pods that require each other are placed,
//! which no order of single decisions can do.
//!
//! A topology constraint acts on the members as a node selector for one value of its key ([`topology`] chooses it). Where members
//! require each other in a topology, its domains are tried the same way once a search over all nodes has ended without a placement:
//! by the score of their best node for the first member, then by name.
//!
//! The search is exact while the placements to be considered fit its budget; beyond it a group that could be placed may be
//! reported as one that cannot.

mod alike;
mod choices;
mod composite;
mod domain;
mod member;
mod preemption;
mod search;
mod topology;

use std::cmp::Reverse;
use std::sync::Arc;

use berth_api::object::group::{GroupPart, TopologyLevel};
use rustc_hash::{FxHashMap, FxHashSet};

pub use self::preemption::GroupVictims;
pub(crate) use self::preemption::{preempt, reserve};

pub(crate) use self::domain::DomainTables;
use self::domain::{Domain, domains};
use self::topology::{Found, Placing};
use crate::cycle::context::{Context, CycleState};
use crate::cycle::equivalence::Equivalence;
use crate::cycle::nomination::Nominations;
use crate::decision::{Outcome, Run};
use crate::preemption::Candidates;
use crate::state::State;
use crate::state::counting::matcher::MatcherId;
use crate::state::node::NodeId;
use crate::state::pod::prepared::PreparedPod;
use crate::state::rule_set::RequiredTerm;
use crate::view::Views;
use crate::view::rejections::RejectionViews;
use crate::wake::WakeConditions;

/// Pods to be placed as one unit.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// The members that have no node yet; those that are near in this order are placed near each other.
    pub members: &'a [PreparedPod],
    /// How many of them have to be placed at least.
    pub min: usize,
    /// The topologies whose domains the members share, the coarsest first.
    pub levels: &'a [GroupLevel<'a>],
    /// The groups that it consists of, with their members by index; none for a group of pods.
    pub composite: Option<&'a GroupPart>,
}

/// A topology whose domains the members of a group share.
#[derive(Clone, Copy, Debug)]
pub struct GroupLevel<'a> {
    /// What the group requires.
    pub rule: &'a TopologyLevel,
    /// The domain of members that are running: the only one allowed if the level is required, otherwise tried first.
    pub value: Option<&'a str>,
}

impl<'a> From<&'a (TopologyLevel, Option<String>)> for GroupLevel<'a> {
    fn from((rule, value): &'a (TopologyLevel, Option<String>)) -> GroupLevel<'a> {
        GroupLevel { rule, value: value.as_deref() }
    }
}

/// What was decided about a group.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupOutcome {
    /// The members are placed.
    Placed {
        /// The value of the topology that the members share, if they do by its constraint.
        domain: Option<String>,
        /// For each member its node, or why one beyond the required number has none.
        members: Vec<Outcome>,
    },
    /// No member is placed.
    Unplaced(MemberFailure),
}

/// The member that failed when most others had a node.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberFailure {
    /// Its index in the group.
    pub member: usize,
    /// The value of the topology that was tried.
    pub domain: Option<String>,
    /// The node label with this value.
    pub topology_key: Option<String>,
    /// The members that had a node.
    pub n_placed: usize,
    /// These members, by index in the group, and their nodes.
    pub placed: Vec<(usize, String)>,
    /// Why it is unschedulable, with those placed.
    pub outcome: Outcome,
    /// A search ended at its limit of evaluations: the group may fit all the same.
    pub is_cut: bool,
}

impl MemberFailure {
    /// A member that fails while no other one has a node.
    fn alone(member: usize, outcome: Outcome) -> MemberFailure {
        MemberFailure {
            member,
            domain: None,
            topology_key: None,
            n_placed: 0,
            placed: Vec::new(),
            outcome,
            is_cut: false,
        }
    }

    /// Why the group is not placed: the member and the domain that fail.
    pub fn message(&self, group: &Group<'_>) -> String {
        let name = group.members.get(self.member).map_or("", PreparedPod::name);
        let domain = self.domain.as_ref().map(|domain| format!(" in {domain}")).unwrap_or_default();
        let leaf = group.composite.and_then(|root| composite::leaf_of(root, self.member));
        let (n, min) = leaf.map_or((group.members.len(), group.min), |leaf| (leaf.members.len(), leaf.min));
        let why = self.outcome.message();
        let message =
            format!("{} of {n} pods fit{domain}, {min} have to; pod {name} does not: {why}", self.n_placed);
        match self.is_cut {
            true => message + " The search was ended at its limit.",
            false => message,
        }
    }
}

pub(crate) struct Deciding<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) views: &'a mut Views,
    pub(crate) rejections: &'a mut RejectionViews<Candidates>,
    pub(crate) nominations: &'a Nominations,
    pub(crate) domains: &'a mut DomainTables,
}

/// Decides where the members go. No pod is assigned afterwards that was not before.
pub(crate) fn decide(mut by: Deciding<'_>, group: &Group<'_>) -> GroupOutcome {
    let order = order(by.state, group.members);
    let Some(first) = order.first().map(|i| &group.members[*i]) else {
        return GroupOutcome::Placed { domain: None, members: Vec::new() };
    };
    if let Some(root) = group.composite {
        return decide_composite(by, group, root, &order);
    }
    let mutual = match group.levels {
        [] => mutual_domains(&by, group, first),
        _ => Vec::new(),
    };
    let mut placing = Placing::new(&mut by, group);
    let found = placing.place(&order, group.min, group.levels, &Domain::all_nodes());
    let found = found.or_else(|| mutual.iter().find_map(|domain| placing.search(&order, group.min, domain)));
    if let Some(Found { mut outcomes, domain, .. }) = found {
        keep_neighbours(by.state, group.members, &mut outcomes);
        outcomes.sort_unstable_by_key(|(i, _)| *i);
        let members = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
        return GroupOutcome::Placed { domain: domain.map(|domain| domain.to_string()), members };
    }
    let is_cut = placing.is_cut;
    let failure = placing.furthest().unwrap_or_else(|| {
        let key = group.levels.first().map_or("", |level| &level.rule.key);
        let message = match TopologyLevel::device_attribute(key) {
            Some(attribute) => format!("no node has devices with one value of the attribute {attribute}"),
            None => format!("no node has the label {key}"),
        };
        let outcome = Outcome::Unschedulable { message, plugins: Vec::new() };
        MemberFailure::alone(order[0], outcome)
    });
    GroupOutcome::Unplaced(MemberFailure { is_cut, ..failure })
}

/// Decides where the members of a group of groups go.
fn decide_composite(
    mut by: Deciding<'_>,
    group: &Group<'_>,
    root: &GroupPart,
    order: &[usize],
) -> GroupOutcome {
    let mut placing = Placing::new(&mut by, group);
    if let Some(placed) = placing.place_hierarchy(root, order) {
        let message = "its group is placed without it".to_owned();
        let unplaced = Outcome::Unschedulable { message, plugins: Vec::new() };
        let mut members = vec![unplaced; group.members.len()];
        placed.outcomes.into_iter().for_each(|(i, outcome)| members[i] = outcome);
        return GroupOutcome::Placed { domain: placed.domain, members };
    }
    let is_cut = placing.is_cut;
    let failure = placing.furthest().unwrap_or_else(|| {
        let message = format!("{} of its groups have to have their pods and their domains", root.min);
        MemberFailure::alone(order[0], Outcome::Unschedulable { message, plugins: Vec::new() })
    });
    GroupOutcome::Unplaced(MemberFailure { is_cut, ..failure })
}

/// Equal members that follow each other go to the same node where several do: which of them goes where makes no difference to the
/// rules.
fn keep_neighbours(state: &State, members: &[PreparedPod], outcomes: &mut [(usize, Outcome)]) {
    let mut seen: FxHashMap<&str, usize> = FxHashMap::default();
    let mut kinds: FxHashMap<Equivalence, Vec<usize>> = FxHashMap::default();
    for (at, (i, outcome)) in outcomes.iter().enumerate() {
        if let Outcome::Placed { node, volumes: None, devices: None, .. } = outcome {
            let n = seen.len();
            seen.entry(node).or_insert(n);
            kinds.entry(Equivalence::of(state, &members[*i])).or_default().push(at);
        }
    }
    let mut moved = Vec::new();
    for mut to in kinds.into_values() {
        let mut from = to.clone();
        from.sort_by_key(|at| outcomes[*at].1.node().and_then(|node| seen.get(node)));
        to.sort_by_key(|at| outcomes[*at].0);
        moved.extend(to.into_iter().zip(from.into_iter().map(|at| outcomes[at].1.clone())));
    }
    for (at, outcome) in moved {
        outcomes[at].1 = outcome;
    }
}

/// What could make members fit, one of each kind.
pub(crate) fn wake_conditions(state: &mut State, members: &[PreparedPod]) -> Vec<WakeConditions> {
    let mut kinds = FxHashSet::default();
    let mut conditions = Vec::new();
    for (at, pod) in members.iter().enumerate() {
        if kinds.insert(Equivalence::of(state, pod)) {
            let others = members[..at].iter().chain(&members[at + 1..]);
            let relaxed = member::relaxed(state, pod, others, |_| ());
            conditions.push(WakeConditions::of(state, relaxed.as_ref().unwrap_or(pod)));
        }
    }
    conditions
}

/// The domains that are tried for the first level of a group, the best for the first member first. Without levels: all nodes, then the
/// domains in which members require each other.
fn domains_in_turn(by: &Deciding<'_>, group: &Group<'_>, first: &PreparedPod) -> Vec<Domain> {
    let Some(level) = group.levels.first() else {
        return [Domain::all_nodes()].into_iter().chain(mutual_domains(by, group, first)).collect();
    };
    let mut domains =
        by_score(by, first, domains(by.state, &level.rule.key, &Domain::all_nodes(), true, None));
    if let Some(only) = level.value {
        domains.retain(|domain| domain.value().is_some_and(|value| **value == *only));
    }
    if !level.rule.required {
        domains.push(Domain::all_nodes());
    }
    domains
}

/// The domains of the topology in which members require each other.
fn mutual_domains(by: &Deciding<'_>, group: &Group<'_>, first: &PreparedPod) -> Vec<Domain> {
    let Some(key) = mutual_topology(by.state, group.members) else { return Vec::new() };
    by_score(by, first, domains(by.state, &key, &Domain::all_nodes(), false, None))
}

/// The members in the order in which they are decided: by priority, then those first whose affinity does not wait for
/// other members, then as given.
fn order(state: &State, members: &[PreparedPod]) -> Vec<usize> {
    let mut order: Vec<_> = (0..members.len()).collect();
    let key = |i: &usize| {
        let pod = &members[*i];
        (Reverse(pod.precedence.priority), requires_any(state, pod, members.iter()))
    };
    order.sort_by_cached_key(key);
    order
}

/// Whether some of these pods satisfy required affinity of a pod.
fn requires_any<'a>(
    state: &State,
    pod: &PreparedPod,
    others: impl Iterator<Item = &'a PreparedPod> + Clone,
) -> bool {
    terms_satisfied(state, pod, others).next().is_some()
}

/// The terms of a pod's required affinity that some of these pods satisfy.
fn terms_satisfied<'s, 'a>(
    state: &'s State,
    pod: &PreparedPod,
    others: impl Iterator<Item = &'a PreparedPod> + Clone,
) -> impl Iterator<Item = &'s RequiredTerm> {
    let terms = state.rule_sets.get(pod.rule_set).required_affinity.iter();
    terms.filter(move |term| others.clone().any(|other| matches(state, other, term.matcher)))
}

fn matches(state: &State, pod: &PreparedPod, matcher: MatcherId) -> bool {
    let signature = state.label_sets.get(pod.label_set).signature;
    state.signatures.get(signature).matched.binary_search(&matcher).is_ok()
}

/// The topology key in which a member requires another one.
fn mutual_topology(state: &State, members: &[PreparedPod]) -> Option<Arc<str>> {
    let requiring = members.iter().find(|pod| requires_any(state, pod, members.iter()))?;
    let terms = terms_satisfied(state, requiring, members.iter());
    let mut keys = terms.flat_map(|term| &term.topologies).filter_map(|topology| {
        let key = state.topologies.key(*topology)?;
        state.topologies.is_shared(*topology).then(|| state.symbols.shared_text(key))
    });
    keys.next()
}

/// Domains by the score of their best node for a pod, then by name.
fn by_score(by: &Deciding<'_>, pod: &PreparedPod, mut domains: Vec<Domain>) -> Vec<Domain> {
    let state = &*by.state;
    let cycle = CycleState::new(state, by.nominations, pod);
    let Some(run) = Context::new(state, &cycle).map(Run::new) else { return domains };
    let totals: FxHashMap<NodeId, i64> =
        run.feasible.iter().copied().zip(run.totals.iter().copied()).collect();
    let best = |domain: &Domain| {
        domain.nodes.iter().flat_map(|nodes| nodes.iter()).filter_map(|node| totals.get(node)).max()
    };
    domains.sort_by_key(|domain| Reverse(best(domain).copied()));
    domains
}
