//! Equal members among the nodes of one domain, where only what is on a node decides how many of them it takes.
//!
//! The nodes are evaluated once. Each member goes to the best of them, which alone is then evaluated again with it, hypothetically: the
//! choices are those of single decisions, and the state is not touched.

use super::matches;
use crate::cycle::context::{Context, CycleState};
use crate::cycle::equivalence::Equivalence;
use crate::cycle::nomination::Nominations;
use crate::cycle::what_if::{NodeWhatIf, RelevantMatchers};
use crate::decision::{Outcome, Run, Scored};
use crate::plugins::{self, Reads};
use crate::state::State;
use crate::state::counting::topology::TopologyId;
use crate::state::node::NodeId;
use crate::state::pod::prepared::PreparedPod;

/// A node that takes another member.
struct Place<'a> {
    id: NodeId,
    name: &'a str,
    /// With the members that go there, if any does.
    with_members: Option<NodeWhatIf<'a>>,
    /// Of the rules that do not read which pods run.
    score: i64,
    /// None once it takes no more.
    total: Option<i64>,
}

/// Whether pods are equal for all decisions.
pub(super) fn are_equal<'a>(state: &State, mut pods: impl Iterator<Item = &'a PreparedPod>) -> bool {
    let Some(first) = pods.next() else { return false };
    let kind = Equivalence::of(state, first);
    let needs = |pod: &'a PreparedPod| (pod.rule_set, pod.label_set, &pod.volumes, &pod.devices, &pod.gates);
    pods.all(|pod| needs(pod) == needs(first) || Equivalence::of(state, pod) == kind)
}

/// The topologies in which pods that are equal to this one keep apart, with how many of them may share a domain.
pub(super) fn kept_apart_in(state: &State, pod: &PreparedPod) -> impl Iterator<Item = (TopologyId, u32)> {
    let terms = state.rule_sets.get(pod.rule_set).required_anti_affinity.iter();
    let own = terms.filter(|term| matches(state, pod, term.matcher));
    own.flat_map(|term| term.topologies.iter().map(|topology| (*topology, term.limit)))
}

/// Whether only what is on a node decides how many pods it takes that are equal to this one: none of them wait for objects, and each
/// domain in which they keep apart is a node.
pub(super) fn are_decided_by_node(state: &State, pod: &PreparedPod) -> bool {
    let has_objects = pod.volumes.is_some() || pod.devices.is_some();
    !has_objects && kept_apart_in(state, pod).all(|(topology, _)| !state.topologies.is_shared(topology))
}

/// Where `n` pods go that are equal to this one, as many of them as these nodes take. None if they read more of each other than which
/// are on their node, or if their scores depend on each other.
pub(super) fn place(
    state: &State,
    nominations: &Nominations,
    pod: &PreparedPod,
    n: usize,
    nodes: &[NodeId],
) -> Option<Vec<Outcome>> {
    let mut affinity = state.rule_sets.get(pod.rule_set).required_affinity.iter();
    if !are_decided_by_node(state, pod)
        || affinity.any(|term| matches(state, pod, term.matcher))
        || !state.spread_of(pod).is_empty()
        || !pod.gates.is_empty()
        || !nominations.is_empty()
    {
        return None;
    }
    let cycle = CycleState::new(state, nominations, pod);
    let context = Context::new(state, &cycle)?;
    let run = Run::on(context, Some(nodes));
    if run.error.is_some() {
        return None;
    }
    let scorers = run.scorers.as_deref().ok().filter(|scorers| scorers.iter().all(is_of_node))?;
    let relevant = RelevantMatchers::new(context);
    let of_usage = || scorers.iter().filter(|scored| reads(scored).any_of(Reads::NODE_USAGE));
    let mut places: Vec<Place<'_>> = run
        .feasible
        .iter()
        .enumerate()
        .map(|(at, id)| {
            let by_usage: i64 = of_usage().map(|scored| scored.scores[at]).sum();
            let total = run.totals[at];
            Place {
                id: *id,
                name: state.node_name(*id),
                with_members: None,
                score: total - by_usage,
                total: Some(total),
            }
        })
        .collect();
    places.sort_unstable_by_key(|place| place.name);
    let rule_set = pod.rule_set;
    let signature = state.label_sets.get(pod.label_set).signature;
    let mut outcomes = Vec::with_capacity(n);
    while outcomes.len() < n {
        // The first by name of those with the highest score.
        let best = places.iter_mut().rev().max_by_key(|place| place.total);
        let Some(place) = best.filter(|place| place.total.is_some()) else { break };
        let name = place.name.to_owned();
        outcomes.push(Outcome::Placed { node: name, score: place.total, volumes: None, devices: None });
        let with_members = place.with_members.get_or_insert_with(|| relevant.on(place.id));
        with_members.change(rule_set, signature, None, None, 1);
        let node = with_members.node();
        if run.filters.iter().all(|(_, filter)| filter.admits(node)) {
            let by_usage = of_usage().map(|scored| scored.weight * scored.scorer.score(node));
            place.total = Some(place.score + by_usage.sum::<i64>());
        } else {
            place.total = None;
        }
    }
    Some(outcomes)
}

fn reads(scored: &Scored<'_>) -> Reads {
    plugins::rule(scored.plugin).map_or(Reads::NODE, |rule| rule.reads)
}

/// Whether a member on a node changes the scores of that node only. Scores that are normalized by the highest are the same when a
/// node is full if they are all equal.
fn is_of_node(scored: &Scored<'_>) -> bool {
    let is_equal = || scored.scores.windows(2).all(|two| two[0] == two[1]);
    let of_node = Reads::NODE.and(Reads::NODE_USAGE).and(Reads::IMAGES);
    let is_normalized = plugins::rule(scored.plugin).is_some_and(|rule| rule.has_raw_scores());
    reads(scored).only(of_node) && (!is_normalized || is_equal())
}
