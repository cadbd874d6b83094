//! Tables of interned values with counted users.
//!
//! A value is stored once, whatever the number of its users, and is removed with the last of them. Its slot is used
//! again, but under another generation: an id that outlives its value is equal to no later id.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;

use berth_api::by_hash::ByHash;

/// A value that a table finds by its key.
pub(crate) trait Keyed {
    type Key: ?Sized + Eq + Hash;

    fn key(&self) -> &Self::Key;
}

/// The id of a `T` in its table.
pub(crate) struct Id<T> {
    slot: u32,
    generation: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// The first id that a new table gives out.
    pub(crate) const FIRST: Id<T> = Id { slot: 0, generation: 0, of: PhantomData };

    /// The number of its slot, which ids of the same time do not share.
    pub(crate) fn index(self) -> usize {
        self.slot as usize
    }

    /// A number that no other id of the table has at any time.
    pub(crate) fn number(self) -> u64 {
        u64::from(self.slot) << 32 | u64::from(self.generation)
    }
}

// Derived impls would require the same of `T`.
impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number() == other.number()
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.number().cmp(&other.number())
    }
}

impl<T> Hash for Id<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.number().hash(state);
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}

#[derive(Clone)]
struct Slot<T> {
    generation: u32,
    n_users: u32,
    value: Option<T>,
}

#[derive(Clone)]
pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    by_key: ByHash,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { slots: Vec::new(), free: Vec::new(), by_key: ByHash::default() }
    }
}

const LIVING: &str = "every holder of an id is counted as a user of its value";

impl<T: Keyed> Table<T> {
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn find(&self, key: &T::Key) -> Option<Id<T>> {
        let is_it = |slot: u32| self.slots[slot as usize].value.as_ref().is_some_and(|v| v.key() == key);
        self.by_key.find(key, is_it).map(|slot| self.id(slot))
    }

    fn id(&self, slot: u32) -> Id<T> {
        Id { slot, generation: self.slots[slot as usize].generation, of: PhantomData }
    }

    /// Adds a value with one user. Its key must be new.
    pub(crate) fn insert(&mut self, value: T) -> Id<T> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, n_users: 0, value: None });
            (self.slots.len() - 1) as u32
        });
        self.by_key.insert(value.key(), slot);
        let entry = &mut self.slots[slot as usize];
        (entry.n_users, entry.value) = (1, Some(value));
        self.id(slot)
    }

    /// Counts one more user.
    pub(crate) fn retain(&mut self, id: Id<T>) {
        debug_assert!(self.find_by_id(id).is_some(), "{LIVING}");
        self.slots[id.index()].n_users += 1;
    }

    pub(crate) fn n_users(&self, id: Id<T>) -> u32 {
        self.slots[id.index()].n_users
    }

    /// Counts one user fewer; returns the value if that was the last one.
    pub(crate) fn release(&mut self, id: Id<T>) -> Option<T> {
        debug_assert!(self.find_by_id(id).is_some(), "{LIVING}");
        let entry = &mut self.slots[id.index()];
        entry.n_users -= 1;
        if entry.n_users > 0 {
            return None;
        }
        entry.generation = entry.generation.wrapping_add(1);
        let value = entry.value.take()?;
        self.by_key.remove(value.key(), id.slot);
        self.free.push(id.slot);
        Some(value)
    }

    /// The value of an id that may be out of date.
    pub(crate) fn find_by_id(&self, id: Id<T>) -> Option<&T> {
        let slot = self.slots.get(id.index()).filter(|slot| slot.generation == id.generation)?;
        slot.value.as_ref()
    }

    #[inline]
    pub(crate) fn get(&self, id: Id<T>) -> &T {
        debug_assert!(self.find_by_id(id).is_some(), "{LIVING}");
        self.slots[id.index()].value.as_ref().expect(LIVING)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: Id<T>) -> &mut T {
        debug_assert!(self.find_by_id(id).is_some(), "{LIVING}");
        self.slots[id.index()].value.as_mut().expect(LIVING)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.value.as_mut())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(slot, entry)| Some((self.id(slot as u32), entry.value.as_ref()?)))
    }
}
