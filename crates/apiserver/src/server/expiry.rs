//! Events of the cluster (the objects) do not last: they go an hour after their last change, or when there are too many.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use berth_schema::resource::EVENTS;

use super::service::Shared;
use crate::store::{Change, Filter, Object, Write};

/// How often it is looked what has expired.
const INTERVAL: Duration = Duration::from_secs(60);
/// An event expires after so many intervals without a change.
const LIFE_INTERVALS: usize = 60;
/// More events are not kept; the oldest go first.
const MAX_EVENTS: usize = 50_000;
/// How many are deleted before others get their turn.
const AT_ONCE: usize = 256;

/// Deletes what has expired until the server stops.
pub async fn run(shared: Arc<Shared>) {
    let resource = &EVENTS;
    // The store's version at each of the last looks: what was written before the first of them is old.
    let mut looks: VecDeque<u64> = VecDeque::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = shared.stop.cancelled() => return,
        }
        looks.push_back(shared.store.revision());
        let horizon = if looks.len() > LIFE_INTERVALS { looks.pop_front().unwrap_or_default() } else { 0 };
        let (_, events) = shared.store.list(resource, &Filter::default());
        for (i, event) in expired(events, horizon, MAX_EVENTS).into_iter().enumerate() {
            let change = Change::Delete { expected: event.revision };
            // One that changed meanwhile is not old any more.
            let _ = shared.store.write(Write { resource, change, value: event.value() }).await;
            if i % AT_ONCE == AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Those written up to the horizon, and the oldest beyond the number that is kept.
fn expired(mut events: Vec<Arc<Object>>, horizon: u64, max: usize) -> Vec<Arc<Object>> {
    events.sort_unstable_by_key(|event| event.revision);
    let too_many = events.len().saturating_sub(max);
    let too_old = events.partition_point(|event| event.revision <= horizon);
    events.truncate(too_many.max(too_old));
    events
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::EventType;

    #[test]
    fn old_events_go_and_so_do_too_many() {
        let resource = &EVENTS;
        let events: Vec<Arc<Object>> = [5, 1, 3, 2, 4]
            .map(|revision| {
                let value = json!({"metadata": {"name": format!("e{revision}")}});
                Arc::new(Object::encode(resource, value, revision, EventType::Added))
            })
            .into();
        let gone = |horizon, max| -> Vec<u64> {
            expired(events.clone(), horizon, max).iter().map(|event| event.revision).collect()
        };
        assert!(gone(0, 10).is_empty());
        assert_eq!(gone(2, 10), [1, 2]);
        assert_eq!(gone(0, 2), [1, 2, 3]);
        assert_eq!(gone(4, 4), [1, 2, 3, 4]);
    }
}
