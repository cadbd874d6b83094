//! Better states of large clusters, found step by step: each goal in its order looks for moves, alone or together, after which
//! the values of all goals are lower.

mod consolidate;
mod room;
mod single;
mod spread;

use crate::board::Board;
use crate::goal::Goal;

/// Nodes whose room is compared in a step of work.
const NODES_PER_STEP: usize = 8;

/// Moves pods until no goal finds anything better.
pub(crate) fn improve(board: &mut Board<'_>) {
    loop {
        let n_steps = board.n_steps();
        for goal in board.goals.clone() {
            match goal {
                Goal::Required => single::rejected(board),
                Goal::Defragment => room::for_pending(board),
                Goal::Spread => spread::skewed(board),
                Goal::Preferences => single::unmet(board),
                Goal::Consolidate => consolidate::nodes(board),
                Goal::Balance => single::hot(board),
            }
        }
        if board.n_steps() == n_steps || board.work.is_spent() {
            return;
        }
    }
}

impl Board<'_> {
    /// Tries moves that belong together. They are taken back unless the values are lower after them.
    fn attempt(&mut self, moves: impl FnOnce(&mut Self)) -> bool {
        let (n_steps, values) = (self.n_steps(), self.values());
        moves(self);
        let is_better = self.values() < values;
        if !is_better {
            self.undo_to(n_steps);
        }
        is_better
    }

    /// Nodes with most room first, of those given.
    fn roomiest(&self, nodes: impl Iterator<Item = usize>, n: usize) -> Vec<usize> {
        let i = self.nodes.scarcest();
        let mut found: Vec<(i64, usize)> = Vec::with_capacity(n + 1);
        let mut n_nodes = 0;
        for node in nodes {
            n_nodes += 1;
            let key = (-self.nodes.of[node].free(i), node);
            if found.len() < n || key < found[n - 1] {
                let at = found.partition_point(|other| *other < key);
                found.insert(at, key);
                found.truncate(n);
            }
        }
        self.spend(n_nodes / NODES_PER_STEP);
        found.into_iter().map(|(_, node)| node).collect()
    }
}
