//! The moves of a plan without detours, and in an order in which the values do not rise on the way where that is possible: a plan that is
//! given up before its end has then made nothing worse.

use crate::board::{Board, Values};

/// A pod and its target.
type Step = (usize, usize);

/// With more moves, orders are not compared.
const MOST_ORDERED: usize = 200;

/// The moves that the board has made, without detours and in a better order. They end in the same state.
pub(crate) fn tidy(board: &mut Board<'_>) -> Vec<Step> {
    let mut steps = board.steps();
    if steps.len() < 2 {
        return steps;
    }
    let end = board.values();
    board.undo_to(0);
    while let Some(direct) = without_a_detour(board, &steps, &end) {
        steps = direct;
    }
    if steps.len() <= MOST_ORDERED {
        steps = ordered(board, steps);
    }
    steps
}

/// The same with a pod that moves once instead of twice, if that is legal and worth the same.
fn without_a_detour(board: &mut Board<'_>, steps: &[Step], end: &Values) -> Option<Vec<Step>> {
    (0..steps.len()).find_map(|first| {
        let again = (first + 1..steps.len()).find(|later| steps[*later].0 == steps[first].0)?;
        let is_back = board.node_of(steps[first].0) == steps[again].1;
        // The pod goes when it went last, or when it went first.
        [(first, again), (again, first)].into_iter().find_map(|(dropped, kept)| {
            let mut direct = steps.to_vec();
            direct[kept].1 = steps[again].1;
            let is_left = |at: &usize| *at != dropped && !(is_back && *at == kept);
            let direct: Vec<Step> = (0..steps.len()).filter(is_left).map(|at| direct[at]).collect();
            (values_after(board, &direct).as_ref() == Some(end)).then_some(direct)
        })
    })
}

/// The steps in an order in which no step raises the values, as far as there is one that a greedy choice finds.
fn ordered(board: &mut Board<'_>, mut left: Vec<Step>) -> Vec<Step> {
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let before = board.values();
        let falls = |board: &mut Board<'_>, at: &usize| {
            let n_steps = board.n_steps();
            let (pod, to) = left[*at];
            // A pod that moves twice keeps its order.
            let is_first = !left[..*at].iter().any(|(other, _)| *other == pod);
            let is_better = is_first && board.apply(pod, to) && board.values() <= before && {
                let rest: Vec<Step> =
                    left.iter().enumerate().filter(|(i, _)| i != at).map(|(_, step)| *step).collect();
                *at == 0 || values_after(board, &rest).is_some()
            };
            board.undo_to(n_steps);
            is_better
        };
        let next = (0..left.len()).find(|at| falls(board, at)).unwrap_or(0);
        let (pod, to) = left.remove(next);
        board.apply(pod, to);
        ordered.push((pod, to));
    }
    board.undo_to(0);
    ordered
}

/// The values after these moves; none if one of them is not legal. The board stays as it is.
pub(crate) fn values_after(board: &mut Board<'_>, steps: &[Step]) -> Option<Values> {
    let n_steps = board.n_steps();
    let is_legal = steps.iter().all(|(pod, to)| board.apply(*pod, *to));
    let values = is_legal.then(|| board.values());
    board.undo_to(n_steps);
    values
}
