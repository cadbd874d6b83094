//! The distinct spread constraints of running pods, with the pods of each domain.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_rules::WhenUnsatisfiable;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Class, ClassId};
use crate::cycle::context::{Context, CycleState};
use crate::state::State;
use crate::state::counting::matcher::MatcherId;
use crate::state::counting::topology::{DomainId, TopologyId};
use crate::state::node::NodeId;
use crate::state::pod::signature::SignatureId;
use crate::state::rule_set::spread::Spread;

/// The nodes whose pods a constraint counts.
#[derive(PartialEq, Eq, Hash)]
struct Included {
    nodes: Vec<NodeId>,
    n_domains: usize,
}

/// What constraints are distinguished by: nodes are the same where these are.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    matcher: MatcherId,
    topology: TopologyId,
    max_skew: i64,
    min_domains: i64,
    is_hard: bool,
    included: Arc<Included>,
}

pub(super) struct Constraint {
    key: Key,
    is_included: FxHashSet<NodeId>,
    /// The domains with pods that count.
    n_pods: FxHashMap<DomainId, i64>,
    /// How many of these domains have how many pods.
    n_domains: BTreeMap<i64, usize>,
    /// The pods with the constraint by domain, if it is hard.
    owners: FxHashMap<DomainId, u32>,
}

#[derive(Default)]
struct Hard {
    /// The constraints, and 1 if the pods of the class count for them.
    constraints: Vec<(usize, i64)>,
    /// The topologies in which a node must have a domain.
    topologies: Vec<TopologyId>,
}

impl Hard {
    fn has(&self, constraint: usize) -> bool {
        self.constraints.iter().any(|(at, _)| *at == constraint)
    }
}

/// All constraints.
pub(super) struct SpreadTable {
    pub(super) constraints: Vec<Constraint>,
    /// Those for which pods of a signature count.
    counted: FxHashMap<SignatureId, Vec<usize>>,
    /// What is hard for each class.
    hard: Vec<Hard>,
    /// The sum of what is above `maxSkew`.
    pub(super) excess: i64,
}

impl SpreadTable {
    pub(super) fn new(state: &State, classes: &[Class]) -> SpreadTable {
        let (mut by_key, mut sets) = (FxHashMap::default(), FxHashMap::default());
        let mut constraints: Vec<Constraint> = Vec::new();
        let mut all_hard = Vec::with_capacity(classes.len());
        for class in classes {
            let mut hard = Hard::default();
            for (spread, key) in keys(state, class, &mut sets) {
                let is_hard = is_hard(&spread);
                if is_hard {
                    hard.topologies.push(spread.topology);
                }
                let Some(key) = key else { continue };
                let at = *by_key.entry(key).or_insert_with_key(|key| {
                    constraints.push(Constraint::new(state, key.clone()));
                    constraints.len() - 1
                });
                if is_hard {
                    hard.constraints.push((at, spread.self_match));
                    let Constraint { key, owners, .. } = &mut constraints[at];
                    for (node, place) in &class.places {
                        if let Some(domain) = state.topologies.domain(key.topology, *node) {
                            *owners.entry(domain).or_default() += place.n_pods;
                        }
                    }
                }
            }
            all_hard.push(hard);
        }
        let mut by_matcher: FxHashMap<MatcherId, Vec<usize>> = FxHashMap::default();
        for (at, constraint) in constraints.iter().enumerate() {
            by_matcher.entry(constraint.key.matcher).or_default().push(at);
        }
        let counted = classes.iter().map(|class| {
            let signature = class.likeness.signature;
            let matched = state.signatures.get(signature).matched.iter();
            (signature, matched.filter_map(|matcher| by_matcher.get(matcher)).flatten().copied().collect())
        });
        let counted = counted.collect();
        let excess = constraints.iter().map(Constraint::excess).sum();
        SpreadTable { constraints, counted, hard: all_hard, excess }
    }

    /// A pod has gone from one node to another. Returns whether all hard constraints of other pods hold that held before.
    pub(super) fn shift(
        &mut self,
        state: &State,
        signature: SignatureId,
        class: ClassId,
        from: NodeId,
        to: NodeId,
    ) -> bool {
        let mut all_hold = true;
        for at in self.counted.get(&signature).into_iter().flatten() {
            let constraint = &mut self.constraints[*at];
            let is_owner = self.hard[class].has(*at);
            self.excess -= constraint.excess();
            all_hold &= constraint.shift(state, is_owner, from, to);
            self.excess += constraint.excess();
        }
        for (at, _) in &self.hard[class].constraints {
            let Constraint { key, owners, .. } = &mut self.constraints[*at];
            for (node, sign) in [(from, -1), (to, 1)] {
                if let Some(domain) = state.topologies.domain(key.topology, node) {
                    let n_owners = owners.entry(domain).or_default();
                    *n_owners = n_owners.saturating_add_signed(sign);
                }
            }
        }
        all_hold
    }

    /// Whether the filter admits a pod of a class that leaves one node for another.
    pub(super) fn admits(&self, state: &State, class: ClassId, from: NodeId, to: NodeId) -> bool {
        let Hard { constraints, topologies } = &self.hard[class];
        topologies.iter().all(|topology| state.topologies.domain(*topology, to).is_some())
            && constraints
                .iter()
                .all(|(at, self_match)| self.constraints[*at].admits(state, *self_match, from, to))
    }

    pub(super) fn counts(&self, signature: SignatureId, constraint: usize) -> bool {
        self.counted.get(&signature).is_some_and(|counted| counted.contains(&constraint))
    }
}

/// The constraints of a class: its topology, whether its pods count, and what it is distinguished by unless it counts no pods. kube-scheduler's
/// own defaults are left out.
fn keys(
    state: &State,
    class: &Class,
    sets: &mut FxHashMap<Arc<Included>, Arc<Included>>,
) -> Vec<(Spread, Option<Key>)> {
    if state.has_system_spread(&class.pod) {
        return Vec::new();
    }
    let cycle = CycleState::without_nominated(state, &class.pod);
    let Some(context) = Context::with_any_profile(state, &cycle) else { return Vec::new() };
    let mut key = |spread: &Spread| {
        let constraint = &spread.constraint;
        let has_all_keys = |node| {
            let mut together = cycle.spread.iter();
            together.all(|other| {
                other.constraint.when_unsatisfiable != constraint.when_unsatisfiable
                    || state.topologies.domain(other.topology, node).is_some()
            })
        };
        let nodes = state.nodes.iter();
        let nodes = nodes.filter(|(id, node)| has_all_keys(*id) && spread.includes(context, node));
        let nodes: Vec<NodeId> = nodes.map(|(id, _)| id).collect();
        let domains = nodes.iter().filter_map(|node| state.topologies.domain(spread.topology, *node));
        let n_domains = domains.collect::<FxHashSet<_>>().len();
        let included = Arc::new(Included { nodes, n_domains });
        let included = sets.entry(included.clone()).or_insert(included).clone();
        let is_hard = is_hard(spread);
        let min_domains = if is_hard { constraint.min_domains } else { 0 };
        let (topology, max_skew) = (spread.topology, constraint.max_skew);
        Some(Key { matcher: spread.matcher?, topology, max_skew, min_domains, is_hard, included })
    };
    cycle.spread.iter().map(|spread| (spread.clone(), key(spread))).collect()
}

fn is_hard(spread: &Spread) -> bool {
    spread.constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule
}

impl Constraint {
    fn new(state: &State, key: Key) -> Constraint {
        let counter = state.matchers.get(key.matcher).matching_in(TopologyId::NODE);
        let mut n_pods: FxHashMap<DomainId, i64> = FxHashMap::default();
        for node in &key.included.nodes {
            let here = counter.map_or(0, |counter| counter.get(DomainId(node.0)).count);
            if let Some(domain) = state.topologies.domain(key.topology, *node).filter(|_| here > 0) {
                *n_pods.entry(domain).or_default() += here;
            }
        }
        let mut n_domains = BTreeMap::new();
        n_pods.values().for_each(|n| *n_domains.entry(*n).or_default() += 1);
        let is_included = key.included.nodes.iter().copied().collect();
        Constraint { key, is_included, n_pods, n_domains, owners: FxHashMap::default() }
    }

    /// The fewest pods of a domain; 0 if there are fewer domains than required.
    fn minimum(&self) -> i64 {
        let n_domains = self.key.included.n_domains;
        if n_domains > self.n_pods.len() || (n_domains as i64) < self.key.min_domains {
            return 0;
        }
        self.n_domains.first_key_value().map_or(0, |(n, _)| *n)
    }

    pub(super) fn excess(&self) -> i64 {
        let most = self.n_domains.last_key_value().map_or(0, |(n, _)| *n);
        (most - self.minimum() - self.key.max_skew).max(0)
    }

    /// The domain of a node whose pods count.
    fn domain(&self, state: &State, node: NodeId) -> Option<DomainId> {
        state.topologies.domain(self.key.topology, node).filter(|_| self.is_included.contains(&node))
    }

    /// Whether the filter admits a pod that leaves one node for another.
    fn admits(&self, state: &State, self_match: i64, from: NodeId, to: NodeId) -> bool {
        let n_domains = self.key.included.n_domains as i64;
        let left = self.domain(state, from).filter(|_| self_match > 0);
        let Some(target) = state.topologies.domain(self.key.topology, to) else { return false };
        let mut minimum = self.minimum();
        if let Some(left) = left.filter(|_| n_domains >= self.key.min_domains) {
            minimum = minimum.min(self.in_domain(left) - 1);
        }
        let here = self.in_domain(target) - i64::from(left == Some(target));
        // Without any domain there is no minimum that a skew could exceed.
        n_domains == 0 || here + self_match - minimum <= self.key.max_skew
    }

    fn in_domain(&self, domain: DomainId) -> i64 {
        self.n_pods.get(&domain).copied().unwrap_or(0)
    }

    /// A pod that counts, and may have the constraint, has gone from one node to another. Returns whether the constraint of all other
    /// owners holds if it held before.
    fn shift(&mut self, state: &State, is_owner: bool, from: NodeId, to: NodeId) -> bool {
        let (from, to) = (self.domain(state, from), self.domain(state, to));
        if from == to {
            return true;
        }
        let minimum_before = self.minimum();
        from.into_iter().for_each(|domain| self.add(domain, -1));
        to.into_iter().for_each(|domain| self.add(domain, 1));
        if !self.key.is_hard {
            return true;
        }
        let minimum = self.minimum();
        let holds = |(domain, n_owners): (&DomainId, &u32)| {
            let itself = u32::from(is_owner && Some(*domain) == from);
            let n_pods = self.in_domain(*domain);
            let before = n_pods + i64::from(Some(*domain) == from) - i64::from(Some(*domain) == to);
            *n_owners <= itself
                || n_pods - minimum <= self.key.max_skew
                || before - minimum_before > self.key.max_skew
        };
        if minimum < minimum_before {
            self.owners.iter().all(holds)
        } else {
            to.is_none_or(|to| self.owners.get_key_value(&to).is_none_or(holds))
        }
    }

    fn add(&mut self, domain: DomainId, sign: i64) {
        let before = self.in_domain(domain);
        let after = before + sign;
        if let Some(n_domains) = self.n_domains.get_mut(&before) {
            *n_domains -= 1;
            if *n_domains == 0 {
                self.n_domains.remove(&before);
            }
        }
        if after == 0 {
            self.n_pods.remove(&domain);
        } else {
            self.n_pods.insert(domain, after);
            *self.n_domains.entry(after).or_default() += 1;
        }
    }

    /// `maxSkew`, whether there are as many domains as required, and the nodes that count with their domains.
    pub(super) fn domains(&self, state: &State) -> (i64, bool, Vec<(NodeId, DomainId)>) {
        let has_enough = self.key.included.n_domains as i64 >= self.key.min_domains;
        let nodes = self.key.included.nodes.iter();
        let nodes =
            nodes.filter_map(|node| Some((*node, state.topologies.domain(self.key.topology, *node)?)));
        (self.key.max_skew, has_enough, nodes.collect())
    }

    /// The nodes of the domains with the most and with the fewest pods.
    pub(super) fn extremes(&self, state: &State) -> (Vec<NodeId>, Vec<NodeId>) {
        let most = self.n_domains.last_key_value().map_or(0, |(n, _)| *n);
        let fewest = match self.key.included.n_domains > self.n_pods.len() {
            true => 0,
            false => self.n_domains.first_key_value().map_or(0, |(n, _)| *n),
        };
        let (mut fullest, mut emptiest) = (Vec::new(), Vec::new());
        for node in &self.key.included.nodes {
            let Some(domain) = state.topologies.domain(self.key.topology, *node) else { continue };
            let n_pods = self.in_domain(domain);
            if n_pods == most {
                fullest.push(*node);
            } else if n_pods == fewest {
                emptiest.push(*node);
            }
        }
        (fullest, emptiest)
    }
}
