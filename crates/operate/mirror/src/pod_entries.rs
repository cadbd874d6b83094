//! The pods that the state knows, with or without a node.

use berth_api::object::NamespacedName;

use crate::entries::Entries;
use crate::fingerprint::PodFingerprint;
use crate::uid::Uid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Without a node, and not in the engine's state.
    Pending,
    /// A scheduler assumes it on a node; the API server has not confirmed the binding yet.
    Assumed,
    /// The API server reports it on a node.
    Assigned,
}

/// A pod that has not terminated. Its node is in the engine's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodEntry {
    pub(crate) uid: Uid,
    pub(crate) placement: Placement,
    pub(crate) fingerprint: PodFingerprint,
}

#[derive(Debug, Default)]
pub(crate) struct PodEntries {
    pub(crate) entries: Entries<PodEntry>,
    pub(crate) n_placed: usize,
    pub(crate) n_assumed: usize,
}

impl PodEntries {
    pub(crate) fn insert(&mut self, key: NamespacedName, entry: PodEntry) {
        self.n_placed += usize::from(entry.placement != Placement::Pending);
        self.n_assumed += usize::from(entry.placement == Placement::Assumed);
        let before = self.entries.insert(&key, entry);
        self.discount(before.as_ref());
    }

    pub(crate) fn remove(&mut self, key: &NamespacedName) -> Option<PodEntry> {
        let removed = self.entries.remove(key);
        self.discount(removed.as_ref());
        removed
    }

    fn discount(&mut self, entry: Option<&PodEntry>) {
        if let Some(PodEntry { placement, .. }) = entry {
            self.n_placed -= usize::from(*placement != Placement::Pending);
            self.n_assumed -= usize::from(*placement == Placement::Assumed);
        }
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&PodEntry> {
        self.entries.get(&NamespacedName::new(namespace, name))
    }
}
