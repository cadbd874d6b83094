//! Objects, their versions and the history of their changes.
//!
//! Every write gets the next number of one counter as its resource version. Readers and watchers see a write only once
//! it is acknowledged: with a data directory that is when it is on disk. Nothing here knows what objects mean.

mod collection;
mod object;
mod selector;
mod snapshot;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;
use tokio::sync::watch;

pub use collection::{Collection, Event, HistoryBounds, TooOld};
pub use object::{EventType, Object, partial_metadata, write_frame};
pub use selector::Filter;
pub use snapshot::Snapshots;

use crate::resource::{RESOURCES, Resource};

/// What a write does, and what must hold for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// There must be no such object.
    Create,
    /// The object must still be at this version.
    Update {
        /// The version that was read.
        expected: u64,
    },
    /// The object must still be at this version; what is written is told to watchers as its last state.
    Delete {
        /// The version that was read.
        expected: u64,
    },
}

impl Change {
    fn event_type(self) -> EventType {
        match self {
            Change::Create => EventType::Added,
            Change::Update { .. } => EventType::Modified,
            Change::Delete { .. } => EventType::Deleted,
        }
    }
}

/// One write.
#[derive(Debug)]
pub struct Write {
    /// A resource with a collection of its own.
    pub resource: &'static Resource,
    /// What it does.
    pub change: Change,
    /// The whole object; namespace and name are read from its metadata.
    pub value: Value,
}

/// Why a write was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// There is an object of that name.
    #[error("the object already exists")]
    AlreadyExists,
    /// There is no object of that name.
    #[error("the object does not exist")]
    NotFound,
    /// The object is no longer at the expected version.
    #[error("the object has been modified")]
    Modified,
    /// The storage is broken or closed; whether the write is on disk is not known.
    #[error("storage: {0}")]
    Storage(String),
}

/// All collections.
#[derive(Debug)]
pub struct Store {
    collections: Vec<RwLock<Collection>>,
    revision: AtomicU64,
    /// Lists that clients are reading page by page.
    pub snapshots: Snapshots,
}

impl Store {
    /// A store in memory, whose versions begin after `revision`. Beginning at the time of day keeps a client from
    /// mistaking a version of an earlier store for one of this one.
    pub fn in_memory(revision: u64, bounds: HistoryBounds) -> Store {
        let collection = |_: &Resource| RwLock::new(Collection::new(revision, bounds));
        Store {
            collections: RESOURCES.iter().map(collection).collect(),
            revision: AtomicU64::new(revision),
            snapshots: Snapshots::default(),
        }
    }

    /// Whether writes are kept.
    pub fn is_healthy(&self) -> bool {
        true
    }

    /// The version of the last write.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    fn read(&self, resource: &Resource) -> RwLockReadGuard<'_, Collection> {
        self.collections[resource.index()].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self, resource: &Resource) -> RwLockWriteGuard<'_, Collection> {
        self.collections[resource.index()].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// An object.
    pub fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.read(resource).get(namespace, name).cloned()
    }

    /// All objects that a filter selects, and the version at which they are all there is.
    pub fn list(&self, resource: &Resource, filter: &Filter) -> (u64, Vec<Arc<Object>>) {
        let collection = self.read(resource);
        (self.revision(), collection.select(filter))
    }

    /// How many objects a resource has.
    pub fn count(&self, resource: &Resource) -> usize {
        self.read(resource).len()
    }

    /// A signal that fires after every change of a resource's objects.
    pub fn changes(&self, resource: &Resource) -> watch::Receiver<u64> {
        self.read(resource).changes()
    }

    /// Up to `limit` events after a version, and the version up to which they are all there are.
    ///
    /// # Errors
    /// Changes after that version have been forgotten.
    pub fn events_after(
        &self,
        resource: &Resource,
        revision: u64,
        limit: usize,
    ) -> Result<(u64, Vec<Event>), TooOld> {
        let collection = self.read(resource);
        let events = collection.events_after(revision, limit)?;
        let up_to = if events.len() < limit {
            self.revision()
        } else {
            events.last().map_or(revision, |event| event.object.revision)
        };
        Ok((up_to, events))
    }

    /// Makes one write, and returns once it is durable.
    ///
    /// # Errors
    /// What must hold for it does not, or the storage is broken.
    pub async fn write(&self, write: Write) -> Result<Arc<Object>, WriteError> {
        let Write { resource, change, value } = write;
        let mut collection = self.lock(resource);
        let (namespace, name) = key(&value);
        check(collection.get(namespace, name).map(|o| o.revision), change)?;
        // Under the collection's lock, so that versions within a collection appear in order.
        let revision = self.revision.fetch_add(1, Ordering::AcqRel) + 1;
        let object = Arc::new(Object::encode(resource, value, revision, change.event_type()));
        collection.apply(object.clone(), change.event_type());
        Ok(object)
    }
}

/// Namespace and name of an object; empty where there is none.
pub fn key(value: &Value) -> (&str, &str) {
    let metadata = &value["metadata"];
    (metadata["namespace"].as_str().unwrap_or_default(), metadata["name"].as_str().unwrap_or_default())
}

fn check(current: Option<u64>, change: Change) -> Result<(), WriteError> {
    match (change, current) {
        (Change::Create, None) => Ok(()),
        (Change::Create, Some(_)) => Err(WriteError::AlreadyExists),
        (Change::Update { .. } | Change::Delete { .. }, None) => Err(WriteError::NotFound),
        (Change::Update { expected } | Change::Delete { expected }, Some(current)) if expected == current => {
            Ok(())
        }
        _ => Err(WriteError::Modified),
    }
}
