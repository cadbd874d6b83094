//! The search for a placement of all members, depth first.
//!
//! Members are placed one after another. What a later member may still satisfy does not reject a node: required affinity
//! that it matches, and spread constraints that count it. All other rules only get stricter with every pod, so that a node
//! they reject now is rejected in every continuation. A complete placement is then checked by all rules of each member.
//! A member's nodes are tried from the best; one that has none takes back the one before.

use super::alike::{are_decided_by_node, are_equal};
use super::choices::{Choices, kinds};
use super::domain::Domain;
use super::member::Member;
use super::{Deciding, MemberFailure};
use crate::cycle::context::{Context, CycleState};
use crate::decision::{self, Outcome, Run};
use crate::device::AvoidedDevices;
use crate::plugins;
use crate::state::State;
use crate::state::node::NodeId;
use crate::state::pod::prepared::PreparedPod;

/// Evaluations of one node for one member after which a search in a domain ends.
pub(super) const BUDGET: usize = 1 << 18;
/// Evaluations of the searches of a group in all domains together, besides those of [`first_descent`].
pub(super) const ALL_DOMAINS: usize = 4 * BUDGET;
/// What a decision by views, an assignment and its undoing count as.
const STEP: usize = 16;

/// The evaluations that each domain gets in any case: enough for a search that takes back few members.
pub(super) fn first_descent(n_members: usize) -> usize {
    STEP * (2 * n_members + 2)
}

/// Whether members are equal and only what is on a node decides how many of them it takes.
fn are_alike_and_apart(state: &State, members: &[Member]) -> bool {
    members.iter().all(|member| member.relaxed.is_none())
        && members.first().is_some_and(|first| are_decided_by_node(state, &first.valid))
        && are_equal(state, members.iter().map(|member| &member.valid))
}

pub(super) struct Search<'a, 'b> {
    by: &'a mut Deciding<'b>,
    members: Vec<Member>,
    /// The nodes of the domain; none if it has all.
    nodes: Option<&'a [NodeId]>,
    min: usize,
    /// Whether each node takes a certain number of members, wherever the others are: no choice is better than another.
    is_greedy: bool,
    /// For each member whether it is the last that may satisfy rules of one before it.
    settles: Vec<bool>,
    /// What each member decided so far got: a node, or why not.
    outcomes: Vec<Outcome>,
    /// The number of the kind of each member, once one is taken back.
    kinds: Vec<usize>,
    /// Nodes with which all was tried, by the member that was there: equal members after it need not go there.
    exhausted: Vec<(usize, NodeId)>,
    budget: usize,
    furthest: MemberFailure,
}

impl<'a, 'b> Search<'a, 'b> {
    pub(super) fn new(
        by: &'a mut Deciding<'b>,
        members: Vec<Member>,
        domain: &'a Domain,
        min: usize,
        budget: usize,
    ) -> Search<'a, 'b> {
        let outcome = Outcome::Unschedulable { message: String::new(), plugins: Vec::new() };
        let furthest = MemberFailure::alone(0, outcome);
        let is_greedy = are_alike_and_apart(by.state, &members);
        let nodes = domain.nodes.as_deref();
        let has_devices = members.iter().any(|member| member.valid.devices.is_some());
        // Claims that get devices during the search would make members differ.
        let kinds = if has_devices { kinds(by.state, &members) } else { Vec::new() };
        let mut settles = vec![false; members.len()];
        for (at, member) in members.iter().enumerate() {
            settles[member.settled_by] |= member.settled_by > at;
        }
        let (outcomes, exhausted) = (Vec::new(), Vec::new());
        Search { by, members, nodes, min, is_greedy, settles, outcomes, kinds, exhausted, budget, furthest }
    }

    /// Where each member goes, and what is left of the budget; nothing is assigned afterwards.
    pub(super) fn run(mut self) -> (Result<Vec<Outcome>, Box<MemberFailure>>, usize) {
        let mut frames = vec![Choices::default()];
        let found = loop {
            let at = frames.len() - 1;
            if self.outcomes.len() > at {
                self.take_back();
            }
            match self.next(at, &mut frames[at]) {
                Some(outcome) => {
                    self.by.assign(&self.members[at].valid, &outcome, true);
                    self.outcomes.push(outcome);
                }
                None if at == 0 || self.is_greedy => break false,
                None => {
                    frames.pop();
                    continue;
                }
            }
            let is_last = at + 1 == self.members.len();
            match self.is_valid(at, is_last) {
                true if is_last => break true,
                true => frames.push(Choices::default()),
                false => {}
            }
        };
        let outcomes = self.outcomes.clone();
        while !self.outcomes.is_empty() {
            self.take_back();
        }
        self.furthest.is_cut = self.budget < STEP;
        (if found { Ok(outcomes) } else { Err(Box::new(self.furthest)) }, self.budget)
    }

    fn n_placed(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.node().is_some()).count()
    }

    /// The next node for a member: the best by all its rules, then the best by those that count already, then all; then with other
    /// devices; at last none, if the others are enough.
    fn next(&mut self, at: usize, choices: &mut Choices) -> Option<Outcome> {
        if let Some(before) = self.outcomes.last().filter(|before| self.is_greedy && before.node().is_none())
        {
            choices.failure = Some(before.clone());
            choices.rest = Some(Vec::new());
            choices.n_tried = 2;
        }
        self.exhaust(at, choices);
        while choices.n_tried < 2 {
            let outcome = self.best(at, choices)?;
            if outcome.is_some() {
                return outcome;
            }
        }
        while let Some(node) = self.rest(at, choices).pop() {
            self.spend()?;
            if !choices.tried.contains(&node) && !self.is_exhausted(at, node) {
                let (state, member) = (&*self.by.state, self.members[at].chosen_by());
                let found = decision::decide_on(state, self.by.nominations, member, node);
                if let Some(found) = found {
                    return Some(self.go(at, choices, node, found));
                }
            }
        }
        self.with_other_devices(at, choices).or_else(|| self.skip(at, choices))
    }

    /// The best node for a member, if it was not tried; none if the search ends here.
    fn best(&mut self, at: usize, choices: &mut Choices) -> Option<Option<Outcome>> {
        choices.n_tried += 1;
        let member = &self.members[at];
        let outcome = match (choices.n_tried, &member.relaxed) {
            (1, _) => self.by.decide_in(self.nodes, &member.strict),
            (_, Some(relaxed)) => self.by.decide_in(self.nodes, relaxed),
            (_, None) => return Some(None),
        };
        self.spend()?;
        let Some(node) = outcome.node().and_then(|name| self.by.state.find_node(name)) else {
            // The last decision is the one that counts: nothing is left out of it that could still hold.
            let is_last = choices.n_tried == 2 || self.members[at].relaxed.is_none();
            if is_last && choices.tried.is_empty() {
                self.failed(at, outcome.clone());
                choices.failure = Some(outcome);
                choices.rest = Some(Vec::new());
            }
            return Some(None);
        };
        if choices.tried.contains(&node) {
            return Some(None);
        }
        choices.tried.push(node);
        let is_new = !self.is_exhausted(at, node);
        Some(is_new.then(|| self.go(at, choices, node, outcome)))
    }

    /// The nodes that are left for a member.
    fn rest<'c>(&mut self, at: usize, choices: &'c mut Choices) -> &'c mut Vec<NodeId> {
        choices.rest.get_or_insert_with(|| {
            let n_nodes = self.nodes.map_or(self.by.state.nodes.len(), <[NodeId]>::len);
            self.budget = self.budget.saturating_sub(n_nodes);
            self.by.feasible(self.nodes, self.members[at].chosen_by())
        })
    }

    fn go(&self, at: usize, choices: &mut Choices, node: NodeId, outcome: Outcome) -> Outcome {
        choices.current = Some(node);
        if self.members[at + 1..].iter().any(|later| later.valid.devices.is_some()) {
            choices.devices.add(node, &outcome, AvoidedDevices::new());
        }
        outcome
    }

    /// A node that was tried, with other devices.
    fn with_other_devices(&mut self, at: usize, choices: &mut Choices) -> Option<Outcome> {
        loop {
            let (node, avoided) = choices.devices.next(self.by.state, &self.members[at..])?;
            self.spend()?;
            // An equal member may go where this one had its first devices.
            self.exhausted.retain(|(by, _)| *by != at);
            let Deciding { state, nominations, .. } = &*self.by;
            let member = self.members[at].chosen_by();
            let found = decision::decide_on_without(state, nominations, member, node, &avoided);
            if let Some(outcome) = found {
                choices.devices.add(node, &outcome, avoided);
                return Some(outcome);
            }
        }
    }

    fn skip(&self, at: usize, choices: &mut Choices) -> Option<Outcome> {
        let remaining = self.members.len() - at - 1;
        let may_skip = !choices.skipped && self.n_placed() + remaining >= self.min;
        choices.skipped = true;
        let message = "it fits only where the other members of its group do not fit".to_owned();
        let failure = choices.failure.take();
        let skip = || failure.unwrap_or(Outcome::Unschedulable { message, plugins: Vec::new() });
        may_skip.then(skip)
    }

    /// Remembers that all was tried with a member on the node that it had.
    fn exhaust(&mut self, at: usize, choices: &mut Choices) {
        while self.exhausted.last().is_some_and(|(by, _)| *by > at) {
            self.exhausted.pop();
        }
        if let Some(node) = choices.current.take() {
            if self.kinds.is_empty() {
                self.kinds = kinds(self.by.state, &self.members);
            }
            self.exhausted.push((at, node));
        }
    }

    /// Whether an equal member before was on a node, and all was tried with it: the two would only change places.
    fn is_exhausted(&self, at: usize, node: NodeId) -> bool {
        let is_equal = |by: usize| by != at && self.kinds[by] == self.kinds[at];
        self.exhausted.iter().any(|(by, tried)| *tried == node && is_equal(*by))
    }

    /// None if the search ends here.
    fn spend(&mut self) -> Option<()> {
        self.budget = self.budget.checked_sub(STEP)?;
        Some(())
    }

    fn failed(&mut self, member: usize, outcome: Outcome) {
        let n_placed = self.n_placed();
        let is_empty = self.furthest.outcome.message().is_empty();
        if is_empty || n_placed > self.furthest.n_placed {
            let nodes = self.outcomes.iter().enumerate().filter(|(at, _)| *at != member);
            let placed = nodes.filter_map(|(at, outcome)| Some((at, outcome.node()?.to_owned()))).collect();
            self.furthest = MemberFailure { n_placed, placed, ..MemberFailure::alone(member, outcome) };
        }
    }

    fn take_back(&mut self) {
        if let Some(outcome) = self.outcomes.pop() {
            self.by.assign(&self.members[self.outcomes.len()].valid, &outcome, false);
        }
    }

    /// Whether all rules of each member hold with the others in their places: of those that no later member satisfies.
    fn is_valid(&mut self, at: usize, is_last: bool) -> bool {
        if !is_last && !self.settles[at] {
            return true;
        }
        let is_settled = |i: &usize| is_last || (*i < at && self.members[*i].settled_by == at);
        let settled: Vec<usize> = (0..=at).filter(is_settled).collect();
        let placed = settled.iter().map(|i| (&self.members[*i].valid, &self.outcomes[*i]));
        let broken = self.by.broken(placed);
        let is_valid = broken.is_none();
        if let Some((i, outcome)) = broken {
            self.failed(settled[i], outcome);
        }
        is_valid
    }
}

impl Deciding<'_> {
    pub(super) fn decide(&mut self, pod: &PreparedPod) -> Outcome {
        decision::decide(self.state, self.views, self.rejections, self.nominations, pod)
    }

    fn decide_in(&mut self, nodes: Option<&[NodeId]>, pod: &PreparedPod) -> Outcome {
        match nodes {
            Some(nodes) => decision::decide_among(self.state, self.views, self.nominations, pod, nodes),
            None => self.decide(pod),
        }
    }

    /// The nodes that a pod fits on, the best last.
    fn feasible(&self, nodes: Option<&[NodeId]>, pod: &PreparedPod) -> Vec<NodeId> {
        let cycle = CycleState::new(self.state, self.nominations, pod);
        let run = Context::new(self.state, &cycle).map(|context| Run::on(context, nodes));
        let Some(run) = run else { return Vec::new() };
        let mut nodes: Vec<_> = run.totals.iter().copied().zip(run.feasible.iter().copied()).collect();
        nodes.sort_unstable_by(|(a, node_a), (b, node_b)| {
            a.cmp(b).then_with(|| self.state.node_name(*node_b).cmp(self.state.node_name(*node_a)))
        });
        nodes.into_iter().map(|(_, node)| node).collect()
    }

    /// The first of the placed pods whose rules do not hold with the others in their places, and why.
    pub(super) fn broken<'p>(
        &mut self,
        placed: impl Iterator<Item = (&'p PreparedPod, &'p Outcome)>,
    ) -> Option<(usize, Outcome)> {
        for (at, (pod, outcome)) in placed.enumerate() {
            let Some(node) = outcome.node().and_then(|name| self.state.find_node(name)) else { continue };
            self.assign(pod, outcome, false);
            let rejection = self.rejection(pod, node);
            self.assign(pod, outcome, true);
            if let Some(outcome) = rejection {
                return Some((at, outcome));
            }
        }
        None
    }

    fn rejection(&self, pod: &PreparedPod, node: NodeId) -> Option<Outcome> {
        let cycle = CycleState::new(self.state, self.nominations, pod);
        let context = Context::new(self.state, &cycle)?;
        let rejection = context.rejection(&plugins::filters(context), node)?;
        let message = format!("node {}: {}", self.state.node_name(node), rejection.reasons.join(", "));
        Some(Outcome::Unschedulable { message, plugins: vec![rejection.plugin] })
    }

    /// Assigns a pod with its volumes and devices to the node it is placed on, or takes that back.
    pub(super) fn assign(&mut self, pod: &PreparedPod, outcome: &Outcome, on: bool) {
        let Outcome::Placed { node, volumes, devices, .. } = outcome else { return };
        if on {
            self.state.assign(pod, node);
        }
        if let Some(devices) = devices {
            let assumed = pod.assumed_devices(devices, false);
            match on {
                true => self.state.assume_devices(&assumed),
                false => self.state.restore_devices(&assumed),
            }
        }
        match (volumes, on) {
            (Some(volumes), true) => self.state.assume_volumes(pod.namespace, node, volumes),
            (Some(volumes), false) => self.state.restore_volumes(pod.namespace, volumes),
            (None, _) => {}
        }
        if !on {
            self.state.forget(pod);
        }
    }
}
