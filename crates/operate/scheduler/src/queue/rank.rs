//! The order of pods in the queue.

use std::cmp::Reverse;

/// A pending pod, by a number that is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodId(pub(crate) u64);

/// The order of pods: higher priority first, then first in, first out. A pod that failed is behind those that arrived
/// before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    pub(super) priority: i32,
    pub(super) arrival: u64,
}

/// A pod in the order of decisions.
pub(super) type Ranked = (Reverse<i32>, u64, PodId);

pub(super) fn ranked(id: PodId, rank: Rank) -> Ranked {
    (Reverse(rank.priority), rank.arrival, id)
}
