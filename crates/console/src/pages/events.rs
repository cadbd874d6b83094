//! What components report about objects.

use maud::html;

use super::{Answer, Page, parts};
use crate::names::counted;
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
