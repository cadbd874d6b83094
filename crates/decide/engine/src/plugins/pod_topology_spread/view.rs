//! The part of a view: the constraints of one rule set, with their pods counted per domain as nodes change.

use std::collections::BTreeMap;

use berth_api::syntax::labels::HOSTNAME;
use berth_input::config::Plugin;
use berth_rules::WhenUnsatisfiable;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::super::rule::MAX_NODE_SCORE;
use super::natural_logarithm::natural_logarithm;
use crate::cycle::context::Context;
use crate::state::State;
use crate::state::counting::topology::{DomainId, TopologyId};
use crate::state::node::{NodeId, NodeRecord};
use crate::state::rule_set::spread::Spread;

/// What a view keeps of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodeFeatures {
    /// Matching pods of the constraints that count by node; `None` if the node lacks the key.
    pub(crate) n_pods: SmallVec<[Option<i64>; 2]>,
    /// Whether the node lacks a key of a soft constraint: it scores 0.
    pub(crate) ignored: bool,
}

/// A constraint and its counts.
pub(crate) struct Constraint {
    /// Index in the pod's constraints.
    index: usize,
    pub(crate) topology: TopologyId,
    hard: bool,
    /// Whether pods are counted by node, as a feature of the node, and not by the domain of its cell.
    pub(crate) by_node: bool,
    max_skew: i64,
    self_match: i64,
    min_domains: i64,
    domains: FxHashMap<DomainId, Domain>,
    /// Number of domains by number of pods.
    by_pods: BTreeMap<i32, usize>,
    /// The domain in which each node is counted, and the pods it adds. Indexed by node id.
    nodes: Vec<(DomainId, i32)>,
}

/// A node that does not count.
const NOT_COUNTED: (DomainId, i32) = (DomainId(u32::MAX), 0);

#[derive(Default)]
struct Domain {
    n_nodes: u32,
    n_pods: i32,
}

impl Constraint {
    /// The constraints that the profile evaluates.
    fn all(context: Context<'_>) -> Vec<Constraint> {
        let profile = &context.profile.profile;
        let filters = profile.filter.contains(&Plugin::PodTopologySpread);
        let scores = profile.score.iter().any(|(p, _)| *p == Plugin::PodTopologySpread);
        let constraint = |(index, spread): (usize, &Spread)| {
            let rule = &spread.constraint;
            let hard = rule.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
            let single = !context.state.topologies.is_shared(spread.topology);
            let constraint = Constraint {
                index,
                topology: spread.topology,
                hard,
                by_node: if hard { single } else { rule.topology_key == HOSTNAME },
                max_skew: rule.max_skew,
                self_match: spread.self_match,
                min_domains: rule.min_domains,
                domains: FxHashMap::default(),
                by_pods: BTreeMap::new(),
                nodes: Vec::new(),
            };
            (if hard { filters } else { scores }).then_some(constraint)
        };
        context.cycle.spread.iter().enumerate().filter_map(constraint).collect()
    }

    /// Counts a node with its pods in its current domain; `None` for nodes that do not count.
    fn count(&mut self, node: NodeId, now: Option<(DomainId, i32)>, n_nodes: usize) {
        let index = node.0 as usize;
        if self.nodes.len() <= index {
            self.nodes.resize(n_nodes.max(index + 1), NOT_COUNTED);
        }
        let now = now.unwrap_or(NOT_COUNTED);
        let before = std::mem::replace(&mut self.nodes[index], now);
        if before == now {
            return;
        }
        for ((domain, n_pods), sign) in [(before, -1), (now, 1)] {
            if domain != NOT_COUNTED.0 {
                self.change(domain, sign, sign * n_pods);
            }
        }
    }

    fn change(&mut self, id: DomainId, n_nodes: i32, n_pods: i32) {
        let domain = self.domains.entry(id).or_default();
        if let Some(n) = self.by_pods.get_mut(&domain.n_pods).filter(|_| domain.n_nodes > 0) {
            *n -= 1;
            if *n == 0 {
                self.by_pods.remove(&domain.n_pods);
            }
        }
        domain.n_nodes = domain.n_nodes.wrapping_add_signed(n_nodes);
        domain.n_pods += n_pods;
        if domain.n_nodes == 0 {
            self.domains.remove(&id);
        } else if self.hard {
            *self.by_pods.entry(domain.n_pods).or_default() += 1;
        }
    }

    /// Matching pods in a domain, on nodes that count.
    fn n_pods_in(&self, domain: DomainId) -> i64 {
        self.domains.get(&domain).map_or(0, |d| d.n_pods.into())
    }

    /// Whether the skew is too large with one more pod in a domain with `n_pods` matching pods.
    fn exceeds_skew(&self, n_pods: i64) -> bool {
        let minimum = self.by_pods.first_key_value().map_or(i32::MAX, |(n, _)| *n);
        let minimum = if (self.domains.len() as i64) < self.min_domains { 0 } else { minimum.into() };
        n_pods + self.self_match - minimum > self.max_skew
    }
}

/// All constraints of a rule set.
pub(crate) struct Constraints {
    pub(crate) all: Vec<Constraint>,
    /// Soft constraints skip nodes that lack one of their keys; kube-scheduler's defaults do not.
    require_all: bool,
    /// Of the score; 0 without it.
    weight: i64,
}

/// Feasible nodes with equal features in the same domains.
pub(crate) struct FeasibleGroup<'a> {
    pub(crate) features: &'a NodeFeatures,
    pub(crate) n_nodes: usize,
    /// In the shared topologies of the view.
    pub(crate) domains: &'a [Option<DomainId>],
}

/// The weighted scores of groups of feasible nodes.
#[derive(Default)]
pub(crate) struct Scores {
    weight: i64,
    /// Raw scores; none of a group that is ignored. Empty without soft constraints.
    raw: Vec<Option<i64>>,
    min: i64,
    max: i64,
}

impl Scores {
    /// The score of a group: fewer matching pods are better.
    pub(crate) fn of(&self, group: usize) -> i64 {
        match self.raw.get(group) {
            None | Some(None) => 0,
            Some(_) if self.max == 0 => self.weight * MAX_NODE_SCORE,
            Some(Some(raw)) => self.weight * (MAX_NODE_SCORE * (self.max + self.min - raw) / self.max),
        }
    }
}

impl Constraints {
    pub(crate) fn new(context: Context<'_>) -> Constraints {
        let mut score = context.profile.profile.score.iter();
        let weight = score.find(|(p, _)| *p == Plugin::PodTopologySpread).map_or(0, |(_, weight)| *weight);
        Constraints { all: Constraint::all(context), require_all: !context.cycle.system_spread, weight }
    }

    /// Counts a node as it is now, and sets its features. Returns whether it has the keys of all hard constraints.
    pub(crate) fn count_node(
        &mut self,
        context: Context<'_>,
        id: NodeId,
        node: Option<&NodeRecord>,
        features: &mut NodeFeatures,
    ) -> bool {
        if self.all.is_empty() {
            return true;
        }
        let state = context.state;
        let has_all = |hard: bool| {
            let mut constraints = self.all.iter().filter(|c| c.hard == hard);
            constraints.all(|c| state.topologies.domain(c.topology, id).is_some())
        };
        let (has_hard, has_soft) = (has_all(true), has_all(false) || !self.require_all);
        features.ignored = !has_soft;
        features.n_pods.clear();
        for constraint in &mut self.all {
            let spread = &context.cycle.spread[constraint.index];
            let n_pods = spread.n_pods_on(state, id);
            if constraint.by_node && !constraint.hard {
                let domain = state.topologies.domain(constraint.topology, id);
                features.n_pods.push(domain.map(|_| n_pods));
                continue;
            }
            let eligible = if constraint.hard { has_hard } else { has_soft };
            let counted = node.is_some_and(|node| eligible && spread.includes(context, node)).then(|| {
                let domain = state.topologies.domain(constraint.topology, id);
                (domain.unwrap_or(DomainId(state.empty.0)), n_pods as i32)
            });
            constraint.count(id, counted, state.nodes.len());
            if constraint.by_node {
                features.n_pods.push(Some(counted.map_or(0, |(_, n)| n.into())));
            }
        }
        has_hard
    }

    fn hard(&self) -> impl Iterator<Item = &Constraint> {
        self.all.iter().filter(|c| c.hard)
    }

    fn soft(&self) -> impl Iterator<Item = &Constraint> {
        self.all.iter().filter(|c| !c.hard)
    }

    /// The constraints that count by node, with the pods of a node.
    fn by_node<'a>(
        &'a self,
        features: &'a NodeFeatures,
    ) -> impl Iterator<Item = (&'a Constraint, &'a Option<i64>)> {
        self.all.iter().filter(|c| c.by_node).zip(&features.n_pods)
    }

    /// Whether one more pod in the domains of a cell exceeds the skew of a hard constraint.
    pub(crate) fn exceeds_skew_in(&self, domain: impl Fn(TopologyId) -> Option<DomainId>) -> bool {
        self.hard().filter(|c| !c.by_node).any(|c| {
            let n_pods = domain(c.topology).map_or(0, |d| c.n_pods_in(d));
            c.exceeds_skew(n_pods)
        })
    }

    /// Whether one more pod on a node exceeds the skew of a hard constraint that counts by node.
    pub(crate) fn exceeds_skew_on(&self, features: &NodeFeatures) -> bool {
        let mut by_node = self.by_node(features).filter(|(c, _)| c.hard);
        by_node.any(|(c, n_pods)| c.exceeds_skew(n_pods.unwrap_or(0)))
    }

    /// The scores of `n` groups. `topologies` are the shared ones of the view.
    pub(crate) fn scores<'a>(
        &self,
        state: &State,
        topologies: &[TopologyId],
        n: usize,
        group: impl Fn(usize) -> FeasibleGroup<'a>,
    ) -> Scores {
        if self.soft().next().is_none() {
            return Scores::default();
        }
        let domain = |group: &FeasibleGroup<'_>, topology: TopologyId| {
            let position = topologies.iter().position(|t| *t == topology)?;
            group.domains[position]
        };
        let considered = || (0..n).map(&group).filter(|group| !group.features.ignored);
        let weights = self.soft().map(|c| {
            let n_domains = if c.by_node {
                considered().map(|group| group.n_nodes).sum()
            } else {
                let domains = considered().map(|group| self.soft_domain(state, domain(&group, c.topology)));
                domains.collect::<FxHashSet<_>>().len()
            };
            natural_logarithm((n_domains + 2) as f64)
        });
        let weights: SmallVec<[f64; 4]> = weights.collect();
        let raw = |group: FeasibleGroup<'_>| {
            if group.features.ignored {
                return None;
            }
            let mut by_node =
                self.by_node(group.features).filter(|(c, _)| !c.hard).map(|(_, n_pods)| *n_pods);
            let mut score = 0.0;
            for (constraint, weight) in self.soft().zip(&weights) {
                let n_pods = if constraint.by_node {
                    by_node.next().flatten()
                } else {
                    domain(&group, constraint.topology).map(|d| constraint.n_pods_in(d))
                };
                if let Some(n_pods) = n_pods {
                    score += n_pods as f64 * weight + (constraint.max_skew - 1) as f64;
                }
            }
            Some(score.round() as i64)
        };
        let raw: Vec<Option<i64>> = (0..n).map(&group).map(raw).collect();
        let scored = || raw.iter().copied().flatten();
        let (min, max) = (scored().min().unwrap_or(i64::MAX), scored().max().unwrap_or(0));
        Scores { weight: self.weight, raw, min, max }
    }

    /// The domain of a cell, for a soft constraint.
    fn soft_domain(&self, state: &State, domain: Option<DomainId>) -> Option<DomainId> {
        if self.require_all { domain } else { domain.or(Some(DomainId(state.empty.0))) }
    }
}
