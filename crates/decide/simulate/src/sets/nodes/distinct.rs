//! Sets of nodes that differ, and how they relate.

use std::cmp::Reverse;
use std::collections::HashMap;

use berth_api::work::WorkBudget;
use berth_rules::SetRelation;

use super::rules::Evaluated;
use super::{NodeRelation, NodeRule, NodeSet};

/// Steps of the comparison of sets with each other, and steps that a relation costs, which is kept.
const COMPARE_STEPS: u64 = 20_000_000;
const RELATION_STEPS: usize = 20;

/// Different sets of nodes, the largest first.
pub(super) struct Distinct {
    /// The positions of the nodes of each, ascending.
    sets: Vec<Vec<usize>>,
    /// The set of each rule; none if it matches no node, or is not evaluated.
    pub set_of_rule: Vec<Option<usize>>,
}

impl Distinct {
    pub(super) fn new(rules: &[Evaluated]) -> Distinct {
        let nodes_of = |i: usize| rules[i].nodes.as_deref().unwrap_or_default();
        let mut order: Vec<usize> = (0..rules.len()).filter(|i| !nodes_of(*i).is_empty()).collect();
        order.sort_by_key(|i| Reverse(nodes_of(*i).len()));
        let mut positions: HashMap<&[usize], usize> = HashMap::new();
        let (mut sets, mut set_of_rule) = (Vec::new(), vec![None; rules.len()]);
        for i in order {
            let position = *positions.entry(nodes_of(i)).or_insert_with(|| {
                sets.push(nodes_of(i).to_vec());
                sets.len() - 1
            });
            set_of_rule[i] = Some(position);
        }
        Distinct { sets, set_of_rule }
    }

    /// The nodes by the sets that they are in; both ascending.
    pub(super) fn nodes_by_sets(&self, n_nodes: usize) -> Vec<(Vec<usize>, Vec<usize>)> {
        let mut sets_of = vec![Vec::new(); n_nodes];
        for (i, nodes) in self.sets.iter().enumerate() {
            nodes.iter().for_each(|node| sets_of[*node].push(i));
        }
        let mut by_sets: HashMap<Vec<usize>, Vec<usize>> = HashMap::new();
        for (node, sets) in sets_of.into_iter().enumerate() {
            by_sets.entry(sets).or_default().push(node);
        }
        let mut by_sets: Vec<_> = by_sets.into_iter().collect();
        by_sets.sort_unstable();
        by_sets
    }

    /// The pairs of sets with nodes in common, and the number of sets, from the first, whose relations are all found.
    pub(super) fn relations(&self, by_sets: &[(Vec<usize>, Vec<usize>)]) -> (Vec<NodeRelation>, usize) {
        let mut containing = vec![Vec::new(); self.sets.len()];
        for (sets, nodes) in by_sets {
            for (i, set) in sets.iter().enumerate() {
                containing[*set].push((&sets[..i], nodes.len()));
            }
        }
        let budget = WorkBudget::new(COMPARE_STEPS);
        let mut relations = Vec::new();
        let mut n_common = vec![0; self.sets.len()];
        for (other, earlier) in containing.iter().enumerate() {
            let steps = earlier.iter().map(|(sets, _)| 1 + sets.len()).sum();
            if budget.spend(steps).is_err() {
                return (relations, other);
            }
            let mut found = Vec::new();
            for (sets, n_nodes) in earlier {
                for set in *sets {
                    if n_common[*set] == 0 {
                        found.push(*set);
                    }
                    n_common[*set] += n_nodes;
                }
            }
            if budget.spend(found.len() * RELATION_STEPS).is_err() {
                return (relations, other);
            }
            found.sort_unstable();
            for set in found {
                let n_nodes = std::mem::take(&mut n_common[set]);
                // The earlier set is no smaller, and not equal.
                let is_within = n_nodes == self.sets[other].len();
                let relation = if is_within { SetRelation::Contains } else { SetRelation::Overlaps };
                relations.push(NodeRelation { set: set + 1, relation, other: other + 1, n_nodes });
            }
        }
        (relations, self.sets.len())
    }

    /// The sets with their rules, and the rules that match no node.
    pub(super) fn into_sets(self, rules: Vec<Evaluated>) -> (Vec<NodeSet>, Vec<NodeRule>) {
        let set =
            |(i, nodes): (usize, &Vec<usize>)| NodeSet { id: i + 1, n_nodes: nodes.len(), rules: Vec::new() };
        let mut sets: Vec<_> = self.sets.iter().enumerate().map(set).collect();
        let mut empty = Vec::new();
        for (Evaluated { rule, nodes }, set) in rules.into_iter().zip(self.set_of_rule) {
            match set {
                Some(set) => sets[set].rules.push(rule),
                None if nodes.is_some() => empty.push(rule),
                None => {}
            }
        }
        (sets, empty)
    }
}
