//! The order in which ReplicaSets of a Deployment delete their pods, kept up to date while pods come and go.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;

use super::departure::replica;
use super::pods::Pods;

/// A pod of an old ReplicaSet.
#[derive(Clone)]
struct Old {
    position: usize,
    replica_set: usize,
    /// Pods of a lower class are deleted first, wherever the others run.
    class: usize,
}

/// The order: by class, from nodes with more pods of the Deployment first, then by rank.
type Key = (usize, Reverse<usize>, usize);

/// The pods of the old ReplicaSets of a Deployment.
#[derive(Clone)]
pub(crate) struct DeletionOrder {
    /// By rank: the order of pods that have equal numbers of pods beside them.
    pods: Vec<Old>,
    /// The pods of each ReplicaSet.
    next: Vec<BTreeSet<Key>>,
    /// The number of pods of the Deployment on each node, and the ranks of the old ones.
    on_node: HashMap<String, (usize, BTreeSet<usize>)>,
}

impl DeletionOrder {
    /// `old` are the positions of the pods with the numbers of their ReplicaSets, `new` those of the pods of the new one.
    pub fn new(pods: &Pods, old: &[(usize, usize)], new: &[usize], now: Timestamp) -> Self {
        let order = |a: usize, n_beside_a: usize, b: usize, n_beside_b: usize| {
            let replica = |at: usize, n| replica(&pods[at].pod, pods[at].node().is_some(), n);
            replica(a, n_beside_a).deletion_order(&replica(b, n_beside_b), now)
        };
        let mut ranked = old.to_vec();
        ranked.sort_by(|(a, _), (b, _)| order(*a, 0, *b, 0));
        let mut class = 0;
        let mut before: Option<usize> = None;
        let ranked = ranked.into_iter().map(|(position, replica_set)| {
            // What comes before the number of pods beside them is equal if this number alone reverses the order.
            let differs = before.is_some_and(|before| order(before, 0, position, 1) != Ordering::Greater);
            class += usize::from(differs);
            before = Some(position);
            Old { position, replica_set, class }
        });
        let n_sets = old.iter().map(|(_, set)| set + 1).max().unwrap_or(0);
        let mut of = DeletionOrder {
            pods: ranked.collect(),
            next: vec![BTreeSet::new(); n_sets],
            on_node: HashMap::new(),
        };
        let node = |at: usize| pods[at].node().map(str::to_owned);
        for (rank, old) in of.pods.iter().enumerate() {
            if let Some(node) = node(old.position) {
                let on_node = of.on_node.entry(node).or_default();
                on_node.0 += 1;
                on_node.1.insert(rank);
            }
        }
        for node in new.iter().filter_map(|at| node(*at)) {
            of.on_node.entry(node).or_default().0 += 1;
        }
        for rank in 0..of.pods.len() {
            let n_beside = pods[of.pods[rank].position].node().map_or(0, |node| of.on_node[node].0);
            let key = of.key(rank, n_beside);
            of.next[of.pods[rank].replica_set].insert(key);
        }
        of
    }

    fn key(&self, rank: usize, n_beside: usize) -> Key {
        (self.pods[rank].class, Reverse(n_beside), rank)
    }

    /// Takes the next pods of a ReplicaSet out: their positions.
    pub fn take(&mut self, replica_set: usize, n: usize, pods: &Pods) -> Vec<usize> {
        let Some(next) = self.next.get(replica_set) else { return Vec::new() };
        let taken: Vec<usize> = next.iter().take(n).map(|(.., rank)| *rank).collect();
        for rank in &taken {
            let Old { position, replica_set, .. } = self.pods[*rank];
            let node = pods[position].node();
            let n_beside = node.and_then(|node| self.on_node.get(node)).map_or(0, |(n, _)| *n);
            let key = self.key(*rank, n_beside);
            self.next[replica_set].remove(&key);
            if let Some(node) = node {
                if let Some((_, ranks)) = self.on_node.get_mut(node) {
                    ranks.remove(rank);
                }
                self.set_count(node, n_beside.saturating_sub(1));
            }
        }
        taken.into_iter().map(|rank| self.pods[rank].position).collect()
    }

    /// A pod of the new ReplicaSet has this node.
    pub fn add(&mut self, node: &str) {
        let n = self.on_node.get(node).map_or(0, |(n, _)| *n);
        self.set_count(node, n + 1);
    }

    fn set_count(&mut self, node: &str, n: usize) {
        let entry = self.on_node.entry(node.to_owned()).or_default();
        let before = std::mem::replace(&mut entry.0, n);
        let ranks: Vec<usize> = entry.1.iter().copied().collect();
        for rank in ranks {
            let (old, new) = (self.key(rank, before), self.key(rank, n));
            let next = &mut self.next[self.pods[rank].replica_set];
            next.remove(&old);
            next.insert(new);
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_input::inventory::Inventory;

    use super::*;
    use crate::{Simulation, SimulationOptions};

    #[test]
    fn pods_are_taken_in_the_order_of_their_controller_while_others_come_and_go() {
        let mut text = String::new();
        for i in 0..4 {
            text += &format!(
                "---\n{{apiVersion: v1, kind: Node, metadata: {{name: n{i}}}, status: {{allocatable: {{pods: 99}}}}}}\n"
            );
        }
        // Differing nodes, costs, states and ages, in every combination; pods of every tenth have no node.
        for i in 0..60 {
            let node = if i % 10 == 9 { String::new() } else { format!("nodeName: n{}, ", i % 7 % 4) };
            let (cost, ready, day) = (i % 3, if i % 5 == 0 { "False" } else { "True" }, i % 2 * 20 + 1);
            text += &format!(
                "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p{i}, uid: u{i}, creationTimestamp: '2026-01-{day:02}T00:00:00Z', \
                 annotations: {{controller.kubernetes.io/pod-deletion-cost: '{cost}'}}}}, spec: {{{node}containers: [{{name: c, image: i}}]}}, \
                 status: {{phase: Running, conditions: [{{type: Ready, status: '{ready}'}}]}}}}\n"
            );
        }
        let inventory = Inventory::from_text(&text).unwrap();
        let simulation = Simulation::new(inventory, SimulationOptions::default()).unwrap();
        let pods = simulation.pods();
        let now: Timestamp = "2026-02-01T00:00:00Z".parse().unwrap();
        // The first ten pods are of the new ReplicaSet; half of them have a node at first.
        let mut old: Vec<(usize, usize)> = (10..pods.len()).map(|i| (i, i % 2)).collect();
        let mut new: Vec<usize> = (0..5).collect();
        let mut order = DeletionOrder::new(pods, &old, &new, now);
        for step in 0..50 {
            let set = step % 2;
            let related = || old.iter().map(|(i, _)| *i).chain(new.iter().copied());
            let n_beside = |i: usize| related().filter(|other| pods[*other].node() == pods[i].node()).count();
            let replica = |i: usize| replica(&pods[i].pod, pods[i].node().is_some(), n_beside(i));
            let of_set = old.iter().filter(|(_, of)| *of == set).map(|(i, _)| *i);
            let first = of_set.min_by(|a, b| replica(*a).deletion_order(&replica(*b), now));
            let taken = order.take(set, 1, pods);
            assert_eq!(taken.first(), first.as_ref(), "step {step}");
            old.retain(|(i, _)| !taken.contains(i));
            if step % 5 == 0 && new.len() < 10 {
                let added = new.len();
                new.push(added);
                pods[added].node().into_iter().for_each(|node| order.add(node));
            }
        }
        assert!(old.is_empty());
    }
}
