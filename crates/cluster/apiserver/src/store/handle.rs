//! The handle of a store.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use berth_schema::resource::Resource;
use serde_json::Value;
use tokio::sync::watch;

use super::claim::{Claim, claims_of};
use super::collection::TooOld;
use super::collections::Collections;
use super::disk::Disk;
use super::disk_error::DiskError;
use super::event::Event;
use super::object::{Compiled, Object};
use super::page::{Page, Position};
use super::selector::Filter;
use super::storage_options::{Latency, StorageOptions};
use super::write::{Change, Write, WriteError, conflicting_claim, key};
use super::writer::Writer;

/// How many objects of a list are looked at under one lock.
const MAX_SCANNED: usize = 4096;

/// A store: objects in memory and, with a data directory, on disk. Clones are handles of the same store, which is closed
/// when the last of them is dropped.
#[derive(Clone, Debug)]
pub struct Store {
    collections: Arc<Collections>,
    /// `None` for a store in memory.
    writer: Option<Arc<Writer>>,
    /// Of a store in memory.
    latency: Option<Latency>,
}

impl Store {
    /// A store in memory whose versions start after `revision`. A `revision` from the clock prevents clients from
    /// mistaking a version of an earlier store for one of this store.
    pub fn in_memory(revision: u64, options: &StorageOptions) -> Store {
        let collections = Collections::new(revision, revision, options.history, options.max_bytes);
        Store { collections: Arc::new(collections), writer: None, latency: options.latency.clone() }
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
        Ok(Store { collections, writer: Some(Arc::new(writer)), latency: None })
    }

    /// Finishes pending writes and closes the file. Later writes fail.
    pub fn close(&self) {
        if let Some(writer) = &self.writer {
            writer.close();
        }
    }

    pub fn is_healthy(&self) -> bool {
        self.writer.as_ref().is_none_or(|writer| writer.is_healthy())
    }

    /// Whether there may not be space for one more object.
    pub fn is_nearly_full(&self) -> bool {
        self.collections.is_nearly_full()
    }

    /// The version of the last write.
    pub fn revision(&self) -> u64 {
        self.collections.revision()
    }

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
            page.next = last.map(|facts| (facts.namespace().into(), facts.name().into()));
        }
        Ok(page)
    }

    /// Whether an object of a resource has a value that at most one may have.
    pub fn is_claimed(&self, resource: &Resource, claim: &Claim) -> bool {
        self.collections.read(resource).claims().is_held(claim)
    }

    /// A value of an object that another object has, although at most one may have it.
    pub fn conflicting_claim(&self, resource: &Resource, value: &Value) -> Option<Claim> {
        let collection = self.collections.read(resource);
        let (namespace, name) = key(value);
        let previous = collection.get(namespace, name).map(Arc::as_ref);
        let is_taken = |claim: &Claim| collection.claims().is_held(claim);
        conflicting_claim(Change::Create, &claims_of(resource, &value.into()), previous, is_taken)
    }

    pub fn count(&self, resource: &Resource) -> usize {
        self.collections.read(resource).len()
    }

    /// Compiles all objects of a resource when they are written, for readers of this form.
    pub fn compile_as<T: Compiled>(&self, resource: &Resource) {
        self.collections.lock(resource).compile = Some(|value| Arc::new(T::compile(Cow::Borrowed(value))));
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
    pub async fn write(&self, write: Write<'_>) -> Result<Arc<Object>, WriteError> {
        let write = self.collections.encode(write);
        match &self.writer {
            None => {
                if let Some(Latency(wait)) = &self.latency {
                    wait().await;
                }
                self.collections.write(write)
            }
            Some(writer) => writer.write(write).await,
        }
    }
}
