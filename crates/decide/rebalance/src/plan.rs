//! Plans: what is moved, in which order, and what that is worth.

use std::collections::BTreeMap;

use berth_api::work::WorkBudget;
use serde::{Serialize, Serializer};
use serde_json::Number;

use crate::board::{Board, Values, name};
use crate::bounds::bounds;
use crate::exhaustive::{self, Found};
use crate::goal::Goal;
use crate::improve::improve;
use crate::request::{Input, Request};
use crate::tidy::tidy;

/// A list of moves that can be carried out one after the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub moves: Vec<Move>,
    /// The values of the goals without the plan.
    #[serde(serialize_with = "numbers")]
    pub before: BTreeMap<Goal, f64>,
    /// The same after it.
    #[serde(serialize_with = "numbers")]
    pub after: BTreeMap<Goal, f64>,
    /// What no plan comes below.
    #[serde(serialize_with = "numbers")]
    pub bounds: BTreeMap<Goal, f64>,
    /// Whether every state that moves can reach was looked at: no plan reaches better values, or the same with fewer moves.
    #[serde(rename = "exhaustive")]
    pub is_exhaustive: bool,
    /// Whether the search ended at [`Request::max_steps`].
    #[serde(rename = "cut")]
    pub is_cut: bool,
    /// The steps of work that it took.
    #[serde(skip)]
    pub n_work_steps: u64,
    /// The number of moves that were left out for [`Request::max_moves`].
    pub left_out: usize,
    /// The pending pods that find a node after the moves.
    pub placed: Vec<Placed>,
    /// The pods whose moves would help and that must stay, by namespace and name.
    pub immovable: Vec<Immovable>,
}

/// Whole numbers are written without a fraction.
fn numbers<S: Serializer>(values: &BTreeMap<Goal, f64>, serializer: S) -> Result<S::Ok, S::Error> {
    let number = |value: f64| match value.fract() == 0.0 {
        true => Number::from(value as i64),
        false => Number::from_f64(value).unwrap_or_else(|| Number::from(0)),
    };
    serializer.collect_map(values.iter().map(|(goal, value)| (goal, number(*value))))
}

/// A move of a pod: it is evicted, and its controller creates another one, which goes to the other node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    pub namespace: String,
    /// Its name before the plan: a pod that is moved again keeps it here.
    pub name: String,
    pub from: String,
    /// The node that it goes to.
    pub to: String,
    /// The most important goal that the move, with those that belong to it, improves.
    pub goal: Goal,
    /// The priority of the pod.
    pub cost: i32,
}

/// A pending pod that finds a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placed {
    pub namespace: String,
    pub name: String,
    pub node: String,
}

/// A pod that must stay where it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Immovable {
    pub namespace: String,
    pub name: String,
    pub reason: String,
}

pub fn plan(input: Input<'_>, request: &Request) -> Plan {
    let mut board = Board::new(input, request);
    let (before, bounds) = (board.values(), bounds(&board));
    let is_exhaustive = make(&mut board, &bounds, request);
    let is_cut = board.work.is_spent();
    let mut n_work_steps = board.work.n_spent();
    board.work = WorkBudget::new(request.max_steps / 4);
    let steps = tidy(&mut board);
    n_work_steps += board.work.n_spent();
    let kept = request.max_moves.map_or(steps.len(), |max| steps.len().min(max));
    board.undo_to(0);
    let moves = replay(&mut board, &steps[..kept]);
    let after = board.values();
    let immovable = immovable(&board, &after, is_exhaustive && kept == steps.len());
    let placed = if board.goals.contains(&Goal::Defragment) { placed(&mut board) } else { Vec::new() };
    Plan {
        moves,
        before: named(request, &before),
        after: named(request, &after),
        bounds: named(request, &bounds),
        is_exhaustive,
        is_cut,
        n_work_steps,
        left_out: steps.len() - kept,
        placed,
        immovable,
    }
}

pub(crate) fn named(request: &Request, values: &Values) -> BTreeMap<Goal, f64> {
    let value = |(goal, value): (&Goal, &i64)| {
        let in_thousandths = *goal == Goal::Consolidate && request.price_label.is_some();
        (*goal, if in_thousandths { *value as f64 / 1000.0 } else { *value as f64 })
    };
    request.goals.iter().zip(values).map(value).collect()
}

/// Moves pods until neither search finds anything better. Returns whether no better plan exists.
fn make(board: &mut Board<'_>, bounds: &Values, request: &Request) -> bool {
    loop {
        let start = board.n_steps();
        let found = exhaustive::search(board, bounds, request.max_states);
        let is_best = found.as_ref().is_some_and(|found| found.is_best);
        if !is_best {
            improve(board);
        }
        if let Some(Found { steps, values, .. }) = found {
            let here = (board.values(), board.n_steps() - start);
            if is_best || (values, steps.len()) < here {
                board.undo_to(start);
                steps.iter().for_each(|(pod, to)| _ = board.apply(*pod, *to));
            }
        }
        if is_best || board.n_steps() == start || board.work.is_spent() {
            return is_best && start == 0;
        }
    }
}

/// Makes the moves of a plan again, and says what each is for: the first goal whose value it lowers, or else what the moves after it
/// are for.
fn replay(board: &mut Board<'_>, steps: &[(usize, usize)]) -> Vec<Move> {
    let mut moves: Vec<Move> = Vec::with_capacity(steps.len());
    let mut n_known = 0;
    let mut values = board.values();
    for (pod, to) in steps {
        let from = board.node_of(*pod);
        board.apply(*pod, *to);
        let (info, nodes) = (&board.pods[*pod], board.moves.nodes());
        let (namespace, name) = name(info.pod);
        moves.push(Move {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            from: nodes[from].clone(),
            to: nodes[*to].clone(),
            goal: board.goals[0],
            cost: info.priority(),
        });
        let after = board.values();
        if let Some(i) = (0..after.len()).find(|i| after[*i] < values[*i]) {
            moves[n_known..].iter_mut().for_each(|made| made.goal = board.goals[i]);
            n_known = moves.len();
        }
        values = after;
    }
    moves
}

fn placed(board: &mut Board<'_>) -> Vec<Placed> {
    let outcomes = board.waiting.place(board.moves.cluster());
    let pods = board.waiting.units.iter().flat_map(|unit| &unit.pods);
    let placed = pods.zip(outcomes.iter().flatten()).filter_map(|((pod, _), outcome)| {
        let (namespace, name) = name(pod);
        let node = outcome.node()?.to_owned();
        Some(Placed { namespace: namespace.to_owned(), name: name.to_owned(), node })
    });
    placed.collect()
}

/// What is said of pods that no plan moves, if all plans have been looked at.
const IMPOSSIBLE: &str = "no legal order of moves that moves it is better: all were looked at";

/// The pods that stay although moving them could lower a value.
fn immovable(board: &Board<'_>, values: &Values, is_best: bool) -> Vec<Immovable> {
    let mut helpful = vec![false; board.pods.len()];
    let mut misplaced = helpful.clone();
    let ideal = |goal: &Goal| if *goal == Goal::Consolidate { board.nodes.bound(|_| false) } else { 0 };
    let open = board.goals.iter().zip(values).filter(|(goal, value)| **value > ideal(goal));
    for (goal, _) in open {
        let skewed = if *goal == Goal::Spread { board.moves.skewed() } else { Vec::new() };
        for (pod, info) in board.pods.iter().enumerate() {
            let node = board.node_of(pod);
            let helps = match goal {
                Goal::Required => board.moves.is_rejected(pod),
                Goal::Preferences => board.moves.unmet(pod) > 0,
                Goal::Spread => skewed.iter().any(|constraint| {
                    constraint.fullest.binary_search(&node).is_ok()
                        && board.moves.counts_for(pod, constraint.constraint)
                }),
                Goal::Balance => !info.is_of_node && board.nodes.is_hot(node),
                Goal::Consolidate | Goal::Defragment => !info.is_of_node,
            };
            helpful[pod] |= helps;
            misplaced[pod] |= helps && !matches!(goal, Goal::Consolidate | Goal::Defragment);
        }
    }
    let impossible = |pod: usize| (is_best && misplaced[pod]).then(|| IMPOSSIBLE.to_owned());
    let mut immovable: Vec<_> = (0..board.pods.len())
        .filter(|pod| helpful[*pod])
        .filter_map(|pod| {
            let info = &board.pods[pod];
            let (namespace, name) = name(info.pod);
            let reason = info.stays.clone();
            let reason = reason.or_else(|| board.held_by_budget(pod)).or_else(|| impossible(pod))?;
            Some(Immovable { namespace: namespace.to_owned(), name: name.to_owned(), reason })
        })
        .collect();
    immovable.sort();
    immovable
}
