//! Events are written up to a rate limit.

use std::time::Duration;

use berth_client::events::{
    EventRecorder, EventType, MAX_NOTE_BYTES, NewEvent, ObjectReference, RecorderOptions,
};
use tokio_util::sync::CancellationToken;

use berth_faults::Fault;

use super::support::*;

fn event(name: &str, note: &str) -> NewEvent {
    NewEvent {
        regarding: ObjectReference {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            uid: "u".to_owned(),
        },
        related: None,
        event_type: EventType::Warning,
        reason: "FailedScheduling",
        action: "Scheduling",
        note: note.to_owned(),
        controller: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_event_is_counted_in_its_series() {
    let world = World::start().await;
    let options = RecorderOptions {
        series_interval: Duration::from_millis(50),
        ..RecorderOptions::new("berth", "test")
    };
    let recorder = EventRecorder::start(world.client.clone(), options, CancellationToken::new());
    (0..5).for_each(|_| recorder.record(event("p", "no room")));
    recorder.record(event("p", &"x".repeat(3000)));
    until("the series counts five", async || {
        let events = world.get("/apis/events.k8s.io/v1/namespaces/default/events").await;
        let events = events["items"].as_array().unwrap().clone();
        let repeated = events.iter().find(|e| e["note"] == "no room").cloned().unwrap_or_default();
        if repeated["series"]["count"] == 5 && events.len() == 2 { Ok(()) } else { Err(events) }
    })
    .await;
    until("the long note is cut", async || {
        let events = world.get("/apis/events.k8s.io/v1/namespaces/default/events").await;
        let notes = events["items"].as_array().unwrap().clone();
        let longest = notes.iter().filter_map(|e| e["note"].as_str()).map(str::len).max();
        if longest == Some(MAX_NOTE_BYTES) { Ok(()) } else { Err(longest) }
    })
    .await;
    assert_eq!((recorder.written(), recorder.dropped()), (6, 0));
}

#[tokio::test(start_paused = true)]
async fn events_that_cannot_be_written_are_dropped_counted_and_do_not_block() {
    let world = World::start().await;
    let proxy = world.proxy();
    proxy.rule(|_| Fault::Hang);
    let client = berth_client::connect::client(proxy.connection()).unwrap();
    let options = RecorderOptions { queue: 10, ..RecorderOptions::new("berth", "test") };
    let recorder = EventRecorder::start(client, options, CancellationToken::new());
    (0..100).for_each(|i| recorder.record(event(&format!("p{i}"), "no room")));
    // Ten are queued, and one may be in flight.
    assert!(recorder.dropped() >= 89 && recorder.is_full(EventType::Warning), "{}", recorder.dropped());
}
