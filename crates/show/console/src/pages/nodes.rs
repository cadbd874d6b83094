//! The nodes as a list, and one with its labels, taints, room and pods.

use std::collections::HashMap;

use berth_api::object::{Node, Taint};
use berth_api::syntax::format::counted;
use berth_api::syntax::labels::ZONE;
use berth_api::syntax::quantity::with_unit;
use berth_rules::PodRequests;
use berth_simulate::SimulatedPod;
use maud::{Markup, html};

use super::answer::{Answer, Page, PageError};
use super::{devices, parts};
use crate::components::listing::{Column, Filter, listing};
use crate::components::time::Clock;
use crate::components::{Tone, badge, card, facts, labels, percent};
use crate::overview::Pods;
use crate::places::{Place, place, places};
use crate::{Request, State, links, report};

pub(super) fn list(state: &mut State, request: &Request<'_>) -> Answer {
    let clock = state.clock();
    let overview = state.overview();
    let by_node = overview.pods.table.by_node();
    let filter = Filter::of(request);
    let zone = |place: &Place<'_>| place.node.metadata.labels.get(ZONE).map_or("", String::as_str).to_owned();
    let created = |place: &Place<'_>| place.node.metadata.creation_timestamp;
    let mut places: Vec<_> = places(overview, &by_node)
        .into_iter()
        .filter(|place| filter.matches("", &[&place.node.metadata.name, &zone(place)]))
        .collect();
    // Found once: sorting compares them often.
    let utilization: HashMap<&str, usize> =
        places.iter().map(|place| (place.node.metadata.name.as_str(), place.utilization())).collect();
    let used = |place: &Place<'_>| utilization.get(place.node.metadata.name.as_str()).copied().unwrap_or(0);
    let n_places = places.len();
    let columns = [
        Column::new("name", "Node", |place: &Place<'_>| parts::node(&place.node.metadata.name))
            .by(|a, b| a.node.metadata.name.cmp(&b.node.metadata.name)),
        Column::new("zone", "Zone", |place: &Place<'_>| html! { (zone(place)) })
            .by(|a, b| zone(a).cmp(&zone(b))),
        Column::new("requested", "Requested", |place: &Place<'_>| requested(place, used(place)))
            .by(|a, b| used(a).cmp(&used(b))),
        Column::number("pods", "Pods", |place: &Place<'_>| place.pods.len()),
        Column::number("broken", "Broken rules", |place: &Place<'_>| place.broken.len()),
        Column::new("state", "State", |place: &Place<'_>| state_of(place.node))
            .by(|a, b| a.node.spec.unschedulable.cmp(&b.node.spec.unschedulable)),
        Column::new("age", "Age", move |place: &Place<'_>| clock.optional(created(place)))
            .by(move |a, b| created(b).cmp(&created(a))),
        Column::new("ask", "What if", |place: &Place<'_>| {
            html! { a href=(links::with("/what-if", "drain", &place.node.metadata.name)) { "drain" } }
        }),
    ];
    let table =
        listing(request, &counted(n_places, "node"), &mut places, &columns).map_err(PageError::Parameter)?;
    let content = html! {
        (filter.form(request, "Node or zone", &[]))
        (table)
    };
    Ok(Page::new("Nodes", content).actions(html! { a.button.small href="/topology" { "The topology" } }))
}

/// How much of the scarcest resource is requested.
fn requested(place: &Place<'_>, part: usize) -> Markup {
    let resource = place.scarcest().map_or("", |(resource, _)| resource);
    html! { (percent(&format!("requested {resource}"), part)) " " span.detail { (resource) } }
}

fn state_of(node: &Node) -> Markup {
    html! {
        @if node.spec.unschedulable { (badge(Tone::Warn, "cordoned")) } @else { (badge(Tone::Good, "schedulable")) }
        @if !node.spec.taints.is_empty() { " " (badge(Tone::Neutral, &counted(node.spec.taints.len(), "taint"))) }
    }
}

pub(super) fn page(state: &mut State, request: &Request<'_>, name: &str) -> Answer {
    let clock = state.clock();
    let overview = state.overview();
    let unknown = || {
        let names = overview.pods.simulation.nodes().map(|node| node.metadata.name.as_str());
        parts::not_found(
            format!("Node {name}"),
            name,
            names,
            |name| name,
            |name| (links::node(name), name.to_owned()),
        )
    };
    let node = overview.pods.simulation.node(name).ok_or_else(unknown)?;
    let on_node: Vec<usize> = overview.pods.table.on_node(name).collect();
    let place = place(overview, node, &on_node);
    let taint = |taint: &Taint| [&taint.key, &taint.value, &taint.effect].map(|text| html! { (text) }).into();
    let clock_facts = [
        ("State", state_of(node)),
        ("Created", clock.optional(node.metadata.creation_timestamp)),
        ("Labels", labels(node.metadata.labels.iter().map(|(key, value)| format!("{key}={value}")))),
    ];
    let facts_of: Vec<_> = clock_facts
        .into_iter()
        .filter(|(name, _)| *name != "Created" || node.metadata.creation_timestamp.is_some())
        .collect();
    let content = html! {
        div.columns {
            div.fields {
                (devices::devices_of(overview.pods.simulation, name))
                (broken_rules(&place))
                (pods(overview.pods, &on_node, request, clock)?)
            }
            div.fields {
                (card("What if", &parts::node_actions(name, node.spec.unschedulable)))
                (card("Requested", &resources(&place)))
                (card("Node", &facts(&facts_of)))
                (parts::table_of("Taints", &["Key", "Value", "Effect"], node.spec.taints.iter().map(taint).collect()))
            }
        }
    };
    let actions = html! {
        a.button.small href=(links::with("/topology", "node", name)) { "Show in the topology" }
        a.button.small href=(links::path(&["yaml", "Node", name])) { "YAML" }
    };
    Ok(Page::new(format!("Node {name}"), content).actions(actions))
}

/// What the pods request of each resource.
pub(super) fn resources(place: &Place<'_>) -> Markup {
    let of = |resource: &String| {
        let (used, of) = place.amount(resource);
        let percent = usize::try_from((used * 100).checked_div(of).unwrap_or(0)).unwrap_or(0);
        (with_unit(resource, used), with_unit(resource, of), percent)
    };
    html! {
        ul.rows.amounts {
            @for resource in place.allocatable().into_iter().flat_map(|list| list.keys()) {
                @let (used, of, part) = of(resource);
                // What a node neither has nor gives is left out.
                @if place.amount(resource) != (0, 0) { li { span { (resource) } span.detail { (used) " of " (of) } (percent(&format!("requested {resource}"), part)) } }
            }
        }
    }
}

fn broken_rules(place: &Place<'_>) -> Markup {
    parts::short_list("Broken rules", (&place.broken, "broken rule"), |violation| {
        html! { (parts::pod(&violation.namespace, &violation.name)) ": " (report::html::verdict(&violation.verdict)) }
    })
}

fn pods(pods: Pods<'_>, on_node: &[usize], request: &Request<'_>, clock: Clock) -> Result<Markup, PageError> {
    let mut pods = pods.sorted(on_node.iter().copied(), usize::MAX);
    let n_pods = pods.len();
    type Row<'a> = (usize, &'a SimulatedPod);
    let requests = |pod: &SimulatedPod| PodRequests::of(&pod.pod);
    let columns = [
        Column::new("name", "Pod", |(_, pod): &Row<'_>| {
            parts::pod(&pod.pod.metadata.namespace, &pod.pod.metadata.name)
        })
        .by(|(_, a), (_, b)| a.pod.metadata.name.cmp(&b.pod.metadata.name)),
        Column::new("workload", "Workload", |(_, pod): &Row<'_>| {
            parts::workload(&pod.pod.metadata.namespace, pod.workload.as_deref())
        })
        .by(|(_, a), (_, b)| a.workload.cmp(&b.workload)),
        Column::new(
            "priority",
            "Priority",
            |(_, pod): &Row<'_>| html! { (pod.pod.spec.priority.unwrap_or(0)) },
        )
        .by(|(_, a), (_, b)| a.pod.spec.priority.cmp(&b.pod.spec.priority)),
        Column::new("cpu", "cpu", |(_, pod): &Row<'_>| html! { (with_unit("cpu", requests(pod).milli_cpu)) })
            .by(|(_, a), (_, b)| requests(a).milli_cpu.cmp(&requests(b).milli_cpu)),
        Column::new(
            "memory",
            "memory",
            |(_, pod): &Row<'_>| html! { (with_unit("memory", requests(pod).memory)) },
        )
        .by(|(_, a), (_, b)| requests(a).memory.cmp(&requests(b).memory)),
        Column::new("age", "Age", move |(_, pod): &Row<'_>| {
            clock.optional(pod.pod.metadata.creation_timestamp)
        })
        .by(|(_, a), (_, b)| b.pod.metadata.creation_timestamp.cmp(&a.pod.metadata.creation_timestamp)),
    ];
    listing(request, &counted(n_pods, "pod"), &mut pods, &columns).map_err(PageError::Parameter)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, cluster, get, state};

    #[test]
    fn a_node_has_its_room_pods_labels_and_taints() {
        check(
            "/nodes",
            &[
                "<caption>2 nodes</caption>",
                "<a href=\"/nodes/a-1\">a-1</a></th><td data-label=\"Zone\">a</td>",
                "<a href=\"/what-if?drain=a-1\">drain</a>",
            ],
        );
        check("/nodes?q=b-", &["<caption>1 node</caption>"]);
        check(
            "/nodes/a-1",
            &[
                "<span>cpu</span><span class=\"detail\">500m of 2</span>",
                "value=\"25\"",
                "<caption>1 pod</caption>",
                "<a href=\"/pods/shop/web-1\">shop/web-1</a>",
                "topology.kubernetes.io/zone=a",
                "dedicated</th><td data-label=\"Value\">db</td><td data-label=\"Effect\">PreferNoSchedule",
                "href=\"/what-if?drain=a-1\"",
                "href=\"/what-if?cordon=a-1\"",
            ],
        );
    }

    #[test]
    fn a_list_is_sorted_by_the_column_that_is_asked_for() {
        let first = |query: &str| {
            let (_, body) = get(&mut state(&cluster()), &format!("/nodes?sort={query}"));
            let (_, rows) = body.split_once("<tbody>").unwrap();
            rows[rows.find("/nodes/").unwrap() + 7..][..3].to_owned()
        };
        assert_eq!(["name", "-name", "-zone"].map(first), ["a-1", "b-1", "b-1"]);
        let (status, body) = get(&mut state(&cluster()), "/nodes?sort=color");
        assert!(status == 400 && body.contains("sort=color: give one of name, zone, requested"), "{body}");
    }
}
