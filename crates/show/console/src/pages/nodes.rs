//! The nodes as a list, and one with its labels, taints, room and pods.

use berth_api::object::Taint;
use berth_api::rules::PodRequests;
use berth_api::syntax::format::counted;
use berth_api::syntax::labels::ZONE;
use berth_api::syntax::quantity::with_unit;
use maud::{Markup, html};

use super::answer::{Answer, Page, PageError};
use super::parts;
use crate::overview::Pods;
use crate::places::{Place, place, places};
use crate::{Request, State, links};

pub(super) fn list(state: &mut State, request: &Request<'_>) -> Answer {
    let overview = state.overview();
    let by_node = overview.pods.table.by_node();
    let places = places(overview, &by_node);
    let (shown, pages) = parts::paged(request, &places)?;
    let row = |place: &Place<'_>| {
        let node = place.node;
        let zone = node.metadata.labels.get(ZONE).map_or("none", String::as_str);
        vec![
            parts::node(&node.metadata.name),
            html! { (zone) },
            parts::percent(place.utilization()),
            parts::number(place.pods.len()),
            parts::number(place.broken.len()),
            html! { @if node.spec.unschedulable { "cordoned" } },
        ]
    };
    let headers = ["Node", "Zone", "Requested", "Pods", "Broken rules", "State"];
    let content = html! {
        (parts::table(&counted(places.len(), "node"), &headers, shown.iter().map(row)))
        (pages)
    };
    Ok(Page::new("Nodes", content))
}

pub(super) fn page(state: &mut State, request: &Request<'_>, name: &str) -> Answer {
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
    let label = |(key, value): (&String, &String)| vec![html! { code { (key) } }, html! { code { (value) } }];
    let taint = |taint: &Taint| [&taint.key, &taint.value, &taint.effect].map(|text| html! { (text) }).into();
    let content = html! {
        p {
            @if node.spec.unschedulable { strong { "Cordoned" } ": no new pods. " }
            "What if this node " a href=(links::with("/what-if", "remove-node", name)) { "is lost" } ", or "
            a href=(links::with("/what-if", "drain", name)) { "is drained" } "?"
        }
        (room(&place))
        (broken_rules(&place))
        (pods(overview.pods, &on_node, request)?)
        (parts::table_of("Labels", &["Key", "Value"], node.metadata.labels.iter().map(label).collect()))
        (parts::table_of("Taints", &["Key", "Value", "Effect"], node.spec.taints.iter().map(taint).collect()))
    };
    Ok(Page::new(format!("Node {name}"), content))
}

/// What the pods request of each resource.
fn room(place: &Place<'_>) -> Markup {
    let row = |resource: &String| {
        let (used, of) = place.amount(resource);
        let percent = usize::try_from((used * 100).checked_div(of).unwrap_or(0)).unwrap_or(0);
        let amounts = [used, of, of - used].map(|amount| html! { (with_unit(resource, amount)) });
        [html! { (resource) }].into_iter().chain(amounts).chain([parts::percent(percent)]).collect()
    };
    let rows = place.allocatable().into_iter().flat_map(|list| list.keys()).map(row).collect();
    parts::table_of("Resources", &["Resource", "Requested", "Allocatable", "Free", "Requested part"], rows)
}

fn broken_rules(place: &Place<'_>) -> Markup {
    parts::short_list("Broken rules", (&place.broken, "broken rule"), |violation| {
        html! { (parts::pod(&violation.namespace, &violation.name)) ": " (parts::verdict(&violation.verdict)) }
    })
}

fn pods(pods: Pods<'_>, on_node: &[usize], request: &Request<'_>) -> Result<Markup, PageError> {
    let pods = pods.sorted(on_node.iter().copied(), usize::MAX);
    let (shown, pages) = parts::paged(request, &pods)?;
    let row = |(_, pod): &(usize, &berth_simulate::SimulatedPod)| {
        let metadata = &pod.pod.metadata;
        let requests = PodRequests::of(&pod.pod);
        vec![
            parts::pod(&metadata.namespace, &metadata.name),
            parts::workload(&metadata.namespace, pod.workload.as_deref()),
            html! { (pod.pod.spec.priority.unwrap_or(0)) },
            html! { (with_unit("cpu", requests.milli_cpu)) },
            html! { (with_unit("memory", requests.memory)) },
        ]
    };
    let headers = ["Pod", "Workload", "Priority", "cpu", "memory"];
    Ok(html! {
        (parts::table(&counted(pods.len(), "pod"), &headers, shown.iter().map(row)))
        (pages)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;

    #[test]
    fn a_node_has_its_room_pods_labels_and_taints() {
        check(
            "/nodes",
            &[
                "<caption>2 nodes</caption>",
                "<th scope=\"row\"><a href=\"/nodes/a-1\">a-1</a></th><td>a</td>",
            ],
        );
        check(
            "/nodes/a-1",
            &[
                "<th scope=\"row\">cpu</th><td>500m</td><td>2</td><td>1500m</td><td><meter min=\"0\" max=\"100\" value=\"25\"></meter> 25 %",
                "<caption>1 pod</caption>",
                "<a href=\"/pods/shop/web-1\">shop/web-1</a>",
                "<code>topology.kubernetes.io/zone</code></th><td><code>a</code>",
                "dedicated</th><td>db</td><td>PreferNoSchedule",
                "href=\"/what-if?drain=a-1\"",
            ],
        );
    }
}
