//! Pods go from the fullest domains of a constraint to the emptiest ones.

use crate::board::Board;

/// Number of pods that are tried for one step.
const MAX_PODS: usize = 6;
/// Number of nodes that are tried for each of them besides the first choice of the scheduler.
const MAX_TARGETS: usize = 4;

/// Lowers the skew of each constraint.
pub(super) fn skewed(board: &mut Board<'_>) {
    for constraint in board.moves.skewed() {
        while !board.work.is_spent() && lower(board, constraint.constraint) {}
    }
}

/// Moves pods until the values are lower. As long as several domains have the most pods, a single move lowers nothing.
fn lower(board: &mut Board<'_>, constraint: usize) -> bool {
    let (start, values) = (board.n_steps(), board.values());
    let classes: Vec<usize> = (0..board.movable_of.len())
        .filter(|class| {
            board.movable_of[*class].first().is_some_and(|pod| board.moves.counts_for(*pod, constraint))
        })
        .collect();
    while !board.work.is_spent() && step(board, constraint, &classes) {
        if board.values() < values {
            return true;
        }
    }
    board.undo_to(start);
    false
}

/// Moves one pod from a fullest to an emptiest domain. The values do not rise.
fn step(board: &mut Board<'_>, constraint: usize, classes: &[usize]) -> bool {
    let Some(skewed) = board.moves.skew_of(constraint) else { return false };
    let (n_steps, now) = (board.n_steps(), board.values());
    let in_fullest = |pod: &usize| skewed.fullest.binary_search(&board.node_of(*pod)).is_ok();
    let pods = classes.iter().flat_map(|class| &board.movable_of[*class]).copied().filter(in_fullest);
    let pods: Vec<usize> = pods.take(MAX_PODS).collect();
    let roomiest = board.roomiest(skewed.emptiest.iter().copied(), MAX_TARGETS);
    let mut best = None;
    for pod in pods {
        let first = board.moves.first_choice(pod);
        let first = first.filter(|node| skewed.emptiest.binary_search(node).is_ok());
        for to in first.into_iter().chain(roomiest.iter().copied()) {
            if !board.apply(pod, to) {
                continue;
            }
            let values = board.values();
            if values < now {
                return true;
            }
            if values == now && best.is_none() {
                best = Some((pod, to));
            }
            board.undo_to(n_steps);
        }
    }
    best.is_some_and(|(pod, to)| board.apply(pod, to))
}
