//! Parked pods that nothing tells apart.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::hash::Hash;

use tokio::time::Instant;

use super::{Place, PodId, Queue, Rank};

type Member = (Reverse<i32>, i64, PodId);

/// A group of parked pods with one verdict.
pub(super) struct Group<V> {
    verdict: V,
    /// Members whose back-off is over, or who never failed themselves.
    ready: BTreeSet<Member>,
    /// Members that failed lately, by the end of their back-off.
    cooling: BTreeSet<(Instant, Member)>,
    /// One of its pods is out to be decided; what comes of it is waited for.
    is_out: bool,
    /// Since when nothing of it was decided.
    idle_since: Instant,
}

impl<V> Group<V> {
    fn new(verdict: V, now: Instant) -> Group<V> {
        Group { verdict, ready: BTreeSet::new(), cooling: BTreeSet::new(), is_out: false, idle_since: now }
    }

    fn member(id: PodId, rank: Rank) -> Member {
        (Reverse(rank.priority), rank.created, id)
    }

    pub(super) fn insert(&mut self, id: PodId, rank: Rank, not_before: Option<Instant>) {
        match not_before {
            Some(at) => _ = self.cooling.insert((at, Self::member(id, rank))),
            None => _ = self.ready.insert(Self::member(id, rank)),
        }
    }

    pub(super) fn remove(&mut self, id: PodId, rank: Rank, not_before: Option<Instant>) {
        let member = Self::member(id, rank);
        self.ready.remove(&member);
        if let Some(at) = not_before {
            self.cooling.remove(&(at, member));
        }
    }

    /// Whether nobody is in it, nor out for it.
    pub(super) fn is_over(&self) -> bool {
        self.ready.is_empty() && self.cooling.is_empty() && !self.is_out
    }

    /// The member to be decided first.
    fn first(&mut self, now: Instant) -> Option<PodId> {
        while let Some((at, member)) = self.cooling.first().copied()
            && at <= now
        {
            self.cooling.pop_first();
            self.ready.insert(member);
        }
        let first = self.ready.first().or_else(|| self.cooling.first().map(|(_, member)| member))?;
        Some(first.2)
    }

    fn members(&self) -> impl Iterator<Item = PodId> {
        self.ready.iter().chain(self.cooling.iter().map(|(_, member)| member)).map(|member| member.2)
    }
}

impl<G: Clone + Eq + Hash, V> Queue<G, V> {
    /// A busy pod fits nowhere: it is parked, and what was found holds for its whole group.
    pub(crate) fn park(&mut self, id: PodId, key: G, verdict: V, now: Instant) {
        self.fail(id, now);
        let came_from = self.entries.get_mut(&id).and_then(|entry| entry.came_from.take());
        match self.groups.get_mut(&key) {
            Some(group) => {
                group.verdict = verdict;
                group.is_out = false;
                group.idle_since = now;
            }
            None => {
                self.groups.insert(key.clone(), Group::new(verdict, now));
            }
        }
        self.put_into(id, key.clone());
        if let Some(other) = came_from.filter(|from| *from != key) {
            self.go_on(&other, now);
        }
    }

    /// What is known of a group, if it holds: none while one of its pods is out to be decided.
    pub(crate) fn verdict(&self, key: &G) -> Option<&V> {
        self.groups.get(key).filter(|group| !group.is_out).map(|group| &group.verdict)
    }

    /// Parks a pod beside others of whom the same is known, without having tried it.
    pub(crate) fn join(&mut self, id: PodId, key: G, now: Instant) {
        self.found_place(id, now);
        self.put_into(id, key);
    }

    /// Moves a parked pod to the group it belongs to by now, which starts with `verdict` if it is new.
    pub(crate) fn move_to_group(&mut self, id: PodId, key: G, verdict: &V, now: Instant)
    where
        V: Clone,
    {
        self.groups.entry(key.clone()).or_insert_with(|| Group::new(verdict.clone(), now));
        self.put_into(id, key);
    }

    fn put_into(&mut self, id: PodId, key: G) {
        self.move_to(id, Place::Parked(key.clone()));
        if let (Some(group), Some(entry)) = (self.groups.get_mut(&key), self.entries.get(&id)) {
            group.insert(id, entry.rank, entry.not_before);
        }
    }

    /// The groups of which no pod is out, and what is known of each.
    pub(crate) fn resting(&self) -> impl Iterator<Item = (&G, &V)> {
        self.groups.iter().filter(|(_, group)| !group.is_out).map(|(key, group)| (key, &group.verdict))
    }

    /// As [`Queue::resting`], with those only that rest since before `time`.
    pub(crate) fn resting_since(&self, time: Instant) -> Vec<G> {
        let resting = self.groups.iter().filter(|(_, group)| !group.is_out && group.idle_since <= time);
        resting.map(|(key, _)| key.clone()).collect()
    }

    /// The pod of a group that would be decided first.
    pub(crate) fn first_of(&mut self, key: &G, now: Instant) -> Option<PodId> {
        self.groups.get_mut(key)?.first(now)
    }

    /// All pods of a group.
    pub(crate) fn members(&self, key: &G) -> Vec<PodId> {
        self.groups.get(key).map(|group| group.members().collect()).unwrap_or_default()
    }

    /// What is known of a resting group changed, though its pods still fit nowhere.
    pub(crate) fn verdict_mut(&mut self, key: &G) -> Option<&mut V> {
        self.groups.get_mut(key).map(|group| &mut group.verdict)
    }

    /// Sends the first pod of a resting group to be decided. The others follow one by one, as long as each finds a
    /// place.
    pub(crate) fn wake(&mut self, key: &G, now: Instant) -> Option<PodId> {
        let group = self.groups.get_mut(key).filter(|group| !group.is_out)?;
        let first = group.first(now)?;
        group.is_out = true;
        if let Some(entry) = self.entries.get_mut(&first) {
            entry.came_from = Some(key.clone());
        }
        self.activate(first, now);
        Some(first)
    }

    /// The pod that was out for a group does not need its place (any more): the next one may try.
    pub(super) fn go_on(&mut self, key: &G, now: Instant) {
        let Some(group) = self.groups.get_mut(key) else { return };
        group.is_out = false;
        if group.is_over() {
            self.groups.remove(key);
        } else {
            self.wake(key, now);
        }
    }
}
