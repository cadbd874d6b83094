//! Room for pending pods: the fewest pods of one node go elsewhere.

use berth_api::object::Pod;
use berth_engine::{Outcome, PreparedPod};

use crate::board::Board;
use crate::nodes::Amounts;

/// The largest number of pods that leave one node.
const MAX_LEAVING: usize = 8;
/// Number of nodes that are tried for a pod that leaves, if the scheduler would leave it where it is.
const MAX_TARGETS: usize = 4;
/// Number of nodes that are tried for a pending pod.
const MAX_NODES: usize = 200;

/// Makes room for each pending pod that finds no node.
pub(super) fn for_pending(board: &mut Board<'_>) {
    for unit in 0..board.waiting.units.len() {
        let outcomes = board.waiting.place(board.moves.cluster());
        board.waiting.take_back(board.moves.cluster(), &outcomes);
        // Room for a whole group is only found where all states are looked at.
        if let ([(pod, prepared)], [Outcome::Unschedulable { .. }]) =
            (board.waiting.units[unit].pods.as_slice(), outcomes[unit].as_slice())
        {
            let (pod, prepared) = (*pod, prepared.clone());
            make(board, pod, &prepared);
        }
    }
}

fn make(board: &mut Board<'_>, pod: &Pod, prepared: &PreparedPod) {
    let rules = board.moves.cluster().rules_of(pod);
    let requests = [rules.requests.milli_cpu, rules.requests.memory];
    let mut nodes: Vec<(usize, usize)> = (0..board.movable_on.len())
        .filter_map(|node| Some((n_leaving(board, node, requests)?, node)))
        .collect();
    nodes.sort_unstable();
    for (_, node) in nodes.into_iter().take(MAX_NODES) {
        if board.attempt(|board| clear(board, node, prepared)) {
            return;
        }
    }
}

/// How many pods have to leave a node at least; none if all that may move are not enough.
fn n_leaving(board: &Board<'_>, node: usize, requests: Amounts) -> Option<usize> {
    let mut least = 1;
    for (i, requested) in requests.into_iter().enumerate() {
        let mut missing = requested - board.nodes.of[node].free(i);
        if requested > board.nodes.of[node].allocatable[i] {
            return None;
        }
        let mut amounts: Vec<i64> =
            board.movable_on[node].iter().map(|pod| board.pods[*pod].requests[i]).collect();
        amounts.sort_unstable_by(|a, b| b.cmp(a));
        let mut n_pods = 0;
        while missing > 0 {
            missing -= amounts.get(n_pods)?;
            n_pods += 1;
        }
        least = least.max(n_pods);
    }
    (least <= MAX_LEAVING && !board.movable_on[node].is_empty()).then_some(least)
}

/// Moves pods off a node until the pending one fits there: at each step the smallest one that is enough, or else the largest.
fn clear(board: &mut Board<'_>, node: usize, pending: &PreparedPod) {
    let name = board.moves.nodes()[node].clone();
    for _ in 0..MAX_LEAVING {
        let mut pods = board.movable_on[node].clone();
        pods.sort_by_key(|pod| (board.pods[*pod].priority(), board.pods[*pod].requests));
        // Pods of one size are the same here, unless the last one is not enough.
        pods.dedup_by_key(|pod| (board.moves.class_of(*pod), board.pods[*pod].requests));
        let n_steps = board.n_steps();
        let mut last = None;
        for pod in pods {
            let Some(to) = leave(board, pod, node) else { continue };
            if board.moves.cluster().fits_on(pending, &name) {
                return;
            }
            board.undo_to(n_steps);
            last = Some((pod, to));
        }
        let Some((pod, to)) = last else { return };
        board.apply(pod, to);
    }
}

/// Moves a pod of a node to where the scheduler would put it, or where most room is.
fn leave(board: &mut Board<'_>, pod: usize, node: usize) -> Option<usize> {
    let first = board.moves.first_choice(pod).filter(|to| *to != node);
    let others = (0..board.movable_on.len()).filter(|to| *to != node);
    let targets = match first {
        Some(first) => vec![first],
        None => board.roomiest(others, MAX_TARGETS),
    };
    targets.into_iter().find(|to| board.apply(pod, *to))
}
