//! The order of node names, as numbers.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use crate::state::node::NodeId;

/// A number per node such that names compare as their numbers do.
///
/// A new name gets a number between its neighbours'; when there is no room left, all are numbered again.
#[derive(Clone, Default)]
pub(crate) struct NameOrder {
    by_name: BTreeMap<Arc<str>, NodeId>,
    of_node: Vec<u32>,
}

/// Distance between numbers that are given out in ascending order.
const GAP: u32 = 1 << 10;

impl NameOrder {
    #[inline]
    pub(crate) fn of(&self, node: NodeId) -> u32 {
        self.of_node[node.0 as usize]
    }

    pub(crate) fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> {
        self.by_name.values().copied()
    }

    /// Adds a name; returns whether all numbers changed.
    pub(crate) fn insert(&mut self, name: Arc<str>, node: NodeId) -> bool {
        let before =
            self.by_name.range::<str, _>((Unbounded, Excluded(&*name))).next_back().map(|(_, n)| self.of(*n));
        let after =
            self.by_name.range::<str, _>((Excluded(&*name), Unbounded)).next().map(|(_, n)| self.of(*n));
        self.by_name.insert(name, node);
        if self.of_node.len() <= node.0 as usize {
            self.of_node.resize(node.0 as usize + 1, 0);
        }
        let number = match (before, after) {
            (None, None) => Some(u32::MAX / 2),
            (Some(before), None) => before.checked_add(GAP),
            (None, Some(after)) => after.checked_sub(GAP),
            (Some(before), Some(after)) => (after - before > 1).then(|| before + (after - before) / 2),
        };
        match number {
            Some(number) => {
                self.of_node[node.0 as usize] = number;
                false
            }
            None => {
                let step = u32::MAX / (self.by_name.len() as u32 + 1);
                for (i, node) in self.by_name.values().enumerate() {
                    self.of_node[node.0 as usize] = (i as u32 + 1) * step;
                }
                true
            }
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.by_name.remove(name);
    }
}
