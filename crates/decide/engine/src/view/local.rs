//! The rules that read a node alone.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use smallvec::SmallVec;

use super::cells::RawScores;
use crate::cycle::context::{Context, NodeRef};
use crate::plugins::{self, Filter, RAW_SCORES, Reads, Scorer};
use crate::state::State;
use crate::state::node::{NodeId, NodeRecord};
use crate::verdict::Status;

/// Filters and scorers that read a node alone. Rules that read counters have their part of the view instead.
pub(super) struct LocalRules<'a> {
    state: &'a State,
    /// Rules that read more than equal nodes have in common: labels, names or volumes.
    of_node: Rules<'a>,
    of_equal_nodes: Rules<'a>,
    /// The weights of the rules of [`RAW_SCORES`]; 0 for those that do not score the pod.
    pub(super) weights: RawScores,
    /// Results of the rules of equal nodes, by the hash of what they read.
    results: Vec<Option<(NodeId, Result)>>,
}

#[derive(Default)]
struct Rules<'a> {
    filters: SmallVec<[Box<dyn Filter + 'a>; 6]>,
    /// Scorers whose scores are normalized, with the place of their raw scores.
    raw: SmallVec<[(usize, Box<dyn Scorer + 'a>); 1]>,
    /// Scorers whose scores are not normalized, with their weights.
    others: SmallVec<[(i64, Box<dyn Scorer + 'a>); 3]>,
}

/// The raw scores that are normalized, and the sum of the scores that are not; `None` if a filter rejects.
type Result = Option<(RawScores, i64)>;

/// Results that are kept while all nodes are checked.
const N_RESULTS: usize = 1 << 10;

impl<'a> LocalRules<'a> {
    /// With `all_nodes`, results are kept for equal nodes: most of a cluster's nodes are alike.
    pub(super) fn new(context: Context<'a>, all_nodes: bool) -> LocalRules<'a> {
        let mut rules = LocalRules {
            state: context.state,
            of_node: Rules::default(),
            of_equal_nodes: Rules::default(),
            weights: RawScores::default(),
            results: if all_nodes { vec![None; N_RESULTS] } else { Vec::new() },
        };
        let profile = &context.profile.profile;
        for rule in profile.filter.iter().filter_map(|plugin| plugins::rule(*plugin)) {
            if let Some(group) = rules.group_of(rule.reads) {
                group.filters.extend((rule.filter)(context));
            }
        }
        for (plugin, weight) in &profile.score {
            let Some(rule) = plugins::rule(*plugin) else { continue };
            let Some(group) = rules.group_of(rule.reads) else { continue };
            let Some(scorer) = (rule.scorer)(context, &[]) else { continue };
            match RAW_SCORES.iter().position(|(normalized, _)| normalized == plugin) {
                Some(place) => {
                    group.raw.push((place, scorer));
                    rules.weights[place] = *weight;
                }
                None => group.others.push((*weight, scorer)),
            }
        }
        rules
    }

    /// Whether a rejection can be an error.
    pub(super) fn can_fail(&self) -> bool {
        self.of_node.filters.iter().any(|filter| filter.can_fail())
    }

    /// Whether a rule cannot be evaluated on a node.
    pub(super) fn fails(&self, node: NodeRef<'_>) -> bool {
        let mut filters = self.of_node.filters.iter().filter(|filter| filter.can_fail());
        filters.any(|filter| filter.check(node).is_some_and(|rejection| rejection.status == Status::Error))
    }

    /// The group of a rule; none if it reads counters.
    fn group_of(&mut self, reads: Reads) -> Option<&mut Rules<'a>> {
        match reads {
            _ if reads.only(Reads::EQUAL_NODES) => Some(&mut self.of_equal_nodes),
            _ if reads.any_of(Reads::COUNTERS) => None,
            _ => Some(&mut self.of_node),
        }
    }

    /// Sets the raw scores of a node that are normalized, and returns the sum of the scores that are not; `None` if a
    /// filter rejects the node.
    pub(super) fn score(&mut self, node: NodeRef<'_>, raw_scores: &mut RawScores) -> Option<i64> {
        if !self.of_node.admit(node) {
            return None;
        }
        let sum = if self.results.is_empty() {
            self.of_equal_nodes.score_feasible(node, raw_scores)
        } else {
            self.score_once(node, raw_scores)
        };
        Some(sum? + self.of_node.score(node, raw_scores))
    }

    /// The result of the rules of equal nodes, which is that of an equal node if one was scored.
    fn score_once(&mut self, node: NodeRef<'_>, raw_scores: &mut RawScores) -> Option<i64> {
        let result = &mut self.results[hash(node.record) as usize % N_RESULTS];
        match result {
            Some((id, result)) if is_like(self.state.nodes.get(*id), node.record) => {
                let (raw, sum) = (*result)?;
                *raw_scores = raw;
                Some(sum)
            }
            _ => {
                let sum = self.of_equal_nodes.score_feasible(node, raw_scores);
                *result = Some((node.id, sum.map(|sum| (*raw_scores, sum))));
                sum
            }
        }
    }
}

impl Rules<'_> {
    fn admit(&self, node: NodeRef<'_>) -> bool {
        self.filters.iter().all(|f| f.admits(node))
    }

    /// Sets the raw scores that are normalized, and returns the sum of the others.
    fn score(&self, node: NodeRef<'_>, raw_scores: &mut RawScores) -> i64 {
        for (place, scorer) in &self.raw {
            raw_scores[*place] = scorer.score(node);
        }
        self.others.iter().map(|(weight, s)| weight * s.score(node)).sum()
    }

    fn score_feasible(&self, node: NodeRef<'_>, raw_scores: &mut RawScores) -> Option<i64> {
        self.admit(node).then(|| self.score(node, raw_scores))
    }
}

fn hash(node: &NodeRecord) -> u64 {
    let mut hasher = FxHasher::default();
    (node.allocatable_id, node.requested.milli_cpu, node.requested.memory).hash(&mut hasher);
    (node.pods.len(), node.taints.first().map(|taint| taint.key)).hash(&mut hasher);
    hasher.finish()
}

/// Whether two nodes are equal in everything that [`Reads::EQUAL_NODES`] stands for.
fn is_like(a: &NodeRecord, b: &NodeRecord) -> bool {
    let NodeRecord {
        name: _,
        labels: _,
        attributes_epoch: _,
        unschedulable,
        declared_features,
        taints,
        allocatable: _,
        allocatable_id,
        images,
        requested,
        non_zero_milli_cpu,
        non_zero_memory,
        ports,
        pods,
    } = a;
    (*unschedulable, *allocatable_id, pods.len()) == (b.unschedulable, b.allocatable_id, b.pods.len())
        && *declared_features == b.declared_features
        && (*non_zero_milli_cpu, *non_zero_memory) == (b.non_zero_milli_cpu, b.non_zero_memory)
        && *requested == b.requested
        && (taints, images, ports) == (&b.taints, &b.images, &b.ports)
}
