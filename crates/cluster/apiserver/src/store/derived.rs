//! A cached value that is computed from all objects of some resources. It is recomputed only when they change.

use std::sync::{Arc, Mutex, PoisonError};

use berth_schema::resource::Resource;
use tokio::sync::watch;

use super::Store;

/// A cached value computed from all objects of some resources. The validity check is cheap.
pub struct Derived<T: ?Sized> {
    /// The last versions of the resources' collections.
    versions: Vec<watch::Receiver<u64>>,
    /// The value, and the versions at which it was computed.
    made: Mutex<Option<(Vec<u64>, Arc<T>)>>,
}

impl<T: ?Sized> Derived<T> {
    /// A value computed from these resources.
    pub fn new(store: &Store, resources: impl IntoIterator<Item = &'static Resource>) -> Derived<T> {
        let versions = resources.into_iter().map(|resource| store.changes(resource)).collect();
        Derived { versions, made: Mutex::default() }
    }

    /// The current value. Calls `make` if the objects changed.
    pub fn get(&self, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, known)) = &*made
            && at.iter().zip(&self.versions).all(|(at, version)| *at == *version.borrow())
        {
            return known.clone();
        }
        // Versions are read before the objects: after a change in between, the next caller recomputes the value.
        let now = self.versions.iter().map(|version| *version.borrow()).collect();
        let new = make();
        *made = Some((now, new.clone()));
        new
    }
}
