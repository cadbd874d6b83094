//! Slots of a list by the hashes of their keys.

use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;

/// The slots of a list, such as their positions, by their keys, which are in the list. The hashes are kept, so that a table that grows
/// does not look at every slot for them. Keys contain what users send: the hasher is keyed.
#[derive(Clone, Debug)]
pub struct ByHash<S = u32> {
    slots: HashTable<(u32, S)>,
    hasher: RandomState,
}

impl<S> Default for ByHash<S> {
    fn default() -> Self {
        ByHash { slots: HashTable::new(), hasher: RandomState::new() }
    }
}

/// The hash that the table expects, of the half that is kept.
fn whole(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl<S: Copy + PartialEq> ByHash<S> {
    fn hash(&self, key: &(impl Hash + ?Sized)) -> u32 {
        self.hasher.hash_one(key) as u32
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no slot.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Makes room for this many more.
    pub fn reserve(&mut self, n_more: usize) {
        self.slots.reserve(n_more, |(hash, _)| whole(*hash));
    }

    /// The slot with a key.
    pub fn find(&self, key: &(impl Hash + ?Sized), has_key: impl Fn(S) -> bool) -> Option<S> {
        let hash = self.hash(key);
        let is_it = |(known, slot): &(u32, S)| *known == hash && has_key(*slot);
        self.slots.find(whole(hash), is_it).map(|(_, slot)| *slot)
    }

    /// Adds a slot, whose key must be new.
    pub fn insert(&mut self, key: &(impl Hash + ?Sized), slot: S) {
        let hash = self.hash(key);
        self.slots.insert_unique(whole(hash), (hash, slot), |(hash, _)| whole(*hash));
    }

    pub fn remove(&mut self, key: &(impl Hash + ?Sized), slot: S) {
        if let Ok(found) = self.slots.find_entry(whole(self.hash(key)), |(_, known)| *known == slot) {
            found.remove();
        }
    }
}
