//! The search for a placement of all members, depth first.
//!
//! Members are placed one after another. What a later member may still satisfy does not reject a node: required affinity
//! that it matches, and spread constraints that count it. All other rules only get stricter with every pod, so that a node
//! they reject now is rejected in every continuation. A complete placement is then checked by all rules of each member.
//! A member's nodes are tried from the best; one that has none takes back the one before.

use berth_api::rules::{PodRules, WhenUnsatisfiable};
use smallvec::SmallVec;

use super::alike::{are_decided_by_node, are_equal};
use super::domain::Domain;
use super::{Deciding, MemberFailure, matches, terms_satisfied};
use crate::cycle::context::{Context, CycleState};
use crate::decision::{self, Outcome, Run};
use crate::plugins;
use crate::state::State;
use crate::state::node::NodeId;
use crate::state::pod::prepared::PreparedPod;

/// Evaluations of one node for one member after which a search ends.
const BUDGET: usize = 1 << 18;
/// What a decision by views, an assignment and its undoing count as.
const STEP: usize = 16;

/// A member as it is searched for.
pub(super) struct Member {
    /// With the rules that a complete placement has to keep.
    pub(super) valid: PreparedPod,
    /// With the rules that choose among nodes.
    pub(super) strict: PreparedPod,
    /// The same without the rules that later members may satisfy, if there are any.
    pub(super) relaxed: Option<PreparedPod>,
}

impl Member {
    /// The members in the order of decision, restricted to a domain.
    pub(super) fn all(
        state: &mut State,
        pods: &[PreparedPod],
        order: &[usize],
        domain: &Domain,
    ) -> Vec<Member> {
        let within = |rules: &mut PodRules| {
            let labels = domain.labels.iter().map(|(key, value)| (key.to_string(), value.to_string()));
            rules.node_selector.extend(labels);
        };
        let member = |(at, i): (usize, &usize)| {
            let pod = &pods[*i];
            let later = order[at + 1..].iter().map(|i| &pods[*i]);
            let strict = match domain.labels[..] {
                [] => pod.clone(),
                _ => state.with_rules(pod, within),
            };
            let relaxed = relaxed(state, pod, later, within);
            let valid = if domain.is_constraint { strict.clone() } else { pod.clone() };
            Member { valid, strict, relaxed }
        };
        order.iter().enumerate().map(member).collect()
    }

    fn chosen_by(&self) -> &PreparedPod {
        self.relaxed.as_ref().unwrap_or(&self.strict)
    }
}

/// A pod without the rules that others may satisfy, if it has any: required affinity that they match, and spread
/// constraints that count them.
pub(super) fn relaxed<'a>(
    state: &mut State,
    pod: &PreparedPod,
    others: impl Iterator<Item = &'a PreparedPod> + Clone,
    change: impl FnOnce(&mut PodRules),
) -> Option<PreparedPod> {
    let affinity: Vec<usize> = terms_satisfied(state, pod, others.clone()).map(|term| term.index).collect();
    let spread = state.spread_of(pod).iter().any(|spread| {
        let counted = |matcher| others.clone().any(|other| matches(state, other, matcher));
        spread.constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule
            && spread.matcher.is_some_and(counted)
    });
    (!affinity.is_empty() || spread).then(|| {
        state.with_rules(pod, |rules| {
            change(rules);
            let mut index = 0..;
            rules.required_affinity.retain(|_| !index.next().is_some_and(|i| affinity.contains(&i)));
            if spread {
                let kept = |c: &WhenUnsatisfiable| *c == WhenUnsatisfiable::ScheduleAnyway;
                rules.spread_constraints.retain(|c| kept(&c.when_unsatisfiable));
            }
        })
    })
}

/// Whether members are equal and only what is on a node decides how many of them it takes.
fn are_alike_and_apart(state: &State, members: &[Member]) -> bool {
    members.iter().all(|member| member.relaxed.is_none())
        && members.first().is_some_and(|first| are_decided_by_node(state, &first.valid))
        && are_equal(state, members.iter().map(|member| &member.valid))
}

/// What is tried next for a member.
#[derive(Default)]
struct Choices {
    n_tried: usize,
    tried: SmallVec<[NodeId; 2]>,
    /// The nodes that are left, the best last, once they have been listed.
    rest: Option<Vec<NodeId>>,
    /// Why it is unschedulable.
    failure: Option<Outcome>,
    skipped: bool,
}

/// A search in one domain.
pub(super) struct Search<'a, 'b> {
    by: &'a mut Deciding<'b>,
    members: Vec<Member>,
    /// The nodes of the domain; none if it has all.
    nodes: Option<&'a [NodeId]>,
    min: usize,
    /// Whether each node takes a certain number of members, wherever the others are: no choice is better than another.
    is_greedy: bool,
    /// What each member decided so far got: a node, or why not.
    outcomes: Vec<Outcome>,
    budget: usize,
    furthest: MemberFailure,
}

impl<'a, 'b> Search<'a, 'b> {
    pub(super) fn new(
        by: &'a mut Deciding<'b>,
        members: Vec<Member>,
        domain: &'a Domain,
        min: usize,
    ) -> Search<'a, 'b> {
        let outcome = Outcome::Unschedulable { message: String::new(), plugins: Vec::new() };
        let furthest = MemberFailure::alone(0, outcome);
        let is_greedy = are_alike_and_apart(by.state, &members);
        let nodes = domain.nodes.as_deref();
        Search { by, members, nodes, min, is_greedy, outcomes: Vec::new(), budget: BUDGET, furthest }
    }

    /// Where each member goes; nothing is assigned afterwards.
    pub(super) fn run(mut self) -> Result<Vec<Outcome>, Box<MemberFailure>> {
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
            if at + 1 < self.members.len() {
                frames.push(Choices::default());
            } else if self.is_valid() {
                break true;
            }
        };
        let outcomes = self.outcomes.clone();
        while !self.outcomes.is_empty() {
            self.take_back();
        }
        self.furthest.is_cut = self.budget < STEP;
        if found { Ok(outcomes) } else { Err(Box::new(self.furthest)) }
    }

    fn n_placed(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.node().is_some()).count()
    }

    /// The next node for a member: the best by all its rules, then the best by those that count already, then all; at last
    /// none, if the others are enough.
    fn next(&mut self, at: usize, choices: &mut Choices) -> Option<Outcome> {
        if let Some(before) = self.outcomes.last().filter(|before| self.is_greedy && before.node().is_none())
        {
            choices.failure = Some(before.clone());
            choices.rest = Some(Vec::new());
            choices.n_tried = 2;
        }
        loop {
            if self.budget < STEP {
                return None;
            }
            self.budget -= STEP;
            choices.n_tried += 1;
            let member = &self.members[at];
            let outcome = match (choices.n_tried, &member.relaxed) {
                (1, _) => Some(self.by.decide_in(self.nodes, &member.strict)),
                (2, Some(relaxed)) => Some(self.by.decide_in(self.nodes, relaxed)),
                _ => None,
            };
            match outcome {
                Some(Outcome::Placed { .. }) => {}
                Some(outcome) => {
                    // The last decision is the one that counts: nothing is left out of it that could still hold.
                    let is_last = choices.n_tried == 2 || member.relaxed.is_none();
                    if is_last && choices.tried.is_empty() {
                        self.failed(at, outcome.clone());
                        choices.failure = Some(outcome);
                        choices.rest = Some(Vec::new());
                    }
                    continue;
                }
                None => {
                    let rest = match &mut choices.rest {
                        Some(rest) => rest,
                        None => {
                            let chosen_by = member.chosen_by();
                            let n_nodes = self.nodes.map_or(self.by.state.nodes.len(), <[NodeId]>::len);
                            self.budget = self.budget.saturating_sub(n_nodes);
                            choices.rest.insert(self.by.feasible(self.nodes, chosen_by))
                        }
                    };
                    let Some(node) = rest.pop() else { break };
                    if choices.tried.contains(&node) {
                        continue;
                    }
                    let found =
                        decision::decide_on(self.by.state, self.by.nominations, member.chosen_by(), node);
                    return found;
                }
            }
            let node =
                outcome.as_ref().and_then(Outcome::node).and_then(|name| self.by.state.find_node(name))?;
            if !choices.tried.contains(&node) {
                choices.tried.push(node);
                return outcome;
            }
        }
        let remaining = self.members.len() - at - 1;
        let may_skip = !choices.skipped && self.n_placed() + remaining >= self.min;
        choices.skipped = true;
        let message = "it fits only where the other members of its group do not fit".to_owned();
        let failure = choices.failure.take();
        let skip = || failure.unwrap_or(Outcome::Unschedulable { message, plugins: Vec::new() });
        may_skip.then(skip)
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

    /// Whether all rules of each member hold with the others in their places.
    fn is_valid(&mut self) -> bool {
        let placed = self.members.iter().map(|member| &member.valid).zip(&self.outcomes);
        let broken = self.by.broken(placed);
        let is_valid = broken.is_none();
        if let Some((at, outcome)) = broken {
            self.failed(at, outcome);
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
        if on {
            self.state.assign(pod, node);
        } else {
            self.state.forget(pod);
        }
    }
}
