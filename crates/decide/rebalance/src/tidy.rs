//! The moves of a plan without detours, and in an order in which the values do not rise on the way where that is possible: a plan that is
//! given up before its end has then made nothing worse.

use crate::board::{Board, Values};

/// A pod and its target.
type Step = (usize, usize);

/// With more moves, orders are not compared.
const MOST_ORDERED: usize = 200;
/// With more moves that are left, targets are not exchanged.
const MOST_EXCHANGED: usize = 50;

/// The moves that the board has made, without detours and in a better order. They end in the same state.
pub(crate) fn tidy(board: &mut Board<'_>) -> Vec<Step> {
    let mut steps = board.steps();
    if steps.len() < 2 {
        return steps;
    }
    let end = board.values();
    board.undo_to(0);
    let direct = without_detours(board, &steps);
    if direct.len() < steps.len() && values_after(board, &direct).as_ref() == Some(&end) {
        steps = direct;
    }
    if steps.len() <= MOST_ORDERED {
        steps = ordered(board, steps, &end);
    }
    steps
}

/// The same with pods that move once instead of twice, where that is legal. The pods end in the same places.
fn without_detours(board: &mut Board<'_>, steps: &[Step]) -> Vec<Step> {
    let mut steps = steps.to_vec();
    loop {
        let n_steps = steps.len();
        let mut at = 0;
        while at < steps.len() {
            let direct = if board.work.is_spent() { None } else { direct(board, &steps[at..]) };
            match direct {
                Some((n_replaced, direct)) => _ = steps.splice(at..at + n_replaced, direct),
                None => {
                    board.apply(steps[at].0, steps[at].1);
                    at += 1;
                }
            }
        }
        board.undo_to(0);
        if steps.len() == n_steps {
            return steps;
        }
    }
}

/// What replaces the first steps, up to the next one of the pod that the first one moves: the same without one of these two, or without
/// both if the pod comes back. After these steps all pods are where they were with them, so the rest is as legal as it was.
fn direct(board: &mut Board<'_>, steps: &[Step]) -> Option<(usize, Vec<Step>)> {
    let pod = steps[0].0;
    let again = 1 + steps[1..].iter().position(|step| step.0 == pod)?;
    let (between, last) = (&steps[1..again], steps[again]);
    let candidates = match board.node_of(pod) == last.1 {
        true => vec![between.to_vec()],
        // The pod goes when it went last, or when it went first.
        false => vec![[between, &[last]].concat(), [&[last], between].concat()],
    };
    let legal = candidates.into_iter().find(|direct| after(board, direct, |_| ()).is_some());
    legal.map(|direct| (again + 1, direct))
}

/// The steps in an order in which no step raises the values, as far as there is one that a greedy choice finds. Where there is none, two
/// pods exchange their targets if that helps.
fn ordered(board: &mut Board<'_>, mut left: Vec<Step>, end: &Values) -> Vec<Step> {
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
        let tried = if board.work.is_spent() { 0 } else { left.len() };
        let next = (0..tried).find(|at| falls(board, at));
        let next = next.or_else(|| exchange(board, &mut left, (&before, end))).unwrap_or(0);
        let (pod, to) = left.remove(next);
        board.apply(pod, to);
        ordered.push((pod, to));
    }
    board.undo_to(0);
    ordered
}

/// Exchanges the targets of two pods that move once, so that the first step does not raise the values, and the last ones are the same.
/// Returns the index of that step.
fn exchange(board: &mut Board<'_>, left: &mut Vec<Step>, (before, end): (&Values, &Values)) -> Option<usize> {
    if left.len() > MOST_EXCHANGED || board.work.is_spent() {
        return None;
    }
    let once = |pod: usize| left.iter().filter(|step| step.0 == pod).count() == 1;
    let once: Vec<usize> = (0..left.len()).filter(|at| once(left[*at].0)).collect();
    let pairs = once.iter().flat_map(|first| once.iter().map(move |other| (*first, *other)));
    for (first, other) in pairs.filter(|(first, other)| left[*first].1 != left[*other].1) {
        let step = (left[first].0, left[other].1);
        if after(board, &[step], Board::values).is_none_or(|values| values > *before) {
            continue;
        }
        let mut exchanged = left.clone();
        (exchanged[first], exchanged[other].1) = (step, left[first].1);
        exchanged[..=first].rotate_right(1);
        if values_after(board, &exchanged).as_ref() == Some(end) {
            *left = exchanged;
            return Some(0);
        }
    }
    None
}

/// The values after these moves; none if one of them is not legal. The board stays as it is.
pub(crate) fn values_after(board: &mut Board<'_>, steps: &[Step]) -> Option<Values> {
    after(board, steps, Board::values)
}

fn after<'a, T>(board: &mut Board<'a>, steps: &[Step], look: impl FnOnce(&mut Board<'a>) -> T) -> Option<T> {
    let n_steps = board.n_steps();
    let is_legal = steps.iter().all(|(pod, to)| board.apply(*pod, *to));
    let seen = is_legal.then(|| look(board));
    board.undo_to(n_steps);
    seen
}
