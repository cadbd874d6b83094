//! Constraints with `ScheduleAnyway`: the score.

use berth_api::syntax::labels::HOSTNAME;
use berth_rules::WhenUnsatisfiable;
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::rule::{MAX_NODE_SCORE, Scorer};
use super::constraints::{constraints, has_all_keys};
use super::natural_logarithm::natural_logarithm;
use crate::cycle::context::{Context, NodeRef};
use crate::state::State;
use crate::state::counting::topology::DomainId;
use crate::state::node::NodeId;
use crate::state::rule_set::spread::Spread;

struct ScheduleAnyway<'a> {
    context: Context<'a>,
    constraints: Vec<Weighted<'a>>,
    /// Feasible nodes without a topology key; they score 0.
    ignored: FxHashSet<NodeId>,
}

/// A constraint with the matching pods of each domain of the feasible nodes.
struct Weighted<'a> {
    spread: &'a Spread,
    per_node: bool,
    by_domain: FxHashMap<DomainId, i64>,
    /// Grows with the number of domains, so that small topologies count beside large ones.
    weight: f64,
}

pub(super) fn scorer<'a>(context: Context<'a>, feasible: &[NodeId]) -> Option<Box<dyn Scorer + 'a>> {
    let state = context.state;
    let constraints = constraints(context, WhenUnsatisfiable::ScheduleAnyway);
    if constraints.is_empty() {
        return None;
    }
    // The default constraints of kube-scheduler still spread by hostname if nodes have no zone.
    let require_all = !context.cycle.system_spread;
    // A missing label counts as an empty one.
    let domain = |spread: &Spread, node| {
        state.topologies.domain(spread.topology, node).unwrap_or(DomainId(state.empty.0))
    };
    let mut weighted: Vec<_> = constraints
        .iter()
        .map(|spread| Weighted {
            spread,
            per_node: spread.constraint.topology_key == HOSTNAME,
            by_domain: FxHashMap::default(),
            weight: 0.0,
        })
        .collect();

    let mut ignored = FxHashSet::default();
    for node in feasible {
        if require_all && !has_all_keys(state, &constraints, *node) {
            ignored.insert(*node);
            continue;
        }
        for w in weighted.iter_mut().filter(|w| !w.per_node) {
            w.by_domain.entry(domain(w.spread, *node)).or_insert(0);
        }
    }
    for w in &mut weighted {
        let n_domains = if w.per_node { feasible.len() - ignored.len() } else { w.by_domain.len() };
        w.weight = natural_logarithm((n_domains + 2) as f64);
    }
    if weighted.iter().any(|w| !w.per_node) {
        for (id, node) in state.nodes.iter() {
            if require_all && !has_all_keys(state, &constraints, id) {
                continue;
            }
            for w in weighted.iter_mut().filter(|w| !w.per_node) {
                if let Some(count) = w.by_domain.get_mut(&domain(w.spread, id))
                    && w.spread.includes(context, node)
                {
                    *count += w.spread.n_pods_on(state, id);
                }
            }
        }
    }
    Some(Box::new(ScheduleAnyway { context, constraints: weighted, ignored }))
}

impl Weighted<'_> {
    /// Matching pods in the node's domain; none if it lacks the key.
    fn n_pods(&self, state: &State, node: NodeId) -> Option<i64> {
        let domain = state.topologies.domain(self.spread.topology, node)?;
        if self.per_node {
            return Some(self.spread.n_pods_on(state, node));
        }
        Some(self.by_domain.get(&domain).copied().unwrap_or(0))
    }
}

impl Scorer for ScheduleAnyway<'_> {
    /// Weighted number of matching pods: fewer is better.
    fn score(&self, node: NodeRef<'_>) -> i64 {
        if self.ignored.contains(&node.id) {
            return 0;
        }
        let mut score = 0.0;
        for w in &self.constraints {
            if let Some(n_pods) = w.n_pods(self.context.state, node.id) {
                score += n_pods as f64 * w.weight + (w.spread.constraint.max_skew - 1) as f64;
            }
        }
        score.round() as i64
    }

    fn normalize(&self, nodes: &[NodeId], scores: &mut [i64]) {
        let considered =
            || nodes.iter().zip(&*scores).filter(|(n, _)| !self.ignored.contains(n)).map(|(_, s)| *s);
        let min = considered().min().unwrap_or(i64::MAX);
        let max = considered().max().unwrap_or(0).max(0);
        for (node, score) in nodes.iter().zip(scores) {
            *score = match max {
                _ if self.ignored.contains(node) => 0,
                0 => MAX_NODE_SCORE,
                _ => MAX_NODE_SCORE * (max + min - *score) / max,
            };
        }
    }

    fn parts(&self, node: NodeRef<'_>) -> Vec<(String, i64)> {
        if self.ignored.contains(&node.id) {
            return vec![("the node lacks a topology key of the constraints".to_owned(), 0)];
        }
        let part = |w: &Weighted<'_>| {
            let n_pods = w.n_pods(self.context.state, node.id)?;
            let constraint = &w.spread.constraint;
            Some((format!("matching pods per {} ({})", constraint.topology_key, constraint.path), n_pods))
        };
        self.constraints.iter().filter_map(part).collect()
    }
}
