//! Objects received by a watch, shared by all controllers, with indexes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::view::{ObjectMeta, PartialObjectMetadata};
use berth_api::object::NamespacedName;

/// An index key: the cache returns its objects without a full scan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Index {
    /// Objects in a namespace.
    Namespace(String),
    /// Objects managed by the controller with this uid.
    Controller(String),
    /// Objects in a namespace that no controller manages.
    Orphans(String),
    /// Pods bound to a node.
    Node(String),
    /// Pods that use a claim, or volumes that are bound to one or reserved for it.
    Claim(NamespacedName),
    /// Claims that are bound to a volume or ask for it.
    Volume(String),
    /// Volumes without claim, or claims that are not bound, of a storage class.
    Class(String),
}

impl Index {
    /// The index keys of an object from its metadata: its namespace, and its controller or that it has none.
    pub(crate) fn of_metadata(metadata: &ObjectMeta, add: &mut dyn FnMut(Index)) {
        add(Index::Namespace(metadata.namespace.clone()));
        add(match metadata.controller() {
            Some(owner) => Index::Controller(owner.uid.clone()),
            None => Index::Orphans(metadata.namespace.clone()),
        });
    }
}

/// An object that a [`Cache`] can hold.
pub(crate) trait Cached: Send + Sync + 'static {
    fn meta(&self) -> &ObjectMeta;

    /// Returns the index keys of this object.
    fn index(&self, add: &mut dyn FnMut(Index));
}

impl Cached for PartialObjectMetadata {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn index(&self, _add: &mut dyn FnMut(Index)) {}
}

/// A change of the cache: at least one of the two states is present.
pub(crate) struct Change<'a, T> {
    pub(crate) old: Option<&'a Arc<T>>,
    pub(crate) new: Option<&'a Arc<T>>,
}

impl<'a, T> Change<'a, T> {
    /// The current object, or its last state.
    pub(crate) fn latest(&self) -> Option<&'a Arc<T>> {
        self.new.or(self.old)
    }
}

/// Objects of one kind as the API server last sent them.
pub(crate) struct Cache<T> {
    state: RwLock<State<T>>,
}

struct State<T> {
    objects: HashMap<NamespacedName, Arc<T>>,
    indexes: HashMap<Index, HashMap<NamespacedName, Arc<T>>>,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Cache { state: RwLock::new(State { objects: HashMap::new(), indexes: HashMap::new() }) }
    }
}

impl<T: Cached> Cache<T> {
    pub(crate) fn get(&self, key: &NamespacedName) -> Option<Arc<T>> {
        self.read().objects.get(key).cloned()
    }

    pub(crate) fn contains(&self, key: &NamespacedName) -> bool {
        self.read().objects.contains_key(key)
    }

    /// All objects, unordered.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.read().objects.values().cloned().collect()
    }

    /// The objects of an index key, unordered.
    pub(crate) fn by(&self, index: &Index) -> Vec<Arc<T>> {
        self.read().indexes.get(index).map(|found| found.values().cloned().collect()).unwrap_or_default()
    }

    /// Whether an index key has no objects.
    pub(crate) fn is_empty(&self, index: &Index) -> bool {
        !self.read().indexes.contains_key(index)
    }

    /// Inserts an object; returns the replaced one.
    pub(crate) fn insert(&self, object: Arc<T>) -> Option<Arc<T>> {
        let key = object.meta().namespaced_name();
        let mut state = self.write();
        let old = state.objects.insert(key.clone(), object.clone());
        state.reindex(&key, old.as_deref(), Some(&object));
        old
    }

    /// Removes an object.
    pub(crate) fn remove(&self, key: &NamespacedName) -> Option<Arc<T>> {
        let mut state = self.write();
        let old = state.objects.remove(key);
        state.reindex(key, old.as_deref(), None);
        old
    }

    /// Keys that are not among `listed`: objects that were deleted between two watches.
    pub(crate) fn missing_from(&self, listed: &HashSet<NamespacedName>) -> Vec<NamespacedName> {
        self.read().objects.keys().filter(|key| !listed.contains(key)).cloned().collect()
    }

    // A panic in another thread leaves at most one object stale; the next event or list corrects it.
    fn read(&self) -> RwLockReadGuard<'_, State<T>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<T>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Cached> State<T> {
    fn reindex(&mut self, key: &NamespacedName, old: Option<&T>, new: Option<&Arc<T>>) {
        if let Some(old) = old {
            old.index(&mut |index| {
                if let Some(found) = self.indexes.get_mut(&index) {
                    found.remove(key);
                    if found.is_empty() {
                        self.indexes.remove(&index);
                    }
                }
            });
        }
        if let Some(new) = new {
            new.index(&mut |index| {
                self.indexes.entry(index).or_default().insert(key.clone(), new.clone());
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Pod;

    fn pod(name: &str, owner: Option<&str>, node: &str) -> Arc<Pod> {
        let owners = owner.map(|uid| serde_json::json!([{"uid": uid, "controller": true}]));
        let pod = serde_json::json!({
            "metadata": {"name": name, "namespace": "a", "ownerReferences": owners},
            "spec": {"nodeName": node},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn names(cache: &Cache<Pod>, index: Index) -> Vec<String> {
        let mut names: Vec<_> = cache.by(&index).iter().map(|pod| pod.metadata.name.to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn indexes_are_updated_with_every_change() {
        let cache = Cache::default();
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
