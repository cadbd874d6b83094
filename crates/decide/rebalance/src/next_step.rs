//! The next step of a plan of which a part is carried out.

use std::collections::{BTreeMap, HashMap};

use berth_api::object::Pod;

use crate::board::{Board, name};
use crate::goal::Goal;
use crate::plan::{Move, named};
use crate::request::{Input, Request};
use crate::tidy::values_after;

/// What the next step of a plan does.
#[derive(Clone, Debug, PartialEq)]
pub struct NextStep {
    /// The nodes where the replacement may go. With a scheduler that goes its own way these are all nodes where it might put
    /// the replacement.
    pub targets: Vec<String>,
    /// The values of the goals now.
    pub before: BTreeMap<Goal, f64>,
    /// The values after the rest of the plan.
    pub after: BTreeMap<Goal, f64>,
}

/// Why the next step of a plan is not to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A step is not legal in the cluster as it is now, or the rest of the plan improves nothing.
    Outdated,
    /// The scheduler would put the replacement on one of these nodes, or on none, and the plan would be worth less, or not legal.
    Elsewhere(Vec<String>),
}

/// Checks the rest of a plan in the cluster as it is now. It has at least one move. `chooses` says of which pods the scheduler chooses the
/// nodes by its own rules and scores, whatever the target is.
///
/// # Errors
/// The rest is not to be carried out.
pub fn next_step(
    input: Input<'_>,
    request: &Request,
    rest: &[Move],
    chooses: impl Fn(&Pod) -> bool,
) -> Result<NextStep, Obstacle> {
    let mut board = Board::new(input, request);
    let mut steps = steps(&board, rest).ok_or(Obstacle::Outdated)?;
    let before = board.values();
    let after = values_after(&mut board, &steps).filter(|after| *after < before).ok_or(Obstacle::Outdated)?;
    let (pod, to) = *steps.first().ok_or(Obstacle::Outdated)?;
    let targets = match chooses(board.pods[pod].pod) {
        true => board.moves.choices(pod),
        false => vec![to],
    };
    let name = |node: &usize| board.moves.nodes()[*node].clone();
    let names: Vec<String> = targets.iter().map(name).collect();
    let is_as_good = |node: usize| {
        steps[0].1 = node;
        values_after(&mut board, &steps).is_some_and(|values| values <= after)
    };
    if targets.is_empty() || !targets.into_iter().filter(|node| *node != to).all(is_as_good) {
        return Err(Obstacle::Elsewhere(names));
    }
    Ok(NextStep { targets: names, before: named(request, &before), after: named(request, &after) })
}

/// The positions of the pods and of their targets; none if a pod is not where its move begins.
fn steps(board: &Board<'_>, rest: &[Move]) -> Option<Vec<(usize, usize)>> {
    let positions = board.pods.iter().enumerate().map(|(at, info)| (name(info.pod), at));
    let positions: HashMap<_, _> = positions.collect();
    let mut nodes: HashMap<usize, usize> = HashMap::new();
    let step = |step: &Move| {
        let pod = *positions.get(&(step.namespace.as_str(), step.name.as_str()))?;
        let to = board.moves.position_of(&step.to)?;
        let from = nodes.insert(pod, to).unwrap_or_else(|| board.node_of(pod));
        (board.moves.nodes()[from] == step.from).then_some((pod, to))
    };
    rest.iter().map(step).collect()
}
