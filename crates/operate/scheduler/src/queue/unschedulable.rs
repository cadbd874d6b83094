//! The unschedulable pods of the queue, in groups.

use std::hash::Hash;

use tokio::time::Instant;

use super::group::Group;
use super::rank::PodId;
use super::scheduling_queue::{Place, Queue};

impl<G: Clone + Eq + Hash, F> Queue<G, F> {
    /// A pod in flight is unschedulable, and its failure is that of its whole group.
    pub(crate) fn add_unschedulable(&mut self, id: PodId, key: G, failure: F, now: Instant) {
        self.fail(id, now);
        let came_from = self.entries.get_mut(&id).and_then(|entry| entry.came_from.take());
        match self.groups.get_mut(&key) {
            Some(group) => {
                group.failure = failure;
                group.is_out = false;
                group.idle_since = now;
            }
            None => {
                self.groups.insert(key.clone(), Group::new(failure, now));
            }
        }
        self.move_to(id, Place::Unschedulable(key.clone()));
        if let Some(other) = came_from.filter(|from| *from != key) {
            self.resume(&other, now);
        }
    }

    /// The failure of a group; none while one of its pods is being decided.
    pub(crate) fn failure(&self, key: &G) -> Option<&F> {
        self.groups.get(key).filter(|group| !group.is_out).map(|group| &group.failure)
    }

    /// Adds a pod to a group whose failure is known, without deciding it.
    pub(crate) fn join(&mut self, id: PodId, key: G, now: Instant) {
        self.release_group(id, now);
        self.arrived(id);
        self.move_to(id, Place::Unschedulable(key));
    }

    /// Moves an unschedulable pod to another group, which starts with `failure` if it is new.
    pub(crate) fn move_to_group(&mut self, id: PodId, key: G, failure: &F, now: Instant)
    where
        F: Clone,
    {
        self.groups.entry(key.clone()).or_insert_with(|| Group::new(failure.clone(), now));
        self.move_to(id, Place::Unschedulable(key));
    }

    /// The failures of all groups, each with the number of its pods.
    pub(crate) fn unschedulable(&self) -> impl Iterator<Item = (&F, usize)> {
        self.groups.values().map(|group| (&group.failure, group.len()))
    }

    /// The groups of which no pod is being decided, with their failures.
    pub(crate) fn idle(&self) -> impl Iterator<Item = (&G, &F)> {
        self.groups.iter().filter(|(_, group)| !group.is_out).map(|(key, group)| (key, &group.failure))
    }

    /// The groups of [`Queue::idle`] that have been idle since before `time`.
    pub(crate) fn idle_since(&self, time: Instant) -> Vec<G> {
        let idle = self.groups.iter().filter(|(_, group)| !group.is_out && group.idle_since <= time);
        idle.map(|(key, _)| key.clone()).collect()
    }

    /// The pod of a group that would be decided first.
    pub(crate) fn first_of(&mut self, key: &G, now: Instant) -> Option<PodId> {
        self.groups.get_mut(key)?.first(now)
    }

    pub(crate) fn members(&self, key: &G) -> Vec<PodId> {
        self.groups.get(key).map(|group| group.members().collect()).unwrap_or_default()
    }

    pub(crate) fn failure_mut(&mut self, key: &G) -> Option<&mut F> {
        self.groups.get_mut(key).map(|group| &mut group.failure)
    }

    /// Activates the first pod of an idle group. The others follow one by one, as long as each is placed.
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

    /// Wakes the group of an unschedulable pod; none if it has another place in the queue.
    pub(crate) fn wake_group_of(&mut self, id: PodId, now: Instant) -> Option<PodId> {
        let Place::Unschedulable(key) = &self.entries.get(&id)?.place else { return None };
        let key = key.clone();
        self.wake(&key, now)
    }

    /// The pod of a group that was being decided no longer competes with it: the next one may be decided.
    pub(super) fn resume(&mut self, key: &G, now: Instant) {
        let Some(group) = self.groups.get_mut(key) else { return };
        group.is_out = false;
        if group.is_over() {
            self.groups.remove(key);
        } else {
            self.wake(key, now);
        }
    }
}
