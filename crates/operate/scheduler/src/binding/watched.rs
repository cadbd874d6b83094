//! Objects that pods wait for.

use std::collections::HashMap;
use std::hash::Hash;

use berth_mirror::{ClaimState, VolumeState};

use crate::queue::PodId;

/// Objects that pods wait for, as observed since the wait began.
pub(crate) struct Watched<K, S>(HashMap<K, Entry<S>>);

struct Entry<S> {
    pods: Vec<PodId>,
    state: Observed<S>,
}

pub(super) enum Observed<S> {
    Unknown,
    Exists(S),
    Deleted,
}

/// An object in a version.
pub(crate) trait Versioned {
    fn version(&self) -> u64;
}

impl Versioned for ClaimState {
    fn version(&self) -> u64 {
        self.version
    }
}

impl Versioned for VolumeState {
    fn version(&self) -> u64 {
        self.version
    }
}

impl<K: Hash + Eq, S: Versioned> Watched<K, S> {
    pub(super) fn add(&mut self, key: K, pod: PodId) {
        let entry = self.0.entry(key).or_insert(Entry { pods: Vec::new(), state: Observed::Unknown });
        if !entry.pods.contains(&pod) {
            entry.pods.push(pod);
        }
    }

    pub(super) fn remove(&mut self, key: &K, pod: PodId) {
        let Some(entry) = self.0.get_mut(key) else { return };
        entry.pods.retain(|id| *id != pod);
        if entry.pods.is_empty() {
            self.0.remove(key);
        }
    }

    /// Takes note of an object, unless a later version was observed. Returns the pods that wait for it.
    pub(crate) fn observe(&mut self, key: &K, state: S) -> Vec<PodId> {
        let Some(entry) = self.0.get_mut(key) else { return Vec::new() };
        if matches!(&entry.state, Observed::Exists(last) if last.version() > state.version()) {
            return Vec::new();
        }
        entry.state = Observed::Exists(state);
        entry.pods.clone()
    }

    pub(crate) fn deleted(&mut self, key: &K) -> Vec<PodId> {
        let Some(entry) = self.0.get_mut(key) else { return Vec::new() };
        entry.state = Observed::Deleted;
        entry.pods.clone()
    }

    pub(super) fn state(&self, key: &K) -> &Observed<S> {
        self.0.get(key).map_or(&Observed::Unknown, |entry| &entry.state)
    }
}

impl<K, S> Default for Watched<K, S> {
    fn default() -> Self {
        Watched(HashMap::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(version: u64) -> VolumeState {
        VolumeState { version, claim: None }
    }

    #[test]
    fn an_older_version_changes_nothing_and_who_waits_for_nothing_costs_nothing() {
        let mut watched: Watched<&str, VolumeState> = Watched::default();
        assert!(watched.observe(&"v", volume(1)).is_empty(), "no pod waits for it");
        assert!(matches!(watched.state(&"v"), Observed::Unknown));
        watched.add("v", PodId(1));
        watched.add("v", PodId(1));
        watched.add("v", PodId(2));
        assert_eq!(watched.observe(&"v", volume(3)), [PodId(1), PodId(2)]);
        assert!(watched.observe(&"v", volume(2)).is_empty());
        assert!(matches!(watched.state(&"v"), Observed::Exists(VolumeState { version: 3, .. })));
        watched.remove(&"v", PodId(1));
        assert_eq!(watched.deleted(&"v"), [PodId(2)]);
        watched.remove(&"v", PodId(2));
        assert!(matches!(watched.state(&"v"), Observed::Unknown));
    }
}
