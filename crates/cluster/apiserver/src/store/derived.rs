//! A cached value that is computed from all objects of some resources. It is computed again only when they change.

use std::sync::{Arc, Mutex, PoisonError};

use berth_schema::resource::Resource;
use tokio::sync::watch;

use super::handle::Store;

/// A cached value computed from all objects of some resources. The validity check is cheap.
pub struct Derived<T: ?Sized> {
    store: Store,
    compute: fn(&Store) -> Arc<T>,
    /// The last versions of the resources' collections.
    versions: Vec<watch::Receiver<u64>>,
    /// The value, and the versions at which it was computed.
    computed: Mutex<Option<(Vec<u64>, Arc<T>)>>,
}

impl<T: ?Sized> Derived<T> {
    /// A value that is computed from these resources of a store.
    pub fn new(store: &Store, resources: &[&'static Resource], compute: fn(&Store) -> Arc<T>) -> Derived<T> {
        let versions = resources.iter().map(|resource| store.changes(resource)).collect();
        Derived { store: store.clone(), compute, versions, computed: Mutex::default() }
    }

    pub fn get(&self) -> Arc<T> {
        let mut computed = self.computed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, value)) = &*computed
            && at.iter().zip(&self.versions).all(|(at, version)| *at == *version.borrow())
        {
            return value.clone();
        }
        // Versions are read before the objects: after a change in between, the next caller computes the value again.
        let now = self.versions.iter().map(|version| *version.borrow()).collect();
        let value = (self.compute)(&self.store);
        *computed = Some((now, value.clone()));
        value
    }
}
