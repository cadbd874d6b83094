//! Expiry of Event objects: some time after their last change, or when there are too many.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use berth_schema::resource::EVENTS;
use tokio_util::sync::CancellationToken;

use crate::store::{Change, Filter, Object, Store, Write};

const INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of events; the oldest are deleted first.
const MAX_EVENTS: usize = 50_000;
/// Number of deletions before the task yields.
const AT_ONCE: usize = 256;

/// Deletes events that have not changed for `ttl`, until the server stops. It looks once a minute.
pub async fn run(store: &Store, ttl: Duration, stop: &CancellationToken) {
    let resource = &EVENTS;
    let n_intervals = ttl.as_secs().div_ceil(INTERVAL.as_secs()) as usize;
    // The store's version at each of the last checks. Events older than the first of them have expired.
    let mut looks: VecDeque<u64> = VecDeque::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = stop.cancelled() => return,
        }
        looks.push_back(store.revision());
        let horizon = if looks.len() > n_intervals { looks.pop_front().unwrap_or_default() } else { 0 };
        let (_, events) = store.list(resource, &Filter::default());
        for (i, event) in expired(events, horizon, MAX_EVENTS).into_iter().enumerate() {
            let change = Change::Delete { expected: event.revision };
            // An event that changed in the meantime has not expired.
            let _ = store.write(Write { resource, change, object: event.value().into() }).await;
            if i % AT_ONCE == AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Events written up to the horizon, and the oldest events above the maximum number.
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

    #[test]
    fn old_and_surplus_events_are_deleted() {
        let resource = &EVENTS;
        let events: Vec<Arc<Object>> = [5, 1, 3, 2, 4]
            .map(|revision| {
                let value = json!({"metadata": {"name": format!("e{revision}")}});
                Arc::new(Object::encode(resource, &value, revision))
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
