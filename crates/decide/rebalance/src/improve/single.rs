//! Goals that single pods improve.

use crate::board::Board;

/// Number of nodes that are tried for a pod besides the first choice of the scheduler.
const MAX_TARGETS: usize = 64;

/// Moves pods that the filters would reject where they are.
pub(super) fn rejected(board: &mut Board<'_>) {
    each(board, |board, pod| board.moves.is_rejected(pod));
}

/// Moves pods whose preferences are not met.
pub(super) fn unmet(board: &mut Board<'_>) {
    each(board, |board, pod| board.moves.unmet(pod) > 0);
}

fn each(board: &mut Board<'_>, concerns: impl Fn(&Board<'_>, usize) -> bool) {
    let mut pods: Vec<usize> = (0..board.pods.len())
        .filter(|pod| board.pods[*pod].stays.is_none() && concerns(board, *pod))
        .collect();
    pods.sort_by_key(|pod| (board.pods[*pod].rank(), board.node_of(*pod)));
    for pod in pods {
        if !board.work.is_spent() && concerns(board, pod) {
            to_best(board, pod);
        }
    }
}

/// Moves a pod to the node where the values are lowest, if they are lower than now.
fn to_best(board: &mut Board<'_>, pod: usize) -> bool {
    let now = board.values();
    let first = board.moves.first_choice(pod);
    let others = board.roomiest(0..board.movable_on.len(), MAX_TARGETS);
    let (n_steps, mut best) = (board.n_steps(), None);
    for to in first.into_iter().chain(others) {
        if board.apply(pod, to) {
            let values = board.values();
            if best.as_ref().is_none_or(|(best, _)| values < *best) {
                best = Some((values, to));
            }
            board.undo_to(n_steps);
        }
    }
    match best {
        Some((values, to)) if values < now => board.apply(pod, to),
        _ => false,
    }
}

/// Moves pods off nodes above the threshold, until each is below it.
pub(super) fn hot(board: &mut Board<'_>) {
    for node in 0..board.movable_on.len() {
        if !board.nodes.is_hot(node) || board.work.is_spent() {
            continue;
        }
        board.attempt(|board| {
            for pod in board.movable_on[node].clone() {
                if !board.nodes.is_hot(node) {
                    return;
                }
                let n_steps = board.n_steps();
                let n_hot = board.nodes.n_hot;
                let targets = board.roomiest(0..board.movable_on.len(), 4);
                for to in targets {
                    if board.apply(pod, to) {
                        if board.nodes.n_hot <= n_hot {
                            break;
                        }
                        board.undo_to(n_steps);
                    }
                }
            }
        });
    }
}
