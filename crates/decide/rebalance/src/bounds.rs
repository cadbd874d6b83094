//! What no plan comes below: values that hold wherever the pods that may move are, as far as nodes alone decide where they may be.

use std::collections::{BTreeMap, HashMap};

use berth_engine::SpreadDomains;

use crate::board::{Board, Values};
use crate::goal::Goal;

/// In larger clusters, where pods could be is not looked at.
const MAX_WORK: usize = 200_000;

pub(crate) fn bounds(board: &Board<'_>) -> Values {
    let n_classes = board.movable_of.len() + board.waiting.units.len();
    let places = (n_classes * board.movable_on.len() <= MAX_WORK).then(|| Places::of(board));
    let bound = |goal: &Goal| match (goal, &places) {
        (Goal::Consolidate, _) => board.nodes.bound(|node| n_staying(board, node) > 0),
        (Goal::Balance, _) => n_hot_for_ever(board),
        (_, None) => 0,
        (Goal::Required, Some(places)) => places.n_rejected(board),
        (Goal::Defragment, Some(_)) => n_without_node(board),
        (Goal::Spread, Some(places)) => {
            (0..board.moves.n_constraints()).map(|constraint| places.excess(board, constraint)).sum()
        }
        (Goal::Preferences, Some(_)) => 0,
    };
    board.goals.iter().map(bound).collect()
}

/// The pods on a node that stay and do not belong to it.
fn n_staying(board: &Board<'_>, node: usize) -> usize {
    board.nodes.of[node].n_pods - board.movable_on[node].len()
}

/// Nodes above the threshold without the pods that may move.
fn n_hot_for_ever(board: &Board<'_>) -> i64 {
    let is_hot = |node: &usize| {
        let mut moved = board.nodes.of[*node].clone();
        for pod in &board.movable_on[*node] {
            let both = moved.requested.iter_mut().zip(board.pods[*pod].requests);
            both.for_each(|(requested, amount)| *requested -= amount);
        }
        board.nodes.would_be_hot(&moved)
    };
    (0..board.movable_on.len()).filter(is_hot).count() as i64
}

/// Pending pods that no node admits.
fn n_without_node(board: &Board<'_>) -> i64 {
    let pods = board.waiting.units.iter().flat_map(|unit| &unit.pods);
    pods.filter(|(_, pod)| board.moves.could_be_on(pod).is_empty()).count() as i64
}

struct Places {
    /// By class of pods.
    of_class: HashMap<usize, Vec<usize>>,
}

impl Places {
    fn of(board: &Board<'_>) -> Places {
        let mut of_class = HashMap::new();
        for pod in 0..board.pods.len() {
            let nodes = || board.moves.could_be_on(board.moves.prepared(pod));
            of_class.entry(board.moves.class_of(pod)).or_insert_with(nodes);
        }
        Places { of_class }
    }

    fn admitted(&self, board: &Board<'_>, pod: usize) -> &[usize] {
        self.of_class.get(&board.moves.class_of(pod)).map_or(&[], Vec::as_slice)
    }

    /// Pods that stay where their node rejects them, and pods that all nodes reject.
    fn n_rejected(&self, board: &Board<'_>) -> i64 {
        let is_rejected = |pod: &usize| {
            let admitted = self.admitted(board, *pod);
            match board.pods[*pod].stays {
                Some(_) => !admitted.contains(&board.node_of(*pod)),
                None => admitted.is_empty(),
            }
        };
        (0..board.pods.len()).filter(is_rejected).count() as i64
    }

    /// The skew above `maxSkew` if all pods were where it is best: the fullest domain has at least its share, and those that stay
    /// there; the emptiest one at most the pods that stay there, and all that could come.
    fn excess(&self, board: &Board<'_>, constraint: usize) -> i64 {
        let SpreadDomains { max_skew, has_enough, nodes } = board.moves.domains_of(constraint);
        let of_node: HashMap<usize, u32> = nodes.into_iter().collect();
        // The pods that stay in each domain, and those that could be there.
        let mut domains: BTreeMap<u32, (i64, i64)> =
            of_node.values().map(|domain| (*domain, (0, 0))).collect();
        let mut n_inside = 0;
        for pod in (0..board.pods.len()).filter(|pod| board.moves.counts_for(*pod, constraint)) {
            let here = board.node_of(pod);
            if board.pods[pod].stays.is_some() {
                if let Some((stay, _)) = of_node.get(&here).and_then(|domain| domains.get_mut(domain)) {
                    *stay += 1;
                    n_inside += 1;
                }
                continue;
            }
            let mut nodes: Vec<usize> = self.admitted(board, pod).to_vec();
            nodes.push(here);
            let mut reached: Vec<Option<u32>> = nodes.iter().map(|node| of_node.get(node).copied()).collect();
            reached.sort_unstable();
            reached.dedup();
            n_inside += i64::from(!reached.contains(&None));
            for domain in reached.into_iter().flatten() {
                domains.entry(domain).or_default().1 += 1;
            }
        }
        let usable = domains.values().filter(|(stay, come)| stay + come > 0).count() as i64;
        let share = if usable == 0 { 0 } else { (n_inside + usable - 1) / usable };
        let fullest = domains.values().map(|(stay, _)| *stay).max().unwrap_or(0).max(share);
        let emptiest =
            domains.values().map(|(stay, come)| stay + come).min().filter(|_| has_enough).unwrap_or(0);
        (fullest - emptiest - max_skew).max(0)
    }
}
