//! The scheduling queue: which pending pod is decided next, and which pods are not worth a decision now.
//!
//! A pod is *active* (to be decided), in *backoff* (it failed, and its back-off is not over), *unschedulable* (no node fits,
//! and nothing has happened that could change that), *gated*, or *in flight* (being decided or bound). Unschedulable pods
//! that no rule can tell apart form a group with one failure: when a change could help, one pod of the group is decided,
//! and the next one only after that one was placed. So ten thousand pods that wait for the same thing cost one look at
//! each change, one decision for each node found, and one more.
//!
//! It knows neither clusters nor clocks: time is passed in.

mod group;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::time::Instant;

use group::Group;

/// A pending pod, by a number that is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodId(pub(crate) u64);

/// The order of pods: higher priority first, then older first, then first in, first out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rank {
    pub(crate) priority: i32,
    /// Creation, in seconds since 1970.
    pub(crate) created: i64,
}

/// A pod in the order of decisions.
type Ranked = (Reverse<i32>, i64, PodId);

fn ranked(id: PodId, rank: Rank) -> Ranked {
    (Reverse(rank.priority), rank.created, id)
}

/// Back-off times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueOptions {
    /// The back-off after a pod's first failure.
    pub(crate) first_backoff: Duration,
    /// The longest back-off.
    pub(crate) longest_backoff: Duration,
}

impl Default for QueueOptions {
    fn default() -> Self {
        QueueOptions { first_backoff: Duration::from_secs(1), longest_backoff: Duration::from_secs(10) }
    }
}

/// Number of pods by queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// To be decided.
    pub active: usize,
    /// Failed, and not tried again before the end of their back-off.
    pub backoff: usize,
    /// No node fits until something changes.
    pub unschedulable: usize,
    /// Blocked by scheduling gates.
    pub gated: usize,
    /// Being decided or bound.
    pub in_flight: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place<G> {
    Active,
    /// Until then.
    Backoff(Instant),
    Unschedulable(G),
    Gated,
    InFlight,
}

struct Entry<G> {
    rank: Rank,
    place: Place<G>,
    /// The group it left to be decided. The group waits for the result.
    came_from: Option<G>,
    failures: u32,
    /// Not decided again before this.
    not_before: Option<Instant>,
}

/// The queue. `G` identifies groups, `F` is the failure that the pods of a group have in common.
pub(crate) struct Queue<G, F> {
    options: QueueOptions,
    entries: FxHashMap<PodId, Entry<G>>,
    active: BTreeSet<Ranked>,
    backoff: BTreeSet<(Instant, PodId)>,
    groups: HashMap<G, Group<F>>,
    counts: QueueCounts,
}

impl<G: Clone + Eq + Hash, F> Queue<G, F> {
    pub(crate) fn new(options: QueueOptions) -> Queue<G, F> {
        Queue {
            options,
            entries: FxHashMap::default(),
            active: BTreeSet::new(),
            backoff: BTreeSet::new(),
            groups: HashMap::new(),
            counts: QueueCounts::default(),
        }
    }

    pub(crate) fn counts(&self) -> QueueCounts {
        self.counts
    }

    /// Adds a pod that is not in the queue.
    pub(crate) fn add(&mut self, id: PodId, rank: Rank, gated: bool) {
        let entry = Entry { rank, place: Place::Gated, came_from: None, failures: 0, not_before: None };
        let before = self.entries.insert(id, entry);
        debug_assert!(before.is_none(), "a pod is added once");
        self.counts.gated += 1;
        if !gated {
            self.move_to(id, Place::Active);
        }
    }

    /// A pod's priority or age changed.
    pub(crate) fn set_rank(&mut self, id: PodId, rank: Rank) {
        let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.rank != rank) else { return };
        let before = std::mem::replace(&mut entry.rank, rank);
        match &entry.place {
            Place::Active => {
                self.active.remove(&ranked(id, before));
                self.active.insert(ranked(id, rank));
            }
            Place::Unschedulable(group) => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.remove(id, before, entry.not_before);
                    group.insert(id, rank, entry.not_before);
                }
            }
            Place::Backoff(_) | Place::Gated | Place::InFlight => {}
        }
    }

    /// Takes a pod out of the queue.
    pub(crate) fn remove(&mut self, id: PodId, now: Instant) {
        self.leave_place(id);
        if let Some(entry) = self.entries.remove(&id)
            && let Some(group) = entry.came_from
        {
            self.resume(&group, now);
        }
    }

    /// Takes the first active pod; it is in flight from then on.
    pub(crate) fn pop(&mut self) -> Option<PodId> {
        let (_, _, id) = *self.active.first()?;
        self.move_to(id, Place::InFlight);
        Some(id)
    }

    /// A pod in flight with which nothing was tried becomes active again.
    pub(crate) fn put_back(&mut self, id: PodId) {
        self.move_to(id, Place::Active);
    }

    /// A pod in flight was placed (or needs no decision for another reason): the next pod of its group may be decided.
    pub(crate) fn release_group(&mut self, id: PodId, now: Instant) {
        if let Some(group) = self.entries.get_mut(&id).and_then(|entry| entry.came_from.take()) {
            self.resume(&group, now);
        }
    }

    /// A pod in flight failed for reasons that may pass with time: it is tried again after its back-off.
    pub(crate) fn back_off(&mut self, id: PodId, now: Instant) {
        self.release_group(id, now);
        self.fail(id, now);
        self.activate(id, now);
    }

    /// A pod is to be decided (again): at once, or when its back-off is over.
    pub(crate) fn activate(&mut self, id: PodId, now: Instant) {
        let not_before = self.entries.get(&id).and_then(|entry| entry.not_before).filter(|t| *t > now);
        self.move_to(id, not_before.map_or(Place::Active, Place::Backoff));
    }

    /// A pod got scheduling gates.
    pub(crate) fn gate(&mut self, id: PodId, now: Instant) {
        self.release_group(id, now);
        self.move_to(id, Place::Gated);
    }

    /// When the first back-off ends.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.backoff.first().map(|(at, _)| *at)
    }

    /// Activates the pods whose back-off is over. Returns how many.
    pub(crate) fn end_backoffs(&mut self, now: Instant) -> usize {
        let mut n = 0;
        while let Some((_, id)) = self.backoff.first().copied().filter(|(at, _)| *at <= now) {
            self.move_to(id, Place::Active);
            n += 1;
        }
        n
    }

    fn fail(&mut self, id: PodId, now: Instant) {
        let QueueOptions { first_backoff, longest_backoff } = self.options;
        if let Some(entry) = self.entries.get_mut(&id) {
            let backoff = first_backoff.saturating_mul(1_u32.checked_shl(entry.failures).unwrap_or(u32::MAX));
            entry.failures = (entry.failures + 1).min(20);
            entry.not_before = Some(now + backoff.min(longest_backoff));
        }
    }

    fn move_to(&mut self, id: PodId, place: Place<G>) {
        self.leave_place(id);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        match &place {
            Place::Active => _ = self.active.insert(ranked(id, entry.rank)),
            Place::Backoff(until) => _ = self.backoff.insert((*until, id)),
            Place::Unschedulable(group) => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.insert(id, entry.rank, entry.not_before);
                }
            }
            Place::Gated | Place::InFlight => {}
        }
        *count(&mut self.counts, &place) += 1;
        entry.place = place;
    }

    fn leave_place(&mut self, id: PodId) {
        let Some(entry) = self.entries.get(&id) else { return };
        *count(&mut self.counts, &entry.place) -= 1;
        match &entry.place {
            Place::Active => _ = self.active.remove(&ranked(id, entry.rank)),
            Place::Backoff(until) => _ = self.backoff.remove(&(*until, id)),
            Place::Unschedulable(key) => {
                if let Some(group) = self.groups.get_mut(key) {
                    group.remove(id, entry.rank, entry.not_before);
                    if group.is_over() {
                        self.groups.remove(key);
                    }
                }
            }
            Place::Gated | Place::InFlight => {}
        }
    }
}

fn count<'a, G>(counts: &'a mut QueueCounts, place: &Place<G>) -> &'a mut usize {
    match place {
        Place::Active => &mut counts.active,
        Place::Backoff(_) => &mut counts.backoff,
        Place::Unschedulable(_) => &mut counts.unschedulable,
        Place::Gated => &mut counts.gated,
        Place::InFlight => &mut counts.in_flight,
    }
}
