//! Slots by the hashes of their keys.

use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;

/// The slots of a list by their keys, which are in the list. The hashes are kept, so that a table that grows does not look at every
/// slot for them. Keys contain what users send: the hasher is keyed.
#[derive(Clone, Default)]
pub(in crate::state) struct ByHash {
    slots: HashTable<(u32, u32)>,
    hasher: RandomState,
}

/// The hash that the table expects, of the half that is kept.
fn whole(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl ByHash {
    fn hash(&self, key: &(impl Hash + ?Sized)) -> u32 {
        self.hasher.hash_one(key) as u32
    }

    /// Number of slots.
    pub(in crate::state) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Makes room for this many more.
    pub(in crate::state) fn reserve(&mut self, n_more: usize) {
        self.slots.reserve(n_more, |(hash, _)| whole(*hash));
    }

    /// The slot with a key.
    pub(in crate::state) fn find(
        &self,
        key: &(impl Hash + ?Sized),
        has_key: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let hash = self.hash(key);
        let is_it = |(known, slot): &(u32, u32)| *known == hash && has_key(*slot);
        self.slots.find(whole(hash), is_it).map(|(_, slot)| *slot)
    }

    /// Adds a slot, whose key must be new.
    pub(in crate::state) fn insert(&mut self, key: &(impl Hash + ?Sized), slot: u32) {
        let hash = self.hash(key);
        self.slots.insert_unique(whole(hash), (hash, slot), |(hash, _)| whole(*hash));
    }

    /// Removes the slot with a key.
    pub(in crate::state) fn remove(&mut self, key: &(impl Hash + ?Sized), slot: u32) {
        if let Ok(found) = self.slots.find_entry(whole(self.hash(key)), |(_, known)| *known == slot) {
            found.remove();
        }
    }
}
