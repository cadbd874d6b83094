//! What components report about objects.

use berth_api::syntax::format::counted;
use maud::html;

use super::answer::{Answer, Page};
use super::parts;
use crate::{ClusterEvent, Request, State};

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let wanted = request.parameter("q").unwrap_or_default();
    let wanted = wanted.trim().to_lowercase();
    let is_wanted = |event: &&ClusterEvent| {
        let texts = [&event.reason, &event.message, &event.name, &event.namespace, &event.component];
        texts.iter().any(|text| text.to_lowercase().contains(&wanted))
    };
    let events: Vec<&ClusterEvent> = state.events().rev().filter(is_wanted).collect();
    let (shown, pages) = parts::paged(request, &events)?;
    let row = |event: &&ClusterEvent| {
        vec![
            html! { time datetime=(event.time) { (event.time) } },
            parts::object(&event.kind, &event.namespace, &event.name),
            html! { @if event.event_type == "Warning" { strong.bad { "Warning" } } @else { (event.event_type) } },
            html! { (event.reason) },
            html! { (event.message) @if event.count > 1 { " (" (event.count) " times)" } },
            html! { (event.component) },
        ]
    };
    let headers = ["Last seen", "Object", "Type", "Reason", "Message", "Component"];
    let content = html! {
        @if !state.is_live() { p { "Events are shown of a live cluster only: files have none that pages read." } }
        @else {
            form method="get" {
                label { "With the text " input name="q" value=(wanted) size="30"; }
                " " button { "Show" }
            }
            @if events.is_empty() { p { "No events." } }
            @else { (parts::table(&counted(events.len(), "event"), &headers, shown.iter().map(row))) (pages) }
        }
    };
    Ok(Page::new("Events", content))
}

#[cfg(test)]
mod tests {
    use berth_simulate::SimulationOptions;
    use serde_json::json;

    use super::super::tests::{check, get};
    use crate::{ClusterEvent, State, Update};

    #[test]
    fn events_are_shown_newest_first_and_by_text() {
        check("/events", &["Events are shown of a live cluster only"]);
        let mut state = State::live("test", SimulationOptions::default()).unwrap();
        assert!(get(&mut state, "/events").1.contains("No events."));
        let event = |name: &str, reason: &str| {
            Update::Event(Box::new(ClusterEvent::read(&json!({
                "metadata": {"uid": name}, "lastTimestamp": format!("2026-01-01T00:00:0{}Z", name.len()), "type": "Warning",
                "reason": reason, "message": "<b>0/2 nodes", "count": 3, "source": {"component": "berth"},
                "involvedObject": {"kind": "Pod", "namespace": "shop", "name": name},
            }))))
        };
        state.apply([event("web", "FailedScheduling"), event("db", "EvictionHeld")], |error| {
            panic!("{error}")
        });
        let (_, body) = get(&mut state, "/events");
        assert!(
            body.contains("<caption>2 events</caption>") && body.contains("&lt;b&gt;0/2 nodes (3 times)"),
            "{body}"
        );
        assert!(body.find("/pods/shop/web").unwrap() < body.find("/pods/shop/db").unwrap(), "{body}");
        let (_, body) = get(&mut state, "/events?q=evict");
        assert!(body.contains("<caption>1 event</caption>") && body.contains("/pods/shop/db"), "{body}");
    }
}
