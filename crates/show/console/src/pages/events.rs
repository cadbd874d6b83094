//! What components report about objects.

use std::collections::BTreeSet;

use berth_api::syntax::format::counted;
use jiff::Timestamp;
use maud::html;

use super::answer::{Answer, Page, PageError};
use super::parts;
use crate::components::listing::{Column, Filter, listing, with_parameter};
use crate::components::{Tone, badge, empty, tabs};
use crate::{ClusterEvent, Request, State};

/// Bytes of a message that is shown at once.
const MAX_MESSAGE: usize = 160;

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let clock = state.clock();
    if !state.is_live() {
        let hint = html! { "Events are shown of a live cluster only: files have none that pages read. Start the console with " code { "--live" } "." };
        return Ok(Page::new("Events", empty("No events", &hint)));
    }
    let filter = Filter::of(request);
    let wanted = request.parameter("type").unwrap_or_default();
    if !["", "Warning", "Normal"].contains(&wanted.as_ref()) {
        return Err(PageError::Parameter(format!("type={wanted}: give Warning or Normal")));
    }
    let is_wanted = |event: &&ClusterEvent| {
        let texts = [&event.reason, &event.message, &event.name, &event.component].map(String::as_str);
        (wanted.is_empty() || event.event_type == wanted) && filter.matches(&event.namespace, &texts)
    };
    let mut events: Vec<&ClusterEvent> = state.events().rev().filter(is_wanted).collect();
    // Warnings first; each from the newest.
    events.sort_by_key(|event| event.event_type != "Warning");
    let n_events = events.len();
    let columns = [
        Column::new("age", "Last seen", move |event: &&ClusterEvent| match event.time.parse::<Timestamp>() {
            Ok(time) => clock.relative(time),
            Err(_) => html! { (event.time) },
        })
        .by(|a, b| b.time.cmp(&a.time)),
        Column::new("type", "Type", |event: &&ClusterEvent| {
            badge(if event.event_type == "Warning" { Tone::Warn } else { Tone::Neutral }, &event.event_type)
        })
        .by(|a, b| b.event_type.cmp(&a.event_type)),
        Column::new("reason", "Reason", |event: &&ClusterEvent| html! { (event.reason) })
            .by(|a, b| a.reason.cmp(&b.reason)),
        Column::new("object", "Object", |event: &&ClusterEvent| {
            parts::object(&event.kind, &event.namespace, &event.name)
        })
        .by(|a, b| (&a.kind, &a.namespace, &a.name).cmp(&(&b.kind, &b.namespace, &b.name))),
        Column::text("message", "Message", |event: &&ClusterEvent| {
            html! {
                // The first sentence of a long one, which opens.
                @match event.message.split_once(". ").filter(|_| event.message.len() > MAX_MESSAGE) {
                    Some((first, rest)) => details { summary { (first) } (rest) },
                    None => (event.message),
                }
                @if event.count > 1 { " (" (event.count) " times)" }
            }
        }),
        Column::new("component", "Component", |event: &&ClusterEvent| html! { (event.component) })
            .by(|a, b| a.component.cmp(&b.component)),
    ];
    let table =
        listing(request, &counted(n_events, "event"), &mut events, &columns).map_err(PageError::Parameter)?;
    let namespaces: BTreeSet<&str> =
        state.events().map(|event| event.namespace.as_str()).filter(|name| !name.is_empty()).collect();
    let namespaces: Vec<&str> = namespaces.into_iter().collect();
    let choice = |value: &str| with_parameter(request, "type", value);
    let types = [
        (choice(""), "All", wanted.is_empty()),
        (choice("Warning"), "Warnings", wanted == "Warning"),
        (choice("Normal"), "Normal", wanted == "Normal"),
    ];
    let content = html! {
        div.toolbar { div.group { span { "Type" } (tabs("Type", &types)) } (filter.form(request, "With the text", &namespaces)) }
        @if n_events == 0 { (empty("No events", &html! { "None was reported since the console follows the cluster, or none is selected." })) }
        @else { (table) }
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
        assert!(get(&mut state, "/events").1.contains("No events"));
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
