//! The collections of all resources, in memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use berth_schema::resource::{MAX_CUSTOM, RESOURCES, Resource, custom_collection_at};

use super::claim::Claim;
use super::collection::{Collection, HistoryBounds, Totals};
use super::object::{Draft, EventType, Object};
use super::shared_text::SharedParts;
use super::write::{Change, EncodedWrite, Write, WriteError, check, conflicting_claim};

/// What [`Change::Reserved`] may take beyond the limit: finalizers end by updates. The server's own first objects may, too.
const RESERVE: u64 = 16 << 20;

/// All collections, and the version up to which they are complete.
#[derive(Debug)]
pub struct Collections {
    collections: Vec<RwLock<Collection>>,
    /// Those of custom resources, made on first use.
    custom: Vec<OnceLock<Box<RwLock<Collection>>>>,
    empty: Empty,
    revision: AtomicU64,
    parts: SharedParts,
    max_bytes: u64,
}

/// What a new collection starts with.
#[derive(Debug)]
struct Empty {
    floor: u64,
    bounds: HistoryBounds,
    totals: Arc<Totals>,
}

impl Empty {
    fn collection(&self, resource: &Resource) -> RwLock<Collection> {
        RwLock::new(Collection::new(resource, self.floor, self.bounds, &self.totals))
    }
}

impl Collections {
    /// No objects. The versions of writes start after `revision`, the history after `floor`. The objects may take `max_bytes`.
    pub fn new(revision: u64, floor: u64, bounds: HistoryBounds, max_bytes: u64) -> Collections {
        let empty = Empty { floor, bounds, totals: Arc::default() };
        Collections {
            collections: RESOURCES.iter().map(|resource| empty.collection(resource)).collect(),
            custom: (0..MAX_CUSTOM).map(|_| OnceLock::new()).collect(),
            empty,
            revision: AtomicU64::new(revision),
            parts: SharedParts::default(),
            max_bytes,
        }
    }

    /// What their objects have in common.
    pub fn parts(&self) -> &SharedParts {
        &self.parts
    }

    /// The version of the last write.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Sets the version of the last write, after loading from disk.
    pub fn set_revision(&self, revision: u64) {
        self.revision.store(revision, Ordering::Release);
    }

    fn of(&self, resource: &Resource) -> &RwLock<Collection> {
        match resource.custom {
            Some(custom) => {
                self.custom[custom.slot].get_or_init(|| Box::new(self.empty.collection(resource)))
            }
            None => &self.collections[resource.index()],
        }
    }

    pub fn read(&self, resource: &Resource) -> RwLockReadGuard<'_, Collection> {
        self.of(resource).read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn lock(&self, resource: &Resource) -> RwLockWriteGuard<'_, Collection> {
        self.of(resource).write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.read(resource).get(namespace, name).cloned()
    }

    fn resources(&self) -> impl Iterator<Item = &'static Resource> {
        let custom = (0..MAX_CUSTOM).filter(|slot| self.custom[*slot].get().is_some());
        RESOURCES.iter().copied().chain(custom.filter_map(custom_collection_at))
    }

    /// All objects, in any order.
    pub fn all(&self) -> Vec<(&'static Resource, Arc<Object>)> {
        let mut all = Vec::new();
        for resource in self.resources() {
            let collection = self.read(resource);
            all.extend(collection.objects().iter().map(|object| (resource, object.clone())));
        }
        all
    }

    /// Former states of objects, with the versions of the changes that replaced them, as far as the history has them.
    pub fn former(&self) -> Vec<(&'static Resource, Arc<Object>, u64)> {
        let mut all = Vec::new();
        for resource in self.resources() {
            let collection = self.read(resource);
            let former = collection.former();
            all.extend(former.map(|(object, replaced_at)| (resource, object.clone(), replaced_at)));
        }
        all
    }

    /// Publishes a durable change to readers and watchers. Changes must arrive in the order of their versions.
    pub fn publish(&self, resource: &Resource, object: Arc<Object>, event_type: EventType) {
        let mut collection = self.lock(resource);
        let revision = object.revision;
        collection.apply(object, event_type);
        // Under the collection's lock, so that a reader that sees this version finds the change.
        self.revision.store(revision, Ordering::Release);
    }

    /// Encodes the object of a write, on the thread of the request: neither readers nor the writer wait for it.
    pub fn encode(&self, Write { resource, change, object }: Write<'_>) -> EncodedWrite {
        let compile = self.read(resource).compile.filter(|_| change.event_type() != EventType::Deleted);
        let compiled = compile.map(|compile| compile(&object.value()));
        EncodedWrite { resource, change, draft: Draft::new(resource, &object, Some(&self.parts)), compiled }
    }

    fn used(&self) -> u64 {
        self.empty.totals.objects.load(Ordering::Relaxed) as u64
    }

    /// Whether there may not be space for one more object.
    pub fn is_nearly_full(&self) -> bool {
        self.used().saturating_add(RESERVE) > self.max_bytes
    }

    /// By how much a write at a version makes the objects larger, after writes that add `ahead` bytes.
    ///
    /// # Errors
    /// There is no space for that.
    pub fn growth(
        &self,
        change: Change,
        draft: &Draft,
        previous: Option<&Object>,
        (revision, ahead): (u64, i64),
    ) -> Result<i64, WriteError> {
        let less = previous.map_or(0, |previous| previous.text().len());
        let more = if change.event_type() == EventType::Deleted { 0 } else { draft.len_at(revision) };
        let growth = more as i64 - less as i64;
        let reserve = match change {
            Change::Release { .. } | Change::Delete { .. } => return Ok(growth),
            Change::Reserved { .. } | Change::Import => RESERVE,
            Change::Create | Change::Update { .. } => 0,
        };
        let used = self.used() as i64 + ahead;
        if growth > 0 && (used + growth).unsigned_abs() > self.max_bytes.saturating_add(reserve) {
            return Err(WriteError::NoSpace { max_bytes: self.max_bytes });
        }
        Ok(growth)
    }

    pub fn write(&self, write: EncodedWrite) -> Result<Arc<Object>, WriteError> {
        let EncodedWrite { resource, change, draft, compiled } = write;
        let mut collection = self.lock(resource);
        let previous = collection.get(draft.facts.namespace(), draft.facts.name()).map(Arc::as_ref);
        check(previous.map(|o| o.revision), change)?;
        let is_taken = |claim: &Claim| collection.claims().is_held(claim);
        if let Some(claim) = conflicting_claim(change, &draft.facts.claims, previous, is_taken) {
            return Err(WriteError::Claimed(claim));
        }
        self.growth(change, &draft, previous, (self.revision() + 1, 0))?;
        // Under the collection's lock, so that versions within a collection appear in order.
        let revision = self.revision.fetch_add(1, Ordering::AcqRel) + 1;
        let object = Arc::new(draft.at(revision).with_compiled(compiled));
        collection.apply(object.clone(), change.event_type());
        Ok(object)
    }
}
