//! Pods, workloads and nodes by a part of their names.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::{Answer, Page, parts};
use crate::names::counted;
use crate::workloads::name_of;
use crate::{Request, State, links};

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let wanted = request.parameter("q").unwrap_or_default();
    let wanted = wanted.trim();
    let simulation = state.simulation();
    let matches = |namespace: &str, name: &str| is_part(wanted, namespace, name);
    let nodes = simulation.nodes().map(|node| node.metadata.name.as_str()).filter(|name| matches("", name));
    let nodes = found("node", nodes, |name| (links::node(name), name.to_owned()));
    let of_pods = simulation.pods().iter().filter(|pod| pod.workload.is_some()).map(name_of);
    let workloads: BTreeSet<_> = simulation.workloads().iter().cloned().chain(of_pods).collect();
    let workloads = workloads.iter().filter(|(namespace, workload)| matches(namespace, workload));
    let link = |(namespace, workload): &(String, String)| {
        (links::workload(namespace, workload), format!("{namespace}/{workload}"))
    };
    let workloads = found("workload", workloads, link);
    let pods = simulation.pods().iter().map(|pod| &pod.pod.metadata);
    let pods = pods.filter(|pod| matches(&pod.namespace, &pod.name));
    let link = |pod: &berth_api::object::ObjectMeta| {
        (links::pod(&pod.namespace, &pod.name), format!("{}/{}", pod.namespace, pod.name))
    };
    let pods = found("pod", pods, link);
    let content = html! {
        @if wanted.is_empty() { p { "Give a part of the name of a pod, a workload or a node." } }
        @else { (workloads) (nodes) (pods) }
    };
    Ok(Page::new(format!("Search for {wanted}"), content))
}

/// Whether the text is a part of `namespace/name`, without regard to case.
fn is_part(wanted: &str, namespace: &str, name: &str) -> bool {
    let wanted = wanted.to_ascii_lowercase();
    match wanted.split_once('/') {
        Some((of, part)) => namespace.eq_ignore_ascii_case(of) && name.to_ascii_lowercase().contains(part),
        None => name.to_ascii_lowercase().contains(&wanted),
    }
}

/// The first objects of a kind.
fn found<T>(what: &str, objects: impl Iterator<Item = T>, link: impl Fn(T) -> (String, String)) -> Markup {
    let (mut shown, mut n) = (Vec::new(), 0);
    for object in objects {
        n += 1;
        if shown.len() < parts::MAX_SHOWN {
            shown.push(link(object));
        }
    }
    html! {
        h2 { (counted(n, what)) }
        ul { @for (to, text) in &shown { li { (parts::link(to, text)) } } }
        (parts::more(n, what))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;

    #[test]
    fn objects_are_found_by_parts_of_their_names() {
        check(
            "/search?q=WEB",
            &[
                "<h2>3 pods</h2>",
                "<h2>1 workload</h2>",
                "<h2>0 nodes</h2>",
                "<a href=\"/pods/shop/web-2\">shop/web-2</a>",
            ],
        );
        check("/search?q=shop/web-3", &["<h2>1 pod</h2>"]);
        check("/search?q=other/web-3", &["<h2>0 pods</h2>"]);
        check("/search?q=a-", &["<a href=\"/nodes/a-1\">a-1</a>"]);
        check("/search?q=%22%3E%3Cscript%3E", &["Search for &quot;&gt;&lt;script&gt;"]);
    }
}
