//! Events that components report about objects.

use std::collections::VecDeque;

use serde_json::Value;

const MAX_EVENTS: usize = 1000;
/// Characters of a message that are kept.
const MAX_MESSAGE: usize = 1000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterEvent {
    uid: String,
    /// When it was last seen, as RFC 3339.
    pub time: String,
    /// `Normal` or `Warning`.
    pub event_type: String,
    /// Why, in one word.
    pub reason: String,
    /// The message; a long one is cut.
    pub message: String,
    /// How often it was seen.
    pub count: u64,
    pub kind: String,
    /// The namespace of the object; empty for a cluster-scoped one.
    pub namespace: String,
    pub name: String,
    pub component: String,
}

impl ClusterEvent {
    pub fn read(event: &Value) -> ClusterEvent {
        let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let first = |paths: &[&str]| {
            paths.iter().map(|path| text(path)).find(|text| !text.is_empty()).unwrap_or_default().to_owned()
        };
        let counts = ["/series/count", "/count"];
        let count = counts.iter().find_map(|path| event.pointer(path)?.as_u64());
        ClusterEvent {
            uid: text("/metadata/uid").to_owned(),
            time: first(&[
                "/series/lastObservedTime",
                "/lastTimestamp",
                "/eventTime",
                "/metadata/creationTimestamp",
            ]),
            event_type: text("/type").to_owned(),
            reason: text("/reason").to_owned(),
            message: text("/message").chars().take(MAX_MESSAGE).collect(),
            count: count.unwrap_or(1),
            kind: text("/involvedObject/kind").to_owned(),
            namespace: text("/involvedObject/namespace").to_owned(),
            name: text("/involvedObject/name").to_owned(),
            component: first(&["/reportingComponent", "/source/component"]),
        }
    }
}

/// The latest events, the newest last.
#[derive(Clone, Default)]
pub(crate) struct LatestEvents(pub(crate) VecDeque<ClusterEvent>);

impl LatestEvents {
    /// Adds an event, or replaces its earlier report.
    pub(crate) fn add(&mut self, event: ClusterEvent) {
        let events = &mut self.0;
        events.retain(|other| other.uid != event.uid);
        let after = events.partition_point(|other| other.time <= event.time);
        events.insert(after, event);
        if events.len() > MAX_EVENTS {
            events.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_latest_events_are_kept_once_each_and_by_time() {
        let mut events = LatestEvents::default();
        let event = |i: usize, time: usize, count: u64| {
            ClusterEvent::read(&json!({
                "metadata": {"uid": format!("{i}")}, "lastTimestamp": format!("2026-01-01T00:{:02}:{:02}Z", time / 60, time % 60),
                "reason": "FailedScheduling", "message": "x".repeat(2000), "count": count,
                "involvedObject": {"kind": "Pod", "namespace": "n", "name": "p"}, "source": {"component": "berth"},
            }))
        };
        (0..1100).for_each(|i| events.add(event(i, i, 1)));
        events.add(event(500, 1200, 7));
        assert_eq!((events.0.len(), events.0[0].uid.as_str()), (1000, "100"));
        let last = events.0.back().unwrap();
        assert_eq!((last.uid.as_str(), last.count, last.message.len()), ("500", 7, 1000));
        assert_eq!((last.kind.as_str(), last.name.as_str(), last.component.as_str()), ("Pod", "p", "berth"));
    }
}
