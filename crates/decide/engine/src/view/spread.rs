//! Spread constraints of one rule set, with their pods counted per domain as nodes change.

use std::collections::BTreeMap;

use berth_api::config::Plugin;
use berth_api::rules::WhenUnsatisfiable;
use rustc_hash::FxHashMap;

use super::cells::Features;
use crate::context::Context;
use crate::plugins::pod_topology_spread::HOSTNAME;
use crate::state::State;
use crate::state::node::{NodeId, NodeRecord};
use crate::state::spread::Spread;
use crate::state::topology::{DomainId, TopologyId};

/// A constraint and its counts.
pub(super) struct Constraint {
    /// Index in the pod's constraints.
    index: usize,
    pub(super) topology: TopologyId,
    pub(super) hard: bool,
    /// Whether pods are counted by node, as a feature of the node, and not by the domain of its cell.
    pub(super) by_node: bool,
    pub(super) max_skew: i64,
    pub(super) self_match: i64,
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
    pub(super) fn all(context: Context<'_>) -> Vec<Constraint> {
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
    pub(super) fn n_pods_in(&self, domain: DomainId) -> i64 {
        self.domains.get(&domain).map_or(0, |d| d.n_pods.into())
    }

    /// Whether the skew is too large with one more pod in a domain with `n_pods` matching pods.
    pub(super) fn exceeds_skew(&self, n_pods: i64) -> bool {
        let minimum = self.by_pods.first_key_value().map_or(i32::MAX, |(n, _)| *n);
        let minimum = if (self.domains.len() as i64) < self.min_domains { 0 } else { minimum.into() };
        n_pods + self.self_match - minimum > self.max_skew
    }
}

/// All constraints of a rule set.
pub(super) struct Constraints {
    pub(super) all: Vec<Constraint>,
    /// Soft constraints skip nodes that lack one of their keys; kube-scheduler's defaults do not.
    require_all: bool,
}

impl Constraints {
    pub(super) fn new(context: Context<'_>) -> Constraints {
        Constraints { all: Constraint::all(context), require_all: !context.cycle.system_spread }
    }

    /// Counts a node as it is now, and sets its features. Returns whether it has the keys of all hard constraints.
    pub(super) fn count_node(
        &mut self,
        context: Context<'_>,
        id: NodeId,
        node: Option<&NodeRecord>,
        features: &mut Features,
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
        features.spread.clear();
        for constraint in &mut self.all {
            let spread = &context.cycle.spread[constraint.index];
            let n_pods = spread.n_pods_on(state, id);
            if constraint.by_node && !constraint.hard {
                let domain = state.topologies.domain(constraint.topology, id);
                features.spread.push(domain.map(|_| n_pods));
                continue;
            }
            let eligible = if constraint.hard { has_hard } else { has_soft };
            let counted = node.is_some_and(|node| eligible && spread.includes(context, node)).then(|| {
                let domain = state.topologies.domain(constraint.topology, id);
                (domain.unwrap_or(DomainId(state.empty.0)), n_pods as i32)
            });
            constraint.count(id, counted, state.nodes.len());
            if constraint.by_node {
                features.spread.push(Some(counted.map_or(0, |(_, n)| n.into())));
            }
        }
        has_hard
    }

    /// The domain of a cell, for a soft constraint.
    pub(super) fn soft_domain(&self, state: &State, domain: Option<DomainId>) -> Option<DomainId> {
        if self.require_all { domain } else { domain.or(Some(DomainId(state.empty.0))) }
    }
}
