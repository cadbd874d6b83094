//! The places of pods, and how they move between them.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::group::Group;
use super::rank::{PodId, Rank, Ranked, ranked};

/// Pods whose back-offs end within the same second count as equal: the first of them by rank is decided, if nothing is
/// active.
const BACKOFF_WINDOW: Duration = Duration::from_secs(1);

/// A pod taken out of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Popped {
    pub(crate) id: PodId,
    /// Its back-off was cut short.
    pub(crate) was_in_backoff: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueOptions {
    /// The back-off after a pod's first failure.
    pub(crate) first_backoff: Duration,
    pub(crate) longest_backoff: Duration,
}

impl Default for QueueOptions {
    fn default() -> Self {
        QueueOptions { first_backoff: Duration::from_secs(1), longest_backoff: Duration::from_secs(10) }
    }
}

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
pub(super) enum Place<G> {
    Active,
    /// Until then.
    Backoff(Instant),
    Unschedulable(G),
    Gated,
    InFlight,
}

pub(super) struct Entry<G> {
    rank: Rank,
    pub(super) place: Place<G>,
    /// The group it left to be decided. The group waits for the result.
    pub(super) came_from: Option<G>,
    failures: u32,
    /// Not decided again before this.
    not_before: Option<Instant>,
    /// The last failure was not that no node fits: the back-off is never cut short.
    is_error: bool,
    /// Its last decision ended at its budget of work: the next one waits for its turn.
    waits_for_turn: bool,
}

/// The queue. `G` identifies groups, `F` is the failure that the pods of a group have in common.
pub(crate) struct Queue<G, F> {
    options: QueueOptions,
    pub(super) entries: FxHashMap<PodId, Entry<G>>,
    pub(super) active: BTreeSet<Ranked>,
    backoff: BTreeSet<(Instant, PodId)>,
    pub(super) groups: HashMap<G, Group<F>>,
    counts: QueueCounts,
    last_arrival: u64,
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
            last_arrival: 0,
        }
    }

    pub(crate) fn counts(&self) -> QueueCounts {
        self.counts
    }

    pub(crate) fn add(&mut self, id: PodId, priority: i32, gated: bool) {
        let rank = Rank { priority, arrival: self.next_arrival() };
        let entry = Entry {
            rank,
            place: Place::Gated,
            came_from: None,
            failures: 0,
            not_before: None,
            is_error: false,
            waits_for_turn: false,
        };
        let before = self.entries.insert(id, entry);
        debug_assert!(before.is_none(), "a pod is added once");
        self.counts.gated += 1;
        if !gated {
            self.move_to(id, Place::Active);
        }
    }

    pub(crate) fn set_priority(&mut self, id: PodId, priority: i32) {
        if let Some(Entry { rank: Rank { arrival, .. }, .. }) = self.entries.get(&id) {
            let rank = Rank { priority, arrival: *arrival };
            self.set_rank(id, rank);
        }
    }

    /// A pod counts as one that arrives now.
    pub(super) fn arrived(&mut self, id: PodId) {
        let arrival = self.next_arrival();
        if let Some(Entry { rank: Rank { priority, .. }, .. }) = self.entries.get(&id) {
            let rank = Rank { priority: *priority, arrival };
            self.set_rank(id, rank);
        }
    }

    /// Pods count as arriving now, in this order.
    pub(crate) fn arrived_in_order(&mut self, ids: impl Iterator<Item = PodId>) {
        // A million pods are not moved one by one in a set of a million: most of them come to the end of an empty one.
        let before = std::mem::take(&mut self.active);
        ids.for_each(|id| self.arrived(id));
        let stays = |(_, arrival, id): &Ranked| {
            self.entries.get(id).is_some_and(|entry| entry.rank.arrival == *arrival)
        };
        self.active.extend(before.into_iter().filter(stays));
    }

    fn next_arrival(&mut self) -> u64 {
        self.last_arrival += 1;
        self.last_arrival
    }

    fn set_rank(&mut self, id: PodId, rank: Rank) {
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

    pub(crate) fn remove(&mut self, id: PodId, now: Instant) {
        self.leave_place(id);
        if let Some(entry) = self.entries.remove(&id)
            && let Some(group) = entry.came_from
        {
            self.resume(&group, now);
        }
    }

    /// Takes the first active pod; it is in flight from then on. Without active pods, the back-off of a pod for which no
    /// node fitted is cut short: there is time to decide it.
    pub(crate) fn pop(&mut self) -> Option<Popped> {
        let popped = match self.active.first() {
            Some((_, _, id)) => Popped { id: *id, was_in_backoff: false },
            None => Popped { id: self.first_in_backoff()?, was_in_backoff: true },
        };
        self.move_to(popped.id, Place::InFlight);
        Some(popped)
    }

    /// The pod with the highest rank among those whose back-off ends first and may be cut short.
    fn first_in_backoff(&self) -> Option<PodId> {
        let entry = |id: &PodId| self.entries.get(id).filter(|entry| !entry.is_error);
        let mut pods =
            self.backoff.iter().filter_map(|(at, id)| Some((*at, *id, entry(id)?.rank))).peekable();
        let end = pods.peek()?.0 + BACKOFF_WINDOW;
        pods.take_while(|(at, ..)| *at < end).map(|(_, id, rank)| ranked(id, rank)).min().map(|(.., id)| id)
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
        self.keep_backoff(id);
        self.activate(id, now);
    }

    /// The decision of a pod, which is in flight or unschedulable since then, ended at its budget of work: it is decided again after
    /// its back-off, in its turn.
    pub(crate) fn wait_for_turn(&mut self, id: PodId, now: Instant) {
        if self.entries.get(&id).is_some_and(|entry| entry.place == Place::InFlight) {
            self.release_group(id, now);
            self.fail(id, now);
        }
        self.keep_backoff(id);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.waits_for_turn = true;
        }
        self.activate(id, now);
    }

    pub(crate) fn waits_for_turn(&self, id: PodId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.waits_for_turn)
    }

    /// A pod in flight is decided at the next turn.
    pub(crate) fn postpone(&mut self, id: PodId, until: Instant) {
        self.move_to(id, Place::Backoff(until));
    }

    /// The back-off of a pod that just failed is not cut short.
    pub(crate) fn keep_backoff(&mut self, id: PodId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.is_error = true;
        }
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

    pub(super) fn fail(&mut self, id: PodId, now: Instant) {
        self.arrived(id);
        let QueueOptions { first_backoff, longest_backoff } = self.options;
        if let Some(entry) = self.entries.get_mut(&id) {
            let backoff = first_backoff.saturating_mul(1_u32.checked_shl(entry.failures).unwrap_or(u32::MAX));
            entry.failures = (entry.failures + 1).min(20);
            let before = entry.not_before.replace(now + backoff.min(longest_backoff));
            entry.is_error = false;
            entry.waits_for_turn = false;
            // A binding of a group may fail while the rest of the group is unschedulable.
            if let Place::Unschedulable(group) = &entry.place
                && let Some(group) = self.groups.get_mut(group)
            {
                group.remove(id, entry.rank, before);
                group.insert(id, entry.rank, entry.not_before);
            }
        }
    }

    pub(super) fn move_to(&mut self, id: PodId, place: Place<G>) {
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
