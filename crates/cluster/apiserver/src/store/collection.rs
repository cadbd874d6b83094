//! The objects of one resource and the history of their changes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_schema::resource::Resource;
use serde_json::Value;
use tokio::sync::watch;

use super::claim_index::ClaimIndex;
use super::event::Event;
use super::facts::Facts;
use super::field_watchers::FieldWatchers;
use super::object::{AnyCompiled, EventType, Object};
use super::objects::Objects;

/// Limits of the history, for watchers that lag or reconnect.
#[derive(Clone, Copy, Debug)]
pub struct HistoryBounds {
    pub events: usize,
    /// Maximum size in bytes of the objects of all collections. At this size, collections with more than a part of
    /// `1 / OWN_PART` forget their oldest events.
    pub bytes: usize,
}

/// The part of the history that every collection has to itself.
const OWN_PART: usize = 128;

impl Default for HistoryBounds {
    fn default() -> Self {
        HistoryBounds { events: 32_768, bytes: 128 << 20 }
    }
}

/// The history does not include the requested version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {requested} ({oldest})")]
pub struct TooOld {
    pub requested: u64,
    /// The oldest one from which all later changes are known.
    pub oldest: u64,
}

/// Bytes of all collections together.
#[derive(Debug, Default)]
pub struct Totals {
    /// Of the texts of their objects.
    pub objects: AtomicUsize,
    /// Of their histories.
    history: AtomicUsize,
}

/// The objects of one resource and the history of their changes.
#[derive(Debug)]
pub struct Collection {
    objects: Objects,
    history: VecDeque<Event>,
    history_bytes: usize,
    totals: Arc<Totals>,
    /// All changes after this version are in the history.
    floor: u64,
    /// The last event that was loaded from disk without the object before the change.
    guessed: u64,
    bounds: HistoryBounds,
    /// Signals new events to watches.
    head: watch::Sender<u64>,
    /// Watches of objects with one value of one field.
    field_watchers: FieldWatchers,
    claims: ClaimIndex,
    /// Makes the form in which requests read the objects.
    pub compile: Option<fn(&Value) -> AnyCompiled>,
}

impl Collection {
    /// An empty collection. Its history starts after `floor`.
    pub fn new(resource: &Resource, floor: u64, bounds: HistoryBounds, totals: &Arc<Totals>) -> Collection {
        Collection {
            objects: Objects::default(),
            history: VecDeque::new(),
            history_bytes: 0,
            totals: totals.clone(),
            floor,
            guessed: 0,
            bounds,
            head: watch::Sender::new(floor),
            field_watchers: FieldWatchers::new(resource.watched_field()),
            claims: ClaimIndex::default(),
            compile: None,
        }
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.objects.get(namespace, name)
    }

    /// How many objects there are in a namespace, or in all.
    pub fn len_in(&self, namespace: Option<&str>) -> usize {
        match namespace {
            Some(namespace) => self.objects.len_in(namespace),
            None => self.objects.len(),
        }
    }

    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Which objects have the values that at most one may have.
    pub fn claims(&self) -> &ClaimIndex {
        &self.claims
    }

    /// Inserts an object without history, when loading from disk.
    pub fn restore(&mut self, object: Arc<Object>) {
        self.put(object);
    }

    /// Repeats a change that was loaded from disk. `before` has the selector fields of the replaced object; if it was replaced
    /// before the oldest known change, nothing else is known.
    pub fn replay(&mut self, object: Arc<Object>, event_type: EventType, before: Option<Facts>) {
        let replaced = self.replace(&object, event_type);
        let previous = before.map(|before| {
            replaced.unwrap_or_else(|| {
                self.guessed = object.revision;
                Arc::new(object.with_facts(before))
            })
        });
        // Watches of one value record the changes after this one.
        self.head.send_replace(object.revision);
        self.remember(Event { event_type, object, previous });
    }

    /// The objects before the changes of the history, with the versions of the changes.
    pub fn former(&self) -> impl Iterator<Item = (&Arc<Object>, u64)> {
        self.history.iter().filter_map(|event| Some((event.previous.as_ref()?, event.object.revision)))
    }

    fn put(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        self.totals.objects.fetch_add(object.text().len(), Ordering::Relaxed);
        let previous = self.objects.put(object.clone());
        if let Some(previous) = &previous {
            self.release(previous);
        }
        self.claims.hold(&object.facts);
        previous
    }

    fn take(&mut self, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let previous = self.objects.take(namespace, name)?;
        self.release(&previous);
        Some(previous)
    }

    fn release(&mut self, previous: &Object) {
        self.totals.objects.fetch_sub(previous.text().len(), Ordering::Relaxed);
        self.claims.release(&previous.facts);
    }

    fn replace(&mut self, object: &Arc<Object>, event_type: EventType) -> Option<Arc<Object>> {
        match event_type {
            EventType::Deleted => self.take(object.facts.namespace(), object.facts.name()),
            EventType::Added | EventType::Modified => self.put(object.clone()),
        }
    }

    /// Applies a checked change and notifies the watches.
    pub fn apply(&mut self, object: Arc<Object>, event_type: EventType) {
        let previous = self.replace(&object, event_type);
        if let Some(previous) = &previous {
            previous.drop_compiled();
        }
        let revision = object.revision;
        let event = Event { event_type, object, previous };
        self.field_watchers.notify(&event);
        self.remember(event);
        self.head.send_replace(revision);
    }

    fn remember(&mut self, event: Event) {
        self.count(event.object.size(), 0);
        self.history.push_back(event);
        while self.history.len() > self.bounds.events
            || (self.history.len() > 1
                && self.history_bytes > self.bounds.bytes / OWN_PART
                && self.totals.history.load(Ordering::Relaxed) > self.bounds.bytes)
        {
            let Some(oldest) = self.history.pop_front() else { break };
            self.count(0, oldest.object.size());
            self.floor = oldest.object.revision;
            self.field_watchers.forget(&oldest);
        }
        // The replaced object also stays in memory. The bound on bytes still holds within a factor of two, since the
        // event that wrote it is counted as well.
    }

    /// The events after a version, oldest first, with the objects before the changes.
    ///
    /// # Errors
    /// Changes after that version, or objects before them, have been forgotten.
    pub fn undoable_events(&self, revision: u64) -> Result<impl Iterator<Item = &Event>, TooOld> {
        let oldest = self.floor.max(self.guessed);
        if revision < oldest {
            return Err(TooOld { requested: revision, oldest });
        }
        let start = self.history.partition_point(|event| event.object.revision <= revision);
        Ok(self.history.range(start..))
    }

    fn count(&mut self, more: usize, less: usize) {
        self.history_bytes = self.history_bytes + more - less;
        self.totals.history.fetch_add(more.wrapping_sub(less), Ordering::Relaxed);
    }

    /// Up to `limit` events after a version, oldest first.
    ///
    /// # Errors
    /// Changes after that version have been forgotten.
    pub fn events_after(&self, revision: u64, limit: usize) -> Result<Vec<Event>, TooOld> {
        if revision < self.floor {
            return Err(TooOld { requested: revision, oldest: self.floor });
        }
        let start = self.history.partition_point(|event| event.object.revision <= revision);
        Ok(self.history.range(start..).take(limit).cloned().collect())
    }

    /// Up to `limit` events after a version, oldest first, among them all of objects whose watched field had or has a
    /// value.
    ///
    /// # Errors
    /// Changes after that version that concern the value have been forgotten.
    pub fn events_of(&self, value: &str, revision: u64, limit: usize) -> Result<Vec<Event>, TooOld> {
        match self.field_watchers.revisions_after(value, revision) {
            // The watched value has been recorded only since a later version.
            None => self.events_after(revision, limit),
            Some(Err(oldest)) => Err(TooOld { requested: revision, oldest }),
            Some(Ok(revisions)) => {
                let event = |revision: u64| {
                    let at = self.history.binary_search_by_key(&revision, |event| event.object.revision);
                    at.ok().and_then(|at| self.history.get(at)).cloned()
                };
                Ok(revisions.take(limit).filter_map(event).collect())
            }
        }
    }

    /// A signal that fires after every change of objects whose watched field had or has a value.
    pub fn changes_of(&mut self, value: &str) -> watch::Receiver<u64> {
        let now = *self.head.borrow();
        self.field_watchers.subscribe(value, now)
    }

    pub fn changes(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::selector::Filter;
    use berth_schema::resource::PODS;

    fn pods() -> &'static Resource {
        &PODS
    }

    fn on_node(name: &str, node: &str, revision: u64) -> Arc<Object> {
        let value = json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"nodeName": node}});
        Arc::new(Object::encode(pods(), &value, revision))
    }

    fn object(name: &str, label: &str, revision: u64) -> Arc<Object> {
        let value = json!({"metadata": {"name": name, "namespace": "n", "labels": {"l": label}}});
        Arc::new(Object::encode(pods(), &value, revision))
    }

    fn seen(collection: &Collection, after: u64, labels: &str) -> Vec<(EventType, u64)> {
        let filter = Filter::parse(pods(), None, labels, "").unwrap();
        let events = collection.events_after(after, usize::MAX).unwrap();
        events.iter().filter_map(|e| Some((e.seen_through(&filter)?, e.object.revision))).collect()
    }

    #[test]
    fn watchers_see_objects_enter_and_leave_their_selection() {
        use EventType::{Added, Deleted, Modified};
        let mut collection = Collection::new(pods(), 10, HistoryBounds::default(), &Arc::default());
        collection.apply(object("a", "x", 11), Added);
        collection.apply(object("a", "x", 12), Modified);
        collection.apply(object("a", "y", 13), Modified);
        collection.apply(object("a", "x", 14), Modified);
        collection.apply(object("a", "x", 15), Deleted);
        assert_eq!(
            seen(&collection, 10, "l=x"),
            [(Added, 11), (Modified, 12), (Deleted, 13), (Added, 14), (Deleted, 15)]
        );
        assert_eq!(seen(&collection, 12, "l=y"), [(Added, 13), (Deleted, 14)]);
        assert_eq!(seen(&collection, 15, ""), []);
        assert_eq!(collection.len(), 0);
    }

    #[test]
    fn forgotten_history_is_an_error() {
        let mut collection =
            Collection::new(pods(), 10, HistoryBounds { events: 2, bytes: usize::MAX }, &Arc::default());
        assert_eq!(collection.events_after(9, 1).unwrap_err(), TooOld { requested: 9, oldest: 10 });
        for revision in 11..15 {
            collection.apply(object("a", "x", revision), EventType::Modified);
        }
        assert_eq!(collection.events_after(11, 9).unwrap_err(), TooOld { requested: 11, oldest: 12 });
        assert_eq!(collection.events_after(12, 9).unwrap().len(), 2);
        assert_eq!(collection.events_after(12, 1).unwrap()[0].object.revision, 13);
    }

    #[test]
    fn history_is_bounded_by_bytes_of_all_collections() {
        let size = object("a", "x", 100).size();
        let bounds = HistoryBounds { events: usize::MAX, bytes: 3 * size + size / 2 };
        let held = Arc::default();
        let [mut one, mut other] = [(); 2].map(|()| Collection::new(pods(), 0, bounds, &held));
        for revision in 100..109 {
            one.apply(object("a", "x", revision), EventType::Modified);
        }
        assert_eq!(one.events_after(105, 9).unwrap().len(), 3);
        assert!(one.events_after(104, 9).is_err());
        for revision in 109..112 {
            other.apply(object("a", "x", revision), EventType::Modified);
        }
        assert_eq!(other.events_after(110, 9).unwrap().len(), 1, "the collection that grows forgets");
        assert!(other.events_after(109, 9).is_err());
        assert!(one.events_after(105, 9).is_ok());
    }

    #[test]
    fn a_watch_of_one_node_gets_events_of_its_pods_only() {
        use EventType::{Added, Deleted, Modified};
        let mut collection =
            Collection::new(pods(), 10, HistoryBounds { events: 4, bytes: usize::MAX }, &Arc::default());
        let revisions = |collection: &Collection, after| {
            let events = collection.events_of("n1", after, usize::MAX)?;
            Ok(events.iter().map(|event| event.object.revision).collect::<Vec<_>>())
        };
        collection.apply(on_node("early", "n1", 11), Added);
        let mut changes = collection.changes_of("n1");
        collection.apply(on_node("a", "n2", 12), Added);
        assert!(!changes.has_changed().unwrap());
        collection.apply(on_node("b", "", 13), Added);
        collection.apply(on_node("b", "n1", 14), Modified);
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        assert_eq!(revisions(&collection, 10), Ok(vec![11, 12, 13, 14]), "from before it was watched: all");
        assert_eq!(revisions(&collection, 11), Ok(vec![14]));
        assert_eq!(revisions(&collection, 14), Ok(vec![]));
        collection.apply(on_node("b", "n3", 15), Modified);
        assert!(changes.has_changed().unwrap(), "it left the node");
        collection.apply(on_node("b", "n3", 16), Deleted);
        collection.apply(on_node("c", "n3", 17), Added);
        collection.apply(on_node("d", "n3", 18), Added);
        // 14 is forgotten, and 15 is not.
        assert_eq!(revisions(&collection, 14), Ok(vec![15]));
        assert_eq!(revisions(&collection, 13), Err(TooOld { requested: 13, oldest: 14 }));
        collection.apply(on_node("d", "n3", 19), Modified);
        assert_eq!(revisions(&collection, 15), Ok(vec![]), "others' changes make no version too old");
        assert!(collection.events_after(14, 9).is_err());
    }
}
