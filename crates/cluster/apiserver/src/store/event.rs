//! A change of an object, as the history keeps it and watches see it.

use std::sync::Arc;

use super::object::{EventType, Object};
use super::selector::Filter;

#[derive(Clone, Debug)]
pub struct Event {
    pub event_type: EventType,
    /// The object after the change; for a deletion, its last state with the deletion's version.
    pub object: Arc<Object>,
    pub previous: Option<Arc<Object>>,
}

impl Event {
    /// The event for a watcher with this filter: `ADDED` when an object enters the selection, `DELETED` when it
    /// leaves.
    pub fn seen_through(&self, filter: &Filter) -> Option<EventType> {
        let is = self.event_type != EventType::Deleted && filter.matches(&self.object.facts);
        let was = self.previous.as_ref().is_some_and(|previous| filter.matches(&previous.facts));
        match (was, is) {
            (false, true) => Some(EventType::Added),
            (true, true) => Some(EventType::Modified),
            (true, false) => Some(EventType::Deleted),
            (false, false) => None,
        }
    }
}
