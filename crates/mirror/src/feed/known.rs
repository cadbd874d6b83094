//! What is in the cluster, by namespace and name.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use super::Change;
use super::fingerprint::Fingerprint;
use berth_client::watch::{Event, KubeObject};

/// `namespace/name`.
pub(super) type Key = Box<str>;

pub(super) fn key(namespace: &str, name: &str) -> Key {
    format!("{namespace}/{name}").into()
}

fn parts(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// What is remembered of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Memo(Fingerprint);

impl Memo {
    pub(super) fn new(fingerprint: Fingerprint) -> Memo {
        Memo(fingerprint)
    }
}

/// An object that is not in the cluster as it was listed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Difference {
    /// `namespace/name`.
    pub key: String,
    /// What the cluster has; none if nothing.
    known: Option<u64>,
    /// What the list has; none if nothing.
    listed: Option<u64>,
}

/// All differences between the cluster and a list.
pub type Differences = HashSet<Difference>;

impl Difference {
    pub(super) fn new(key: &str, known: Option<u64>, listed: Option<u64>) -> Difference {
        Difference { key: key.to_owned(), known, listed }
    }
}

/// Objects of one kind.
#[derive(Debug)]
pub(super) struct Known<M> {
    memos: HashMap<Key, M>,
}

impl<M> Default for Known<M> {
    fn default() -> Self {
        Known { memos: HashMap::new() }
    }
}

impl<M: Copy + Eq + Hash> Known<M> {
    pub(super) fn len(&self) -> usize {
        self.memos.len()
    }

    pub(super) fn contains(&self, namespace: &str, name: &str) -> bool {
        self.memos.contains_key(&key(namespace, name))
    }

    /// Applies what changes, and only that. Returns how many objects changed.
    pub(super) fn apply<T: KubeObject>(
        &mut self,
        event: Event<T>,
        memo: impl Fn(&T) -> M,
        mut change: impl FnMut(Change<'_, T>),
    ) -> usize {
        match event {
            Event::Applied(object) => self.set(&object, memo(&object), &mut change),
            Event::Deleted(object) => {
                let (namespace, name) = object.key();
                let removed = self.memos.remove(&key(namespace, name));
                if removed.is_some() {
                    change(Change::Unset(namespace, name));
                }
                usize::from(removed.is_some())
            }
            Event::Restarted(objects) => {
                let listed: HashSet<Key> = objects.iter().map(|o| key(o.key().0, o.key().1)).collect();
                let gone: Vec<Key> = self.memos.keys().filter(|k| !listed.contains(*k)).cloned().collect();
                for key in &gone {
                    self.memos.remove(key);
                    let (namespace, name) = parts(key);
                    change(Change::Unset(namespace, name));
                }
                let set = objects.iter().map(|object| self.set(object, memo(object), &mut change));
                gone.len() + set.sum::<usize>()
            }
        }
    }

    fn set<T: KubeObject>(&mut self, object: &T, memo: M, change: &mut impl FnMut(Change<'_, T>)) -> usize {
        let (namespace, name) = object.key();
        if self.memos.insert(key(namespace, name), memo) == Some(memo) {
            return 0;
        }
        change(Change::Set(object));
        1
    }

    pub(super) fn compare<T: KubeObject>(&self, listed: &[T], memo: impl Fn(&T) -> M) -> Differences {
        use std::hash::{DefaultHasher, Hasher};
        // Memos differ where their hashes do: they are fingerprints, and this is for naming a difference again.
        let digest = |memo: &M| {
            let mut hasher = DefaultHasher::new();
            memo.hash(&mut hasher);
            hasher.finish()
        };
        let mut unseen: HashSet<&Key> = self.memos.keys().collect();
        let mut differences = Differences::new();
        for object in listed {
            let (namespace, name) = object.key();
            let key = key(namespace, name);
            unseen.remove(&key);
            let (known, listed) = (self.memos.get(&key), memo(object));
            if known != Some(&listed) {
                differences.insert(Difference::new(&key, known.map(digest), Some(digest(&listed))));
            }
        }
        let gone = unseen.into_iter().map(|key| Difference::new(key, self.memos.get(key).map(digest), None));
        differences.extend(gone);
        differences
    }
}
