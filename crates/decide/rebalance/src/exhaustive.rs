//! All states that moves can reach, those with the fewest moves first.
//!
//! Pods that neither rules nor budgets nor priorities distinguish are interchangeable: states that differ only in which of them is
//! where are one state. The search ends when a state is as good as the bound, when all states have been looked at, or at its
//! limit.

use std::cmp::Reverse;
use std::collections::HashMap;

use berth_api::object::Pod;

use crate::board::{Board, Values};

/// The most moves that one state may have.
const MAX_MOVES_OF_STATE: usize = 2_000;

/// The best plan that was found.
pub(crate) struct Found {
    pub(crate) steps: Vec<(usize, usize)>,
    pub(crate) values: Values,
    /// Whether no other plan is better.
    pub(crate) is_best: bool,
}

/// Fewer moves, then less important pods, then younger ones.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Cost {
    /// The priorities of the moved pods, the highest first.
    priorities: Vec<i32>,
    /// The sum of their start times.
    started: Reverse<i128>,
}

struct State {
    parent: usize,
    step: (usize, usize),
    cost: Cost,
}

/// Where the pods are, by group of interchangeable pods.
type Key = Box<[u32]>;

struct Search<'b, 'a> {
    board: &'b mut Board<'a>,
    /// The moves before the first state.
    base: usize,
    groups: Vec<Vec<usize>>,
    states: Vec<State>,
    by_key: HashMap<Key, usize>,
    best: (Values, usize),
}

/// Looks for the best plan. None if there are too many moves to choose from.
pub(crate) fn search(board: &mut Board<'_>, bounds: &Values, max_states: usize) -> Option<Found> {
    let groups = groups(board);
    let n_movable: usize = groups.iter().map(Vec::len).sum();
    if n_movable * board.movable_on.len() > MAX_MOVES_OF_STATE {
        return None;
    }
    let root = State { parent: 0, step: (0, 0), cost: Cost::default() };
    let best = (board.values(), 0);
    let base = board.n_steps();
    let mut search = Search { board, base, groups, states: vec![root], by_key: HashMap::new(), best };
    let key = search.key();
    search.by_key.insert(key, 0);
    let is_best = search.run(bounds, max_states);
    let steps = search.steps(search.best.1);
    Some(Found { steps, values: search.best.0, is_best })
}

/// The pods that may move, in groups of interchangeable ones.
fn groups(board: &Board<'_>) -> Vec<Vec<usize>> {
    let mut groups: HashMap<_, Vec<usize>> = HashMap::new();
    for (pod, info) in board.pods.iter().enumerate().filter(|(_, info)| info.stays.is_none()) {
        let single = info.has_own_claims().then_some(pod);
        let key = (board.moves.class_of(pod), info.priority(), info.requests, info.budgets.clone(), single);
        groups.entry(key).or_default().push(pod);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort();
    groups
}

impl Search<'_, '_> {
    /// Returns whether no better plan exists than the best one.
    fn run(&mut self, bounds: &Values, max_states: usize) -> bool {
        let mut layer = 0..1;
        while !layer.is_empty() {
            if self.best.0 == *bounds {
                return true;
            }
            let end = self.states.len();
            for state in layer.clone() {
                self.expand(state, end);
                if self.states.len() >= max_states || self.board.work.is_spent() {
                    return false;
                }
            }
            layer = end..self.states.len();
        }
        true
    }

    /// Looks at all states that one move reaches; those from `layer` on belong to the same number of moves.
    fn expand(&mut self, state: usize, layer: usize) {
        self.board.undo_to(self.base);
        for (pod, to) in self.steps(state) {
            self.board.apply(pod, to);
        }
        let n_steps = self.board.n_steps();
        for pod in self.movers() {
            for to in 0..self.board.movable_on.len() {
                if to == self.board.node_of(pod) {
                    continue;
                }
                let key = self.key_after(pod, to);
                if let Some(known) = self.by_key.get(&key).copied() {
                    self.reach_again(known, state, (pod, to), layer);
                } else if self.board.apply(pod, to) {
                    let cost = self.states[state].cost.with(self.board.pods[pod].pod);
                    self.add(key, State { parent: state, step: (pod, to), cost });
                    self.board.undo_to(n_steps);
                }
            }
        }
        self.board.undo_to(self.base);
    }

    fn add(&mut self, key: Key, state: State) {
        let values = self.board.values();
        let (best, of_best) = (&self.best.0, self.best.1);
        let is_as_near = || self.n_moves(of_best) == self.n_moves(state.parent) + 1;
        let is_better =
            values < *best || (values == *best && is_as_near() && state.cost < self.states[of_best].cost);
        if is_better {
            self.best = (values, self.states.len());
        }
        self.by_key.insert(key, self.states.len());
        self.states.push(state);
    }

    /// A state with as many moves may be reached by less important pods.
    fn reach_again(&mut self, known: usize, parent: usize, step: (usize, usize), layer: usize) {
        if known < layer {
            return;
        }
        let cost = self.states[parent].cost.with(self.board.pods[step.0].pod);
        if cost < self.states[known].cost {
            self.states[known] = State { parent, step, cost };
        }
    }

    /// The moves from the first state to this one.
    fn steps(&self, mut state: usize) -> Vec<(usize, usize)> {
        let mut steps = Vec::new();
        while state != 0 {
            steps.push(self.states[state].step);
            state = self.states[state].parent;
        }
        steps.reverse();
        steps
    }

    fn n_moves(&self, state: usize) -> usize {
        self.states[state].cost.priorities.len()
    }

    /// Of each group and node the pod that moves first.
    fn movers(&self) -> Vec<usize> {
        let mut movers = Vec::new();
        for group in &self.groups {
            let mut first: HashMap<u32, usize> = HashMap::new();
            for pod in group {
                let of_code = first.entry(self.code(*pod)).or_insert(*pod);
                if self.board.pods[*pod].rank() < self.board.pods[*of_code].rank() {
                    *of_code = *pod;
                }
            }
            movers.extend(first.into_values());
        }
        movers.sort_unstable();
        movers
    }

    /// Where a pod is, and whether it is ready.
    fn code(&self, pod: usize) -> u32 {
        self.board.node_of(pod) as u32 * 2 + u32::from(self.board.pods[pod].is_ready)
    }

    fn key(&self) -> Key {
        self.key_with(|pod| self.code(pod))
    }

    fn key_after(&self, moved: usize, to: usize) -> Key {
        self.key_with(|pod| if pod == moved { to as u32 * 2 + 1 } else { self.code(pod) })
    }

    fn key_with(&self, code: impl Fn(usize) -> u32) -> Key {
        let mut key = Vec::new();
        for group in &self.groups {
            let start = key.len();
            key.extend(group.iter().map(|pod| code(*pod)));
            key[start..].sort_unstable();
        }
        key.into_boxed_slice()
    }
}

impl Cost {
    fn with(&self, pod: &Pod) -> Cost {
        let mut priorities = self.priorities.clone();
        let priority = pod.spec.priority.unwrap_or(0);
        let at = priorities.partition_point(|other| *other >= priority);
        priorities.insert(at, priority);
        let started = i128::from(pod.started().unwrap_or(i64::MAX));
        Cost { priorities, started: Reverse(self.started.0 + started) }
    }
}
