//! Objects, their versions and the history of their changes.
//!
//! Every write gets the next number of one counter as its resource version. Readers and watchers see a write only once
//! it is acknowledged. With a data directory, that is when it is on disk. The store does not interpret objects.

mod collection;
mod compaction;
mod derived;
mod disk;
mod disk_error;
mod disk_io;
mod entry;
mod field_watchers;
mod new_file;
mod object;
mod page;
mod record;
mod recover;
mod selector;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;
use tokio::sync::watch;

pub use collection::{Event, HistoryBounds, TooOld};
pub use derived::Derived;
pub use disk::StorageOptions;
pub use disk_error::DiskError;
pub use disk_io::DiskIo;
pub use object::{EventType, Object, write_frame};
pub use page::{Page, Position};
pub use recover::{Lost, Recovery, recover};
pub use selector::Filter;

use berth_schema::resource::{MAX_CUSTOM, RESOURCES, Resource, custom_collection_at};
use collection::Collection;
use disk::Disk;
use writer::Writer;

/// The operation of a write and its precondition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object must not exist.
    Create,
    /// The object must still be at this version.
    Update {
        /// The expected version.
        expected: u64,
    },
    /// The object must still be at this version; watchers get the written value as its last state.
    Delete {
        /// The expected version.
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
    /// A resource with its own collection.
    pub resource: &'static Resource,
    /// The operation.
    pub change: Change,
    /// The whole object; namespace and name are read from its metadata.
    pub value: Value,
}

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The object already exists.
    #[error("the object already exists")]
    AlreadyExists,
    /// The object does not exist.
    #[error("the object does not exist")]
    NotFound,
    /// The object is no longer at the expected version.
    #[error("the object has been modified")]
    Modified,
    /// The storage failed or is closed; the write may or may not be on disk.
    #[error("storage: {0}")]
    Storage(String),
}

/// How many objects of a list are looked at under one lock.
const MAX_SCANNED: usize = 4096;

/// All collections, and the version up to which they are complete.
#[derive(Debug)]
struct Collections {
    collections: Vec<RwLock<Collection>>,
    /// Those of custom resources, made on first use.
    custom: Vec<OnceLock<Box<RwLock<Collection>>>>,
    /// For a new collection.
    empty: Empty,
    revision: AtomicU64,
}

/// What a new collection starts with.
#[derive(Debug)]
struct Empty {
    floor: u64,
    bounds: HistoryBounds,
    all_history_bytes: Arc<AtomicUsize>,
}

impl Empty {
    fn collection(&self, resource: &Resource) -> RwLock<Collection> {
        RwLock::new(Collection::new(resource, self.floor, self.bounds, &self.all_history_bytes))
    }
}

impl Collections {
    fn new(revision: u64, floor: u64, bounds: HistoryBounds) -> Collections {
        let empty = Empty { floor, bounds, all_history_bytes: Arc::default() };
        Collections {
            collections: RESOURCES.iter().map(|resource| empty.collection(resource)).collect(),
            custom: (0..MAX_CUSTOM).map(|_| OnceLock::new()).collect(),
            empty,
            revision: AtomicU64::new(revision),
        }
    }

    fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    fn of(&self, resource: &Resource) -> &RwLock<Collection> {
        match resource.custom {
            Some(custom) => {
                self.custom[custom.slot].get_or_init(|| Box::new(self.empty.collection(resource)))
            }
            None => &self.collections[resource.index()],
        }
    }

    fn read(&self, resource: &Resource) -> RwLockReadGuard<'_, Collection> {
        self.of(resource).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self, resource: &Resource) -> RwLockWriteGuard<'_, Collection> {
        self.of(resource).write().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.read(resource).get(namespace, name).cloned()
    }

    /// All resources that have a collection.
    fn resources(&self) -> impl Iterator<Item = &'static Resource> {
        let custom = (0..MAX_CUSTOM).filter(|slot| self.custom[*slot].get().is_some());
        RESOURCES.iter().copied().chain(custom.filter_map(custom_collection_at))
    }

    /// All objects, in any order.
    fn all(&self) -> Vec<(&'static Resource, Arc<Object>)> {
        let mut all = Vec::new();
        for resource in self.resources() {
            let collection = self.read(resource);
            all.extend(collection.objects().values().flatten().map(|(_, object)| (resource, object.clone())));
        }
        all
    }

    /// Former states of objects, with the versions of the changes that replaced them, as far as the history has them.
    fn former(&self) -> Vec<(&'static Resource, Arc<Object>, u64)> {
        let mut all = Vec::new();
        for resource in self.resources() {
            let collection = self.read(resource);
            let former = collection.former();
            all.extend(former.map(|(object, replaced_at)| (resource, object.clone(), replaced_at)));
        }
        all
    }

    /// Publishes a durable change to readers and watchers. Changes must arrive in the order of their versions.
    fn publish(&self, resource: &Resource, object: Arc<Object>, event_type: EventType) {
        let mut collection = self.lock(resource);
        let revision = object.revision;
        collection.apply(object, event_type);
        // Under the collection's lock, so that a reader that sees this version finds the change.
        self.revision.store(revision, Ordering::Release);
    }

    /// Makes a write in memory.
    fn write(&self, write: Write) -> Result<Arc<Object>, WriteError> {
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

/// The store: objects in memory and, with a data directory, on disk.
#[derive(Debug)]
pub struct Store {
    collections: Arc<Collections>,
    /// `None` for a store in memory.
    writer: Option<Writer>,
}

/// Read access to a store's objects. It does not keep the store open.
#[derive(Clone, Debug)]
pub struct Reader(Arc<Collections>);

impl Reader {
    /// An object.
    pub fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.0.get(resource, namespace, name)
    }
}

impl Store {
    /// A store in memory whose versions start after `revision`. A `revision` from the clock prevents clients from
    /// mistaking a version of an earlier store for one of this store.
    pub fn in_memory(revision: u64, bounds: HistoryBounds) -> Store {
        let collections = Arc::new(Collections::new(revision, revision, bounds));
        Store { collections, writer: None }
    }

    /// Another store in memory with the same objects and history, for a server that takes over from one that has ended.
    /// The writes of both are in one order.
    pub fn share(&self) -> Store {
        Store { collections: self.collections.clone(), writer: None }
    }

    /// Opens the store in a directory and loads it. The versions of a new store start after `revision`.
    ///
    /// # Errors
    /// Another process uses the directory, or its store is damaged, missing, or cannot be read or written.
    pub fn open(dir: &Path, revision: u64, options: StorageOptions) -> Result<Store, DiskError> {
        let (disk, collections) = Disk::open(dir, revision, options)?;
        let collections = Arc::new(collections);
        let writer = Writer::start(disk, collections.clone())
            .map_err(|source| DiskError::Io { path: dir.to_owned(), source })?;
        Ok(Store { collections, writer: Some(writer) })
    }

    /// Finishes pending writes and closes the file. Later writes fail.
    pub fn close(&self) {
        if let Some(writer) = &self.writer {
            writer.close();
        }
    }

    /// Whether the store accepts writes.
    pub fn is_healthy(&self) -> bool {
        self.writer.as_ref().is_none_or(Writer::is_healthy)
    }

    /// The version of the last write.
    pub fn revision(&self) -> u64 {
        self.collections.revision()
    }

    /// Reads its objects.
    pub fn reader(&self) -> Reader {
        Reader(self.collections.clone())
    }

    /// An object.
    pub fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.collections.get(resource, namespace, name)
    }

    /// All objects that a filter selects, and the version of this list.
    pub fn list(&self, resource: &Resource, filter: &Filter) -> (u64, Vec<Arc<Object>>) {
        let page = self.page(resource, filter, None, None, usize::MAX);
        let page = page.expect("a list of the present version needs no history");
        (page.revision, page.objects)
    }

    /// Up to `limit` of the objects that a filter selects after a position, as they were at a version; without one, at
    /// the present version.
    ///
    /// # Errors
    /// The history does not reach back to the version.
    pub fn page(
        &self,
        resource: &Resource,
        filter: &Filter,
        at: Option<u64>,
        after: Option<&Position>,
        limit: usize,
    ) -> Result<Page, TooOld> {
        match self.read_page(resource, filter, at, after, (limit, MAX_SCANNED)) {
            // More has changed since the first piece was read than the history holds.
            Err(_) if at.is_none() => self.read_page(resource, filter, at, after, (limit, usize::MAX)),
            read => read,
        }
    }

    /// Reads a page in pieces, so that writes do not wait for long lists.
    fn read_page(
        &self,
        resource: &Resource,
        filter: &Filter,
        at: Option<u64>,
        after: Option<&Position>,
        (limit, max_scanned): (usize, usize),
    ) -> Result<Page, TooOld> {
        let mut page = Page { revision: 0, objects: Vec::new(), next: None, total: 0 };
        let mut passed = after.cloned();
        let mut is_first = true;
        loop {
            let collection = self.collections.read(resource);
            if std::mem::take(&mut is_first) {
                page.revision = at.unwrap_or_else(|| self.revision());
                page.total = collection.len_in(filter.namespace.as_deref());
            }
            let limits = (limit, max_scanned);
            passed =
                collection.append_page(filter, page.revision, passed.as_ref(), limits, &mut page.objects)?;
            if passed.is_none() {
                break;
            }
        }
        if page.objects.len() > limit {
            page.objects.truncate(limit);
            let last = page.objects.last().map(|object| &object.facts);
            page.next = last.map(|facts| (facts.namespace.clone(), facts.name.clone()));
        }
        Ok(page)
    }

    /// How many objects a resource has.
    pub fn count(&self, resource: &Resource) -> usize {
        self.collections.read(resource).len()
    }

    /// A signal that fires after every change of a resource's objects.
    pub fn changes(&self, resource: &Resource) -> watch::Receiver<u64> {
        self.collections.read(resource).changes()
    }

    /// A signal that fires after every change of a resource's objects that may concern a filter.
    pub fn changes_for(&self, resource: &Resource, filter: &Filter) -> watch::Receiver<u64> {
        match filter.bound_to(resource) {
            Some(value) => self.collections.lock(resource).changes_of(value),
            None => self.changes(resource),
        }
    }

    /// Up to `limit` events after a version that may concern a filter, and the version up to which they are
    /// complete.
    ///
    /// # Errors
    /// Changes after that version have been forgotten.
    pub fn events_for(
        &self,
        resource: &Resource,
        filter: &Filter,
        revision: u64,
        limit: usize,
    ) -> Result<(u64, Vec<Event>), TooOld> {
        let collection = self.collections.read(resource);
        let events = match filter.bound_to(resource) {
            Some(value) => collection.events_of(value, revision, limit)?,
            None => collection.events_after(revision, limit)?,
        };
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
    /// The precondition does not hold, or the storage failed.
    pub async fn write(&self, write: Write) -> Result<Arc<Object>, WriteError> {
        match &self.writer {
            None => self.collections.write(write),
            Some(writer) => writer.write(write).await,
        }
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
