//! A value computed from all objects of some resources, and again only when they change.

use std::sync::{Arc, Mutex, PoisonError};

use berth_schema::resource::Resource;
use tokio::sync::watch;

use super::Store;

/// A value computed from all objects of some resources. A check of its validity costs next to nothing.
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

    /// The current value; `make` is called if the objects changed.
    pub fn get(&self, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, known)) = &*made
            && at.iter().zip(&self.versions).all(|(at, version)| *at == *version.borrow())
        {
            return known.clone();
        }
        // Read before the objects are: the next caller reads again what changes in between.
        let now = self.versions.iter().map(|version| *version.borrow()).collect();
        let new = make();
        *made = Some((now, new.clone()));
        new
    }
}
