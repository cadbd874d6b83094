//! Groups: pods that are placed together or not at all.
//!
//! Members are decided on one state. A placement is valid if each member's rules hold on its node while all other placed
//! members run on theirs. Rules between members are therefore decided together: pods that require each other are placed,
//! which no order of single decisions can do.
//!
//! A topology constraint acts on the members as a node selector for one value of its key. Domains are tried by the score of
//! their best node for the first member, then by name. Where members require each other in a topology, its domains are
//! tried the same way once a search over all nodes has ended without a placement.
//!
//! The search is exact while the placements to be considered fit its budget; beyond it a group that could be placed may be
//! reported as one that cannot.

mod preemption;
mod search;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

pub use self::preemption::GroupVictims;
pub(crate) use self::preemption::{preempt, reserve};

use self::search::{Member, Search};
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
    /// The members that have no node yet.
    pub members: &'a [PreparedPod],
    /// How many of them have to be placed at least.
    pub min: usize,
    /// The members share one domain.
    pub topology: Option<GroupTopology<'a>>,
}

/// The topology whose domain the members of a group share.
#[derive(Clone, Copy, Debug)]
pub struct GroupTopology<'a> {
    /// A node label key.
    pub key: &'a str,
    /// The only value allowed: that of members that are running.
    pub value: Option<&'a str>,
    /// Whether the group may not be placed otherwise.
    pub required: bool,
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
}

impl MemberFailure {
    /// A member that fails while no other one has a node.
    fn alone(member: usize, outcome: Outcome) -> MemberFailure {
        MemberFailure { member, domain: None, topology_key: None, n_placed: 0, placed: Vec::new(), outcome }
    }

    /// Why the group is not placed: the member and the domain that fail.
    pub fn message(&self, group: &Group<'_>) -> String {
        let name = group.members.get(self.member).map_or("", PreparedPod::name);
        let domain = self.domain.as_ref().map(|domain| format!(" in {domain}")).unwrap_or_default();
        let (n, min, why) = (group.members.len(), group.min, self.outcome.message());
        format!("{} of {n} pods fit{domain}, {min} have to; pod {name} does not: {why}", self.n_placed)
    }
}

/// What a group is decided by.
pub(crate) struct Deciding<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) views: &'a mut Views,
    pub(crate) rejections: &'a mut RejectionViews<Candidates>,
    pub(crate) nominations: &'a Nominations,
}

/// A label that the nodes of all members must have.
#[derive(Clone, Copy)]
struct Domain<'a> {
    key: &'a str,
    value: &'a str,
    /// Whether the members' rules count in this domain alone: it is that of the topology constraint.
    constraint: bool,
}

/// Decides where the members go. No pod is assigned afterwards that was not before.
pub(crate) fn decide(mut by: Deciding<'_>, group: &Group<'_>) -> GroupOutcome {
    let order = order(by.state, group.members);
    let Some(first) = order.first().map(|i| &group.members[*i]) else {
        return GroupOutcome::Placed { domain: None, members: Vec::new() };
    };
    let mut furthest: Option<MemberFailure> = None;
    let mut attempt = |by: &mut Deciding<'_>, domain: Option<Domain<'_>>| {
        let members = Member::all(by.state, group.members, &order, domain);
        match Search::new(by, members, group.min).run() {
            Ok(placed) => {
                let mut placed: Vec<_> = order.iter().copied().zip(placed).collect();
                placed.sort_unstable_by_key(|(i, _)| *i);
                let domain = domain.filter(|domain| domain.constraint).map(|domain| domain.value.to_owned());
                let members = placed.into_iter().map(|(_, outcome)| outcome).collect();
                Some(GroupOutcome::Placed { domain, members })
            }
            Err(failure) => {
                if furthest.as_ref().is_none_or(|furthest| furthest.n_placed < failure.n_placed) {
                    let topology_key = domain.map(|domain| domain.key.to_owned());
                    let domain = domain.map(|domain| domain.value.to_owned());
                    let placed = failure.placed.iter().map(|(at, node)| (order[*at], node.clone())).collect();
                    let member = order[failure.member];
                    furthest = Some(MemberFailure { member, domain, topology_key, placed, ..*failure });
                }
                None
            }
        }
    };
    let placed = in_domains(&mut by, group, first, &mut attempt);
    placed.unwrap_or_else(|| {
        let no_domain = || {
            let message = format!("no node has the label {}", group.topology.map_or("", |t| t.key));
            let outcome = Outcome::Unschedulable { message, plugins: Vec::new() };
            MemberFailure::alone(order[0], outcome)
        };
        GroupOutcome::Unplaced(furthest.unwrap_or_else(no_domain))
    })
}

/// What could make members fit, one of each kind.
pub(crate) fn wake_conditions(state: &mut State, members: &[PreparedPod]) -> Vec<WakeConditions> {
    let mut kinds = FxHashSet::default();
    let mut conditions = Vec::new();
    for (at, pod) in members.iter().enumerate() {
        if kinds.insert(Equivalence::of(state, pod)) {
            let others = members[..at].iter().chain(&members[at + 1..]);
            let relaxed = search::relaxed(state, pod, others, |_| ());
            conditions.push(WakeConditions::of(state, relaxed.as_ref().unwrap_or(pod)));
        }
    }
    conditions
}

/// Tries all nodes or single domains, in the order of the module's documentation, until an attempt has a result.
fn in_domains<T>(
    by: &mut Deciding<'_>,
    group: &Group<'_>,
    first: &PreparedPod,
    attempt: &mut impl FnMut(&mut Deciding<'_>, Option<Domain<'_>>) -> Option<T>,
) -> Option<T> {
    match group.topology {
        Some(GroupTopology { key, value, required }) => {
            let values = value.map_or_else(|| values(by, first, key), |value| vec![value.into()]);
            let domain = |value| Some(Domain { key, value, constraint: true });
            let placed = values.iter().find_map(|value| attempt(by, domain(value)));
            placed.or_else(|| if required { None } else { attempt(by, None) })
        }
        None => attempt(by, None).or_else(|| {
            let key = &*mutual_topology(by.state, group.members)?;
            let domain = |value| Some(Domain { key, value, constraint: false });
            values(by, first, key).iter().find_map(|value| attempt(by, domain(value)))
        }),
    }
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
fn mutual_topology(state: &State, members: &[PreparedPod]) -> Option<String> {
    let requiring = members.iter().find(|pod| requires_any(state, pod, members.iter()))?;
    let terms = terms_satisfied(state, requiring, members.iter());
    let mut keys = terms.flat_map(|term| &term.topologies).filter_map(|topology| {
        match state.topologies.key(*topology) {
            Some(key) if state.topologies.is_shared(*topology) => Some(state.symbols.text(key).to_owned()),
            _ => None,
        }
    });
    keys.next()
}

/// The values of a node label, by the score of their best node for a pod, then by name.
fn values(by: &Deciding<'_>, pod: &PreparedPod, key: &str) -> Vec<Arc<str>> {
    let state = &*by.state;
    let Some(key) = state.symbols.get(key) else { return Vec::new() };
    let mut best: BTreeMap<Arc<str>, Option<i64>> = BTreeMap::new();
    let mut add = |node: NodeId, score: Option<i64>| {
        if let Some(value) = state.nodes.get(node).labels.get(key) {
            let best = best.entry(state.symbols.shared_text(value)).or_default();
            *best = score.max(*best);
        }
    };
    state.nodes.iter().for_each(|(node, _)| add(node, None));
    let cycle = CycleState::new(state, by.nominations, pod);
    if let Some(run) = Context::new(state, &cycle).map(Run::new) {
        run.feasible.iter().zip(&run.totals).for_each(|(node, total)| add(*node, Some(*total)));
    }
    let mut values: Vec<_> = best.into_iter().collect();
    values.sort_by_key(|(_, score)| Reverse(*score));
    values.into_iter().map(|(value, _)| value).collect()
}
