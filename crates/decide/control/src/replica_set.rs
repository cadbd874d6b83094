//! The pods of a ReplicaSet: how many are to be created, or which of them are to be deleted.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;

/// The annotation with the deletion cost of a pod.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// What the order depends on.
#[derive(Clone, Copy, Debug)]
pub struct Replica<'a> {
    pub name: &'a str,
    pub uid: &'a str,
    pub created: Option<Timestamp>,
    /// The annotation [`DELETION_COST`].
    pub deletion_cost: Option<&'a str>,
    /// Its node; empty for none.
    pub node: &'a str,
    pub phase: &'a str,
    pub is_ready: bool,
    /// When it became ready.
    pub ready_since: Option<Timestamp>,
    /// Restarts of its containers.
    pub restarts: i64,
}

impl Replica<'_> {
    /// The order of kube-controller-manager: unassigned before assigned, pending before running, not ready before ready,
    /// lower deletion cost first, from nodes with more pods of the same Deployment first, ready for a shorter time first,
    /// more restarts first, younger first. Times are compared by their order of magnitude, so a difference of seconds
    /// between old pods is ignored. Uid and name break ties.
    ///
    /// This is the order without the pods of the same Deployment, which come after the [`Replica::usefulness`].
    fn deletion_order(&self, other: &Replica<'_>, now: Timestamp) -> Ordering {
        self.usefulness()
            .cmp(&other.usefulness())
            .then_with(|| younger_first(self.ready_since, other.ready_since, now))
            .then_with(|| Reverse(self.restarts).cmp(&Reverse(other.restarts)))
            .then_with(|| younger_first(self.created, other.created, now))
            .then_with(|| self.uid.cmp(other.uid))
            .then_with(|| self.name.cmp(other.name))
    }

    fn usefulness(&self) -> (bool, u8, bool, i32) {
        let phase = match self.phase {
            "Running" => 2,
            "Unknown" => 1,
            _ => 0,
        };
        // An invalid cost counts as 0.
        let cost = self.deletion_cost.filter(|cost| !cost.starts_with('+'));
        let cost = cost.and_then(|cost| cost.parse().ok()).unwrap_or(0);
        (!self.node.is_empty(), phase, self.is_ready, cost)
    }
}

/// By the order of magnitude of the age in nanoseconds. An unknown time counts as the youngest.
fn younger_first(a: Option<Timestamp>, b: Option<Timestamp>, now: Timestamp) -> Ordering {
    let magnitude = |time: Option<Timestamp>| {
        let age = now.duration_since(time?).as_nanos();
        Some(u128::try_from(age).unwrap_or(0).max(1).ilog2())
    };
    magnitude(a).cmp(&magnitude(b))
}

/// A pod of a ReplicaSet that may be deleted.
#[derive(Clone, Debug)]
struct Ranked {
    /// The position at which it was given.
    position: usize,
    set: usize,
    node: String,
    /// Pods of a lower class are deleted first, wherever the others run.
    class: usize,
}

/// The order: by class, from nodes with more pods of the Deployment first, then by rank.
type Key = (usize, Reverse<usize>, usize);

/// The order in which the ReplicaSets of a Deployment delete their pods, kept up to date while pods come and go.
#[derive(Clone, Debug)]
pub struct DeletionOrder {
    /// By rank: the order of pods that have equal numbers of pods beside them.
    pods: Vec<Ranked>,
    /// The pods of each ReplicaSet.
    next: Vec<BTreeSet<Key>>,
    /// The number of pods of the Deployment on each node, and the ranks of those that may be deleted.
    on_node: HashMap<String, (usize, BTreeSet<usize>)>,
}

impl DeletionOrder {
    /// `pods` may be deleted: each with its position and the number of its ReplicaSet. `others` are the nodes of the other active pods of
    /// the Deployment.
    pub fn new<'a>(
        pods: impl Iterator<Item = (usize, usize, Replica<'a>)>,
        others: impl Iterator<Item = &'a str>,
        now: Timestamp,
    ) -> Self {
        let mut ranked: Vec<_> = pods.collect();
        ranked.sort_by(|(.., a), (.., b)| a.deletion_order(b, now));
        let mut order = DeletionOrder { pods: Vec::new(), next: Vec::new(), on_node: HashMap::new() };
        let mut class = 0;
        let mut before = None;
        for (rank, (position, set, replica)) in ranked.into_iter().enumerate() {
            let usefulness = replica.usefulness();
            class += usize::from(before.replace(usefulness).is_some_and(|before| before != usefulness));
            let node = replica.node.to_owned();
            if !node.is_empty() {
                let on_node = order.on_node.entry(node.clone()).or_default();
                on_node.0 += 1;
                on_node.1.insert(rank);
            }
            order.next.resize(order.next.len().max(set + 1), BTreeSet::new());
            order.pods.push(Ranked { position, set, node, class });
        }
        for node in others.filter(|node| !node.is_empty()) {
            order.on_node.entry(node.to_owned()).or_default().0 += 1;
        }
        for rank in 0..order.pods.len() {
            let key = order.key(rank, order.n_beside(rank));
            order.next[order.pods[rank].set].insert(key);
        }
        order
    }

    fn key(&self, rank: usize, n_beside: usize) -> Key {
        (self.pods[rank].class, Reverse(n_beside), rank)
    }

    fn n_beside(&self, rank: usize) -> usize {
        self.on_node.get(&self.pods[rank].node).map_or(0, |(n, _)| *n)
    }

    /// Takes the next pods of a ReplicaSet out: their positions.
    pub fn take(&mut self, set: usize, n: usize) -> Vec<usize> {
        let Some(next) = self.next.get(set) else { return Vec::new() };
        let taken: Vec<usize> = next.iter().take(n).map(|(.., rank)| *rank).collect();
        for rank in &taken {
            let n_beside = self.n_beside(*rank);
            let key = self.key(*rank, n_beside);
            self.next[set].remove(&key);
            let node = self.pods[*rank].node.clone();
            if let Some((_, ranks)) = self.on_node.get_mut(&node) {
                ranks.remove(rank);
                self.set_count(&node, n_beside.saturating_sub(1));
            }
        }
        taken.into_iter().map(|rank| self.pods[rank].position).collect()
    }

    /// Another pod of the Deployment has this node.
    pub fn add(&mut self, node: &str) {
        if node.is_empty() {
            return;
        }
        let n = self.on_node.get(node).map_or(0, |(n, _)| *n);
        self.set_count(node, n + 1);
    }

    fn set_count(&mut self, node: &str, n: usize) {
        let entry = self.on_node.entry(node.to_owned()).or_default();
        let before = std::mem::replace(&mut entry.0, n);
        let ranks: Vec<usize> = entry.1.iter().copied().collect();
        for rank in ranks {
            let (old, new) = (self.key(rank, before), self.key(rank, n));
            let next = &mut self.next[self.pods[rank].set];
            next.remove(&old);
            next.insert(new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_taken_in_the_order_of_their_controller_while_others_come_and_go() {
        let now: Timestamp = "2026-02-01T00:00:00Z".parse().unwrap();
        let names: Vec<String> = (0..60).map(|i| format!("p{i}")).collect();
        let nodes = ["n0", "n1", "n2", "n3"];
        // Differing nodes, costs, states and ages, in every combination; pods of every tenth have no node.
        let replica = |i: usize| Replica {
            name: &names[i],
            uid: &names[i],
            created: Some(now - jiff::SignedDuration::from_hours(24 * (1 + 20 * (i as i64 % 2)))),
            deletion_cost: Some(["0", "1", "2"][i % 3]),
            node: if i % 10 == 9 { "" } else { nodes[i % 7 % 4] },
            phase: "Running",
            is_ready: !i.is_multiple_of(5),
            ready_since: None,
            restarts: 0,
        };
        // The first ten pods are of the new ReplicaSet; half of them have a node at first.
        let mut old: Vec<(usize, usize)> = (10..60).map(|i| (i, i % 2)).collect();
        let mut new: Vec<usize> = (0..5).collect();
        let pods = old.iter().map(|(i, set)| (*i, *set, replica(*i)));
        let mut order = DeletionOrder::new(pods, new.iter().map(|i| replica(*i).node), now);
        for step in 0..50 {
            let set = step % 2;
            let related = || old.iter().map(|(i, _)| *i).chain(new.iter().copied());
            let n_beside =
                |i: usize| related().filter(|other| replica(*other).node == replica(i).node).count();
            let rank = |a: usize, b: usize| {
                let usefulness = |i: usize| (replica(i).usefulness(), Reverse(n_beside(i)));
                usefulness(a).cmp(&usefulness(b)).then_with(|| replica(a).deletion_order(&replica(b), now))
            };
            let of_set = old.iter().filter(|(_, of)| *of == set).map(|(i, _)| *i);
            let first = of_set.min_by(|a, b| rank(*a, *b));
            let taken = order.take(set, 1);
            assert_eq!(taken.first(), first.as_ref(), "step {step}");
            old.retain(|(i, _)| !taken.contains(i));
            if step % 5 == 0 && new.len() < 10 {
                new.push(new.len());
                order.add(replica(new.len() - 1).node);
            }
        }
        assert!(old.is_empty());
    }
}
