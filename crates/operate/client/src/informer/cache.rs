//! Objects received by a watch, with indexes.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use berth_api::object::NamespacedName;

use crate::watch::HasMetadata;

/// Calls the function with each index key of an object.
pub type Indexer<T, I> = fn(&T, &mut dyn FnMut(I));

/// A change of a cache: at least one of the two states is present.
#[derive(Debug)]
pub struct Change<'a, T> {
    /// The state before; none if the object is new.
    pub old: Option<&'a Arc<T>>,
    /// The state after; none if the object was deleted.
    pub new: Option<&'a Arc<T>>,
}

impl<'a, T> Change<'a, T> {
    /// The current object, or its last state.
    pub fn latest(&self) -> Option<&'a Arc<T>> {
        self.new.or(self.old)
    }
}

/// Objects of one kind as the API server last sent them, and indexes of them with keys of the type `I`.
pub struct Cache<T, I = Infallible> {
    indexer: Indexer<T, I>,
    state: RwLock<State<T, I>>,
}

struct State<T, I> {
    objects: HashMap<NamespacedName, Arc<T>>,
    indexes: HashMap<I, HashMap<NamespacedName, Arc<T>>>,
}

impl<T: HasMetadata> Default for Cache<T> {
    /// An empty cache without indexes.
    fn default() -> Self {
        Cache::new(|_, _| {})
    }
}

impl<T: HasMetadata, I: Eq + Hash> Cache<T, I> {
    pub fn new(indexer: Indexer<T, I>) -> Self {
        Cache { indexer, state: RwLock::new(State { objects: HashMap::new(), indexes: HashMap::new() }) }
    }

    pub fn get(&self, key: &NamespacedName) -> Option<Arc<T>> {
        self.read().objects.get(key).cloned()
    }

    /// Whether there is an object of this name.
    pub fn contains(&self, key: &NamespacedName) -> bool {
        self.read().objects.contains_key(key)
    }

    pub fn n_objects(&self) -> usize {
        self.read().objects.len()
    }

    /// All objects, unordered.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.read().objects.values().cloned().collect()
    }

    /// The objects of an index key, unordered.
    pub fn by(&self, index: &I) -> Vec<Arc<T>> {
        self.read().indexes.get(index).map(|found| found.values().cloned().collect()).unwrap_or_default()
    }

    /// Whether an index key has no objects.
    pub fn is_empty(&self, index: &I) -> bool {
        !self.read().indexes.contains_key(index)
    }

    /// Inserts an object; returns the replaced one.
    pub fn insert(&self, object: Arc<T>) -> Option<Arc<T>> {
        let key = object.meta().namespaced_name();
        let mut state = self.write();
        let old = state.objects.insert(key.clone(), object.clone());
        state.reindex(self.indexer, &key, old.as_deref(), Some(&object));
        old
    }

    pub fn remove(&self, key: &NamespacedName) -> Option<Arc<T>> {
        let mut state = self.write();
        let old = state.objects.remove(key);
        state.reindex(self.indexer, key, old.as_deref(), None);
        old
    }

    /// Names that are not among `listed`: of objects that were deleted between two watches.
    pub(super) fn missing_from(&self, listed: &HashSet<NamespacedName>) -> Vec<NamespacedName> {
        self.read().objects.keys().filter(|key| !listed.contains(key)).cloned().collect()
    }

    // A panic in another thread leaves at most one object stale; the next event or list corrects it.
    fn read(&self) -> RwLockReadGuard<'_, State<T, I>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<T, I>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, I: Eq + Hash> State<T, I> {
    fn reindex(
        &mut self,
        indexer: Indexer<T, I>,
        key: &NamespacedName,
        old: Option<&T>,
        new: Option<&Arc<T>>,
    ) {
        if let Some(old) = old {
            indexer(old, &mut |index| {
                if let Some(found) = self.indexes.get_mut(&index) {
                    found.remove(key);
                    if found.is_empty() {
                        self.indexes.remove(&index);
                    }
                }
            });
        }
        if let Some(new) = new {
            indexer(new, &mut |index| {
                self.indexes.entry(index).or_default().insert(key.clone(), new.clone());
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_api::object::Pod;

    use super::*;

    #[derive(PartialEq, Eq, Hash)]
    enum Index {
        Controller(String),
        Orphans(String),
        Node(String),
    }

    fn index(pod: &Pod, add: &mut dyn FnMut(Index)) {
        add(match pod.metadata.controller() {
            Some(owner) => Index::Controller(owner.uid.clone()),
            None => Index::Orphans(pod.metadata.namespace.clone()),
        });
        if !pod.spec.node_name.is_empty() {
            add(Index::Node(pod.spec.node_name.clone()));
        }
    }

    fn pod(name: &str, owner: Option<&str>, node: &str) -> Arc<Pod> {
        let owners = owner.map(|uid| serde_json::json!([{"uid": uid, "controller": true}]));
        let pod = serde_json::json!({
            "metadata": {"name": name, "namespace": "a", "ownerReferences": owners},
            "spec": {"nodeName": node},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn names(cache: &Cache<Pod, Index>, index: Index) -> Vec<String> {
        let mut names: Vec<_> = cache.by(&index).iter().map(|pod| pod.metadata.name.clone()).collect();
        names.sort();
        names
    }

    #[test]
    fn indexes_are_updated_with_every_change() {
        let cache = Cache::new(index);
        cache.insert(pod("x", None, ""));
        cache.insert(pod("y", Some("1"), "n"));
        assert_eq!(names(&cache, Index::Orphans("a".into())), ["x"]);
        assert_eq!(names(&cache, Index::Controller("1".into())), ["y"]);
        assert_eq!(names(&cache, Index::Node("n".into())), ["y"]);

        cache.insert(pod("x", Some("1"), "n"));
        assert_eq!(names(&cache, Index::Orphans("a".into())), [""; 0]);
        assert_eq!(names(&cache, Index::Controller("1".into())), ["x", "y"]);

        cache.remove(&NamespacedName::new("a", "x"));
        cache.remove(&NamespacedName::new("a", "y"));
        assert!(cache.is_empty(&Index::Node("n".into())));
        assert!(cache.read().indexes.is_empty());
    }
}
