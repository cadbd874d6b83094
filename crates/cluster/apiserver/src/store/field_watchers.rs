//! Watches that select one value of one field, such as a node's watch of its pods: only changes of these objects wake
//! them.

use std::collections::{HashMap, VecDeque};

use tokio::sync::watch;

use super::event::Event;
use super::facts::Facts;

/// FieldWatchers without a watch are removed when there are this many, at first.
const SWEEP_AT: usize = 64;

#[derive(Debug)]
pub struct FieldWatchers {
    /// The index of the field among the selectable ones; `None` if the resource has no such field.
    field: Option<usize>,
    by_value: HashMap<Box<str>, WatchedValue>,
    sweep_at: usize,
}

/// The recent changes of objects with one value.
#[derive(Debug)]
struct WatchedValue {
    head: watch::Sender<u64>,
    /// Changes after this version are noted.
    since: u64,
    /// The versions of changes that are in the history, oldest first.
    revisions: VecDeque<u64>,
    /// The last version that has been forgotten; 0 if none.
    lost: u64,
}

impl FieldWatchers {
    /// No value is watched yet.
    pub fn new(field: Option<usize>) -> FieldWatchers {
        FieldWatchers { field, by_value: HashMap::new(), sweep_at: SWEEP_AT }
    }

    fn value_of<'f>(&self, facts: &'f Facts) -> Option<&'f str> {
        facts.field(self.field?)
    }

    /// The values that an event concerns: the one the object has, and the one it had.
    fn values_of<'e>(&self, event: &'e Event) -> [Option<&'e str>; 2] {
        let now = self.value_of(&event.object.facts);
        let before = event.previous.as_ref().and_then(|previous| self.value_of(&previous.facts));
        [now, before.filter(|before| Some(*before) != now)]
    }

    /// Subscribes to the changes of objects with a value; the collection's last version is `now`.
    pub fn subscribe(&mut self, value: &str, now: u64) -> watch::Receiver<u64> {
        if self.by_value.len() >= self.sweep_at {
            self.by_value.retain(|_, watched| watched.head.receiver_count() > 0);
            self.sweep_at = SWEEP_AT.max(2 * self.by_value.len());
        }
        let new = || WatchedValue {
            head: watch::Sender::new(now),
            since: now,
            revisions: VecDeque::new(),
            lost: 0,
        };
        self.by_value.entry(value.into()).or_insert_with(new).head.subscribe()
    }

    /// Records an event, and wakes the watches that it concerns.
    pub fn notify(&mut self, event: &Event) {
        for value in self.values_of(event).into_iter().flatten() {
            if let Some(watched) = self.by_value.get_mut(value) {
                watched.revisions.push_back(event.object.revision);
                watched.head.send_replace(event.object.revision);
            }
        }
    }

    /// Removes the oldest event of the history.
    pub fn forget(&mut self, event: &Event) {
        let revision = event.object.revision;
        for value in self.values_of(event).into_iter().flatten() {
            if let Some(watched) = self.by_value.get_mut(value)
                && watched.revisions.front() == Some(&revision)
            {
                watched.revisions.pop_front();
                watched.lost = revision;
            }
        }
    }

    /// The versions of the changes of a value after a version; `None` if they were not noted, and the last forgotten
    /// version if some of them are lost.
    pub fn revisions_after(
        &self,
        value: &str,
        revision: u64,
    ) -> Option<Result<impl Iterator<Item = u64>, u64>> {
        let watched = self.by_value.get(value).filter(|watched| watched.since <= revision)?;
        if revision < watched.lost {
            return Some(Err(watched.lost));
        }
        let from = watched.revisions.partition_point(|noted| *noted <= revision);
        Some(Ok(watched.revisions.range(from..).copied()))
    }
}
