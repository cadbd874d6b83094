//! Pods, workloads, nodes and claims of devices by a part of their names.

use std::collections::BTreeSet;

use berth_api::syntax::format::counted;
use berth_simulate::SimulatedPod;
use maud::{Markup, html};

use super::answer::{Answer, Page};
use super::parts;
use crate::overview::Pods;
use crate::workloads::WorkloadName;
use crate::{Request, State, links};

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let wanted = request.parameter("q").unwrap_or_default();
    let wanted = wanted.trim();
    let text = wanted.to_ascii_lowercase();
    let all = state.pods();
    let Pods { simulation, table } = all;
    let matches = |namespace: &str, name: &str| is_part(&text, namespace, name);
    let nodes = simulation.nodes().map(|node| node.metadata.name.as_str()).filter(|name| matches("", name));
    let nodes: Vec<_> = nodes.map(|name| (links::node(name), name.to_owned())).collect();
    let with_pods = table.workloads().map(|(_, name)| name);
    let workloads: BTreeSet<&WorkloadName> = simulation.workloads().iter().chain(with_pods).collect();
    let workloads = workloads.into_iter().filter(|(namespace, workload)| matches(namespace, workload));
    let link = |(namespace, workload): &WorkloadName| {
        (links::workload(namespace, workload), format!("{namespace}/{workload}"))
    };
    let workloads: Vec<_> = workloads.map(link).collect();
    let is_found = |at: &usize| {
        let metadata = &all.at(*at).pod.metadata;
        matches(&metadata.namespace, &metadata.name)
    };
    let pods: Vec<usize> = (0..table.n_pods()).filter(is_found).collect();
    let n_pods = pods.len();
    let link = |(_, pod): (usize, &SimulatedPod)| {
        let metadata = &pod.pod.metadata;
        (links::pod(&metadata.namespace, &metadata.name), pod.pod.key())
    };
    let pods: Vec<_> = all.sorted(pods, parts::MAX_SHOWN).into_iter().map(link).collect();
    let claims = simulation.claims().map(|claim| &claim.metadata);
    let claims = claims.filter(|metadata| matches(&metadata.namespace, &metadata.name)).map(|metadata| {
        (
            links::claim(&metadata.namespace, &metadata.name),
            format!("{}/{}", metadata.namespace, metadata.name),
        )
    });
    let claims: Vec<_> = claims.collect();
    let content = html! {
        @if wanted.is_empty() { p { "Give a part of the name of a pod, a workload, a node or a claim of devices." } }
        @else {
            (found("workload", workloads.len(), &workloads))
            (found("node", nodes.len(), &nodes))
            (found("pod", n_pods, &pods))
            @if !claims.is_empty() { (found("claim", claims.len(), &claims)) }
        }
    };
    Ok(Page::new(format!("Search for {wanted}"), content))
}

/// Whether the text, in lower case, is a part of `namespace/name`, without regard to case.
fn is_part(text: &str, namespace: &str, name: &str) -> bool {
    let contains = |part: &str| {
        let has_upper_case = name.bytes().any(|byte| byte.is_ascii_uppercase());
        if has_upper_case { name.to_ascii_lowercase().contains(part) } else { name.contains(part) }
    };
    match text.split_once('/') {
        Some((of, part)) => namespace.eq_ignore_ascii_case(of) && contains(part),
        None => contains(text),
    }
}

/// The first of `n` objects of a kind: addresses and texts.
fn found(what: &str, n: usize, objects: &[(String, String)]) -> Markup {
    html! {
        section.card {
            h2 { (counted(n, what)) }
            @if n > 0 { ul.rows { @for (to, text) in objects.iter().take(parts::MAX_SHOWN) { li { (parts::link(to, text)) } } } }
            (parts::more(n, what))
        }
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
