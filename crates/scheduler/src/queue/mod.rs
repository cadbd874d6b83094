//! The queue: which waiting pod is decided next, and which are not worth a decision now.
//!
//! A pod is *active* (to be decided), *cooling* (it failed, and its back-off is not over), *parked* (it fits nowhere, and
//! nothing has happened that could change that), *gated*, or *busy* (being decided or bound). Parked pods that nothing
//! tells apart form a group with one verdict: when something could lift it, one pod of the group is decided, and the
//! next only once that one found a place. So ten thousand pods that wait for the same thing cost one look at each
//! change, and as many decisions as there are places, and one.
//!
//! It knows neither clusters nor clocks: time is passed in.

mod group;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::time::Instant;

use group::Group;

/// A waiting pod, by a number that is given once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodId(pub(crate) u64);

/// What the order of pods follows: higher priority first, then the older one, then the one that came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rank {
    pub(crate) priority: i32,
    /// Creation, in seconds since 1970.
    pub(crate) created: i64,
}

/// Times the queue keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueOptions {
    /// The wait after a pod's first failure.
    pub(crate) first_backoff: Duration,
    /// The longest wait after failures.
    pub(crate) longest_backoff: Duration,
}

impl Default for QueueOptions {
    fn default() -> Self {
        QueueOptions { first_backoff: Duration::from_secs(1), longest_backoff: Duration::from_secs(10) }
    }
}

/// How many pods wait where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// To be decided.
    pub active: usize,
    /// Failed, and not tried again yet.
    pub backoff: usize,
    /// Fit nowhere until something changes.
    pub unschedulable: usize,
    /// Held back by scheduling gates.
    pub gated: usize,
    /// Being decided or bound.
    pub busy: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place<G> {
    Active,
    Cooling,
    Parked(G),
    Gated,
    Busy,
}

struct Entry<G> {
    rank: Rank,
    place: Place<G>,
    /// The group it left to be decided, which waits for what comes of it.
    came_from: Option<G>,
    failures: u32,
    /// Not decided again before this.
    not_before: Option<Instant>,
    /// Tells entries of the heaps that count from those that do not any more.
    stamp: u64,
}

/// Highest first: priority, then age, then number.
type ActiveKey = (i32, Reverse<i64>, Reverse<PodId>, u64);

/// The queue. `G` tells groups apart, `V` is what is known of a group's pods together.
pub(crate) struct Queue<G, V> {
    options: QueueOptions,
    entries: FxHashMap<PodId, Entry<G>>,
    active: BinaryHeap<ActiveKey>,
    cooling: BinaryHeap<Reverse<(Instant, PodId, u64)>>,
    groups: HashMap<G, Group<V>>,
    counts: QueueCounts,
    last_stamp: u64,
}

impl<G: Clone + Eq + Hash, V> Queue<G, V> {
    pub(crate) fn new(options: QueueOptions) -> Queue<G, V> {
        Queue {
            options,
            entries: FxHashMap::default(),
            active: BinaryHeap::new(),
            cooling: BinaryHeap::new(),
            groups: HashMap::new(),
            counts: QueueCounts::default(),
            last_stamp: 0,
        }
    }

    pub(crate) fn counts(&self) -> QueueCounts {
        self.counts
    }

    /// Adds a pod that is not in the queue.
    pub(crate) fn add(&mut self, id: PodId, rank: Rank, gated: bool) {
        let entry =
            Entry { rank, place: Place::Gated, came_from: None, failures: 0, not_before: None, stamp: 0 };
        let before = self.entries.insert(id, entry);
        debug_assert!(before.is_none(), "a pod is added once");
        self.counts.gated += 1;
        if !gated {
            self.activate_now(id);
        }
    }

    /// A pod's priority or age is another one.
    pub(crate) fn set_rank(&mut self, id: PodId, rank: Rank) {
        let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.rank != rank) else { return };
        let before = std::mem::replace(&mut entry.rank, rank);
        match entry.place.clone() {
            Place::Active => self.activate_now(id),
            Place::Parked(group) => {
                let not_before = entry.not_before;
                if let Some(group) = self.groups.get_mut(&group) {
                    group.remove(id, before, not_before);
                    group.insert(id, rank, not_before);
                }
            }
            Place::Cooling | Place::Gated | Place::Busy => {}
        }
    }

    /// Takes a pod out of the queue.
    pub(crate) fn remove(&mut self, id: PodId, now: Instant) {
        self.leave_place(id);
        if let Some(entry) = self.entries.remove(&id)
            && let Some(group) = entry.came_from
        {
            self.go_on(&group, now);
        }
    }

    /// Takes the first active pod; it is busy from then on.
    pub(crate) fn pop(&mut self) -> Option<PodId> {
        while let Some((_, _, Reverse(id), stamp)) = self.active.pop() {
            let is_current = |e: &Entry<G>| e.place == Place::Active && e.stamp == stamp;
            if self.entries.get(&id).is_some_and(is_current) {
                self.move_to(id, Place::Busy);
                return Some(id);
            }
        }
        None
    }

    /// A busy pod that nothing was tried with goes back to be decided.
    pub(crate) fn put_back(&mut self, id: PodId) {
        self.activate_now(id);
    }

    /// A busy pod found a place (or need not be decided for another reason): the next of its group may be decided.
    pub(crate) fn found_place(&mut self, id: PodId, now: Instant) {
        if let Some(group) = self.entries.get_mut(&id).and_then(|entry| entry.came_from.take()) {
            self.go_on(&group, now);
        }
    }

    /// A busy pod failed for reasons that time may mend: it is tried again after its back-off.
    pub(crate) fn cool(&mut self, id: PodId, now: Instant) {
        self.found_place(id, now);
        self.fail(id, now);
        self.activate(id, now);
    }

    /// A pod is to be decided (again): at once, or when its back-off is over.
    pub(crate) fn activate(&mut self, id: PodId, now: Instant) {
        match self.entries.get(&id).and_then(|entry| entry.not_before).filter(|t| *t > now) {
            Some(not_before) => {
                let Some(stamp) = self.move_to(id, Place::Cooling) else { return };
                self.cooling.push(Reverse((not_before, id, stamp)));
            }
            None => self.activate_now(id),
        }
    }

    /// A pod got scheduling gates.
    pub(crate) fn gate(&mut self, id: PodId, now: Instant) {
        self.found_place(id, now);
        self.move_to(id, Place::Gated);
    }

    /// When the first back-off ends.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.cooling.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Activates the pods whose back-off is over. Returns how many.
    pub(crate) fn end_backoffs(&mut self, now: Instant) -> usize {
        let mut n = 0;
        while let Some(Reverse((at, id, stamp))) = self.cooling.peek().copied()
            && at <= now
        {
            self.cooling.pop();
            let is_current = |e: &Entry<G>| e.place == Place::Cooling && e.stamp == stamp;
            if self.entries.get(&id).is_some_and(is_current) {
                self.activate_now(id);
                n += 1;
            }
        }
        n
    }

    fn activate_now(&mut self, id: PodId) {
        if let Some(stamp) = self.move_to(id, Place::Active)
            && let Some(Entry { rank, .. }) = self.entries.get(&id)
        {
            self.active.push((rank.priority, Reverse(rank.created), Reverse(id), stamp));
        }
    }

    fn fail(&mut self, id: PodId, now: Instant) {
        let QueueOptions { first_backoff, longest_backoff } = self.options;
        if let Some(entry) = self.entries.get_mut(&id) {
            let backoff = first_backoff.saturating_mul(1_u32.checked_shl(entry.failures).unwrap_or(u32::MAX));
            entry.failures = (entry.failures + 1).min(20);
            entry.not_before = Some(now + backoff.min(longest_backoff));
        }
    }

    /// Moves a pod to another place; returns the stamp its heap entries there must have.
    fn move_to(&mut self, id: PodId, place: Place<G>) -> Option<u64> {
        self.leave_place(id);
        self.last_stamp += 1;
        let entry = self.entries.get_mut(&id)?;
        entry.place = place;
        entry.stamp = self.last_stamp;
        *count(&mut self.counts, &entry.place) += 1;
        Some(entry.stamp)
    }

    fn leave_place(&mut self, id: PodId) {
        let Some(entry) = self.entries.get(&id) else { return };
        *count(&mut self.counts, &entry.place) -= 1;
        if let Place::Parked(key) = &entry.place
            && let Some(group) = self.groups.get_mut(key)
        {
            group.remove(id, entry.rank, entry.not_before);
            if group.is_over() {
                let key = key.clone();
                self.groups.remove(&key);
            }
        }
    }
}

fn count<'a, G>(counts: &'a mut QueueCounts, place: &Place<G>) -> &'a mut usize {
    match place {
        Place::Active => &mut counts.active,
        Place::Cooling => &mut counts.backoff,
        Place::Parked(_) => &mut counts.unschedulable,
        Place::Gated => &mut counts.gated,
        Place::Busy => &mut counts.busy,
    }
}
