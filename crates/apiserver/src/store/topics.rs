//! Watches of objects with one value of one field, such as a node's watch of its pods: they hear of no others' changes.

use std::collections::{HashMap, VecDeque};

use tokio::sync::watch;

use super::collection::Event;
use super::object::Facts;

/// Topics that nobody follows are cleared away when there are this many, at first.
const SWEEP_AT: usize = 64;

/// Who watches which value.
#[derive(Debug)]
pub struct Topics {
    /// The place of the field among the selectable ones; `None` if the resource has no such field.
    field: Option<usize>,
    by_value: HashMap<Box<str>, Topic>,
    sweep_at: usize,
}

/// What happened to objects with one value.
#[derive(Debug)]
struct Topic {
    head: watch::Sender<u64>,
    /// Changes after this version are noted.
    since: u64,
    /// The versions of changes that are in the history, oldest first.
    revisions: VecDeque<u64>,
    /// The last version that has been forgotten; 0 if none.
    lost: u64,
}

impl Topics {
    /// Nobody watches anything.
    pub fn new(field: Option<usize>) -> Topics {
        Topics { field, by_value: HashMap::new(), sweep_at: SWEEP_AT }
    }

    fn value_of<'f>(&self, facts: &'f Facts) -> Option<&'f str> {
        facts.fields.get(self.field?).map(|value| &**value)
    }

    /// The values that an event concerns: the one the object has, and the one it had.
    fn values_of<'e>(&self, event: &'e Event) -> [Option<&'e str>; 2] {
        let now = self.value_of(&event.object.facts);
        let before = event.previous.as_ref().and_then(|previous| self.value_of(&previous.facts));
        [now, before.filter(|before| Some(*before) != now)]
    }

    /// Follows the changes of objects with a value; the collection's last version is `now`.
    pub fn subscribe(&mut self, value: &str, now: u64) -> watch::Receiver<u64> {
        if self.by_value.len() >= self.sweep_at {
            self.by_value.retain(|_, topic| topic.head.receiver_count() > 0);
            self.sweep_at = SWEEP_AT.max(2 * self.by_value.len());
        }
        let new = || Topic { head: watch::Sender::new(now), since: now, revisions: VecDeque::new(), lost: 0 };
        self.by_value.entry(value.into()).or_insert_with(new).head.subscribe()
    }

    /// Notes an event, and wakes those it concerns.
    pub fn tell(&mut self, event: &Event) {
        for value in self.values_of(event).into_iter().flatten() {
            if let Some(topic) = self.by_value.get_mut(value) {
                topic.revisions.push_back(event.object.revision);
                topic.head.send_replace(event.object.revision);
            }
        }
    }

    /// Forgets the oldest event of the history.
    pub fn forget(&mut self, event: &Event) {
        let revision = event.object.revision;
        for value in self.values_of(event).into_iter().flatten() {
            if let Some(topic) = self.by_value.get_mut(value)
                && topic.revisions.front() == Some(&revision)
            {
                topic.revisions.pop_front();
                topic.lost = revision;
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
        let topic = self.by_value.get(value).filter(|topic| topic.since <= revision)?;
        if revision < topic.lost {
            return Some(Err(topic.lost));
        }
        let from = topic.revisions.partition_point(|noted| *noted <= revision);
        Some(Ok(topic.revisions.range(from..).copied()))
    }
}
