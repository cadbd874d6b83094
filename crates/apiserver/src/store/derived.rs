//! What is made of all objects of some resources, and made anew only when they change.

use std::sync::{Arc, Mutex, PoisonError};

use berth_schema::resource::Resource;
use tokio::sync::watch;

use super::Store;

/// Something made of all objects of some resources. Asking whether it still holds costs next to nothing.
pub struct Derived<T: ?Sized> {
    /// The last versions of the resources' collections.
    versions: Vec<watch::Receiver<u64>>,
    /// What was made, and at which versions.
    made: Mutex<Option<(Vec<u64>, Arc<T>)>>,
}

impl<T: ?Sized> Derived<T> {
    /// Something made of these resources.
    pub fn new(store: &Store, resources: impl IntoIterator<Item = &'static Resource>) -> Derived<T> {
        let versions = resources.into_iter().map(|resource| store.changes(resource)).collect();
        Derived { versions, made: Mutex::default() }
    }

    /// It as of now; `make` is called if the objects changed.
    pub fn get(&self, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, known)) = &*made
            && at.iter().zip(&self.versions).all(|(at, version)| *at == *version.borrow())
        {
            return known.clone();
        }
        // Read before the objects are: what changes in between is read again by whoever comes next.
        let now = self.versions.iter().map(|version| *version.borrow()).collect();
        let new = make();
        *made = Some((now, new.clone()));
        new
    }
}
