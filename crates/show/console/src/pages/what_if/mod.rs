//! The effect of changes: a form with any number of them, and the cluster before and after side by side. Where the console allows
//! it, what the changes write ([`apply`]).

mod form;
mod per_workload;

use std::collections::{BTreeSet, HashSet};

use berth_api::object::Node;
use berth_picture::cells::{CellMap, MAX_LARGE};
use berth_simulate::Simulation;
use berth_simulate::what_if::{Changed, WhatIfOutcome};
use maud::{Markup, html};

use super::answer::{Answer, Page, PageError};
use super::question::Question;
use super::{apply, parts};
use crate::components::bars::{bars, legend};
use crate::components::map::map_without_legend;
use crate::components::{card, empty};
use crate::overview::Overview;
use crate::pictures::{self, ColorBy, Level, View};
use crate::{Request, State, links, report};

/// Workloads whose repairs are looked for.
const MAX_REPAIRED: usize = 5;
/// With more nodes, the pictures before and after show racks.
const MAX_NODES: usize = 300;

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let question = Question::of(request)?;
    let result = if question.is_posed { Some(result(state, request, &question)?) } else { None };
    let content = html! {
        div.ask.answered[result.is_some()] {
            (form::form(state, request))
            div.fields {
                @match &result {
                    Some(result) => (result),
                    None => (empty("Nothing asked yet", &html! {
                        "Choose one or more changes: the cluster before and after them appears here. Nothing is written. Nodes and pods can also be chosen in the "
                        a href="/topology" { "topology" } "."
                    })),
                }
            }
        }
    };
    Ok(Page::new("What if", content))
}

fn result(state: &mut State, request: &Request<'_>, question: &Question) -> Result<Markup, PageError> {
    let (mut changed, writes) = question.answer(state)?;
    if let Some(key) = &question.each {
        return losses(&mut changed, key);
    }
    if question.has_repairs {
        changed.find_repairs(MAX_REPAIRED);
    }
    let Changed { outcome, simulation, .. } = &mut changed;
    let overview = state.overview();
    let changed_nodes = changed_nodes(overview.pods.simulation, simulation, outcome);
    let n_nodes = simulation.n_nodes().max(overview.pods.simulation.n_nodes());
    // Few nodes are drawn whole, of many those that change.
    let only =
        (n_nodes > MAX_LARGE && (1..=MAX_NODES).contains(&changed_nodes.len())).then_some(&changed_nodes);
    let level = if only.is_some() || n_nodes <= MAX_NODES { Level::Node } else { Level::Rack };
    let lost = outcome
        .unplaced
        .iter()
        .filter(|pod| pod.was_running)
        .map(|pod| (pod.namespace.as_str(), pod.name.as_str()));
    let moved = outcome.moved.iter().filter(|pod| pod.from.is_some());
    let leaving: HashSet<(&str, &str)> =
        moved.map(|pod| (pod.namespace.as_str(), pod.name.as_str())).chain(lost).collect();
    let before = pictures::map(
        overview,
        &View {
            level,
            changed: only,
            has_links: true,
            leaving: Some(&leaving),
            ..View::new(ColorBy::Leave(&outcome.left_nodes))
        },
    );
    let per_workload = per_workload::table(overview.pods, outcome);
    let broken = simulation.cluster().audit();
    let after = Overview::once(simulation, &broken, |overview| {
        pictures::map(
            overview,
            &View { level, changed: only, ..View::new(ColorBy::Change(&outcome.left_nodes)) },
        )
    });
    let mut keys = after.legend.clone();
    keys.extend(before.legend.iter().filter(|key| !keys_of(&after).contains(&key.text.as_str())).cloned());
    let has_manifest = request.form.is_some();
    let report = report::what_if::report(outcome, parts::MAX_SHOWN);
    Ok(html! {
        (report.verdict_card(true))
        p.hint { "This page writes nothing to the cluster. Moved pods keep their names here; their controllers give them new ones." }
        (per_workload)
        (legend(&keys))
        div.sides {
            section.card { h2 { "Before" } p.detail { (before.title) } (map_without_legend(&before)) }
            section.card { h2 { "After" } p.detail { (after.title) } (map_without_legend(&after)) }
        }
        @if !outcome.unplaced.is_empty() && !question.has_repairs && !has_manifest {
            p {
                a.button href=(links::with(&format!("/what-if?{}", request.query), "repairs", "1")) { "What would make them schedulable?" }
            }
        }
        (report.cards(true))
        @if let Some((namespace, name)) = question.repair_of.as_deref().and_then(|pod| pod.split_once('/')) {
            p.hint { "A repair of pod " (parts::pod(namespace, name)) ": its page has the commands that make it." }
        }
        (apply::offer(&writes, outcome.blocked.len(), request))
    })
}

/// The nodes that pods leave or reach, those that are new, other or gone.
fn changed_nodes(before: &Simulation, after: &Simulation, outcome: &WhatIfOutcome) -> BTreeSet<String> {
    let names = |a: &Simulation, b: &Simulation| {
        let differs = |node: &&Node| b.node(&node.metadata.name) != Some(node);
        a.nodes().filter(differs).map(|node| node.metadata.name.clone()).collect::<Vec<_>>()
    };
    let reached = outcome.moved.iter().map(|pod| pod.to.clone());
    let gone = names(before, after);
    outcome.left_nodes.iter().cloned().chain(reached).chain(gone).chain(names(after, before)).collect()
}

fn keys_of(map: &CellMap) -> Vec<&str> {
    map.legend.iter().map(|key| key.text.as_str()).collect()
}

/// The loss of each domain in turn.
fn losses(changed: &mut Changed, key: &str) -> Result<Markup, PageError> {
    let losses = changed.lose_each_domain(key, |_, _| ());
    if losses.losses.domains.is_empty() {
        return Err(PageError::Parameter(format!("each={key}: no node has this label")));
    }
    let report = report::what_if::losses(&losses, parts::MAX_SHOWN);
    let section = pictures::losses_section(&losses.losses);
    Ok(html! { (report.verdict_card(true)) (card(&section.name, &bars(&section))) (report.cards(true)) })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, cluster, get, state};
    use crate::{Request, respond};

    #[test]
    fn changes_are_shown_before_and_after() {
        check(
            "/what-if",
            &["<legend>Nodes</legend>", "<textarea name=\"manifest\"", "<option value=\"deployment/web=3\">"],
        );
        check(
            "/what-if?remove-node=a-1",
            &[
                "<strong class=\"bad\">Not safe: 1 new unplaced pod</strong>; 1 pod unplaced as before",
                ">2 nodes, 3 pods, 1 pending</p>",
                ">1 node, 3 pods, 2 pending</p>",
                "<legend>Changes, in this order; empty a field to remove one</legend>",
                "name=\"remove-node\" value=\"a-1\"",
                "/what-if?remove-node=a-1&amp;repairs=1",
            ],
        );
        check(
            "/what-if?add-nodes=1&like=a-1&set-label=a-1-new-1+topology.kubernetes.io/zone%3Dc",
            &[
                "<strong class=\"good\">Safe: no new unplaced pods</strong>; 1 pod newly placed",
                "shop/web-3</th><td data-label=\"From\">&lt;none&gt;</td><td data-label=\"To\"><strong class=\"good\">a-1-new-1</strong></td>",
                ">3 nodes, 3 pods, 0 pending</p>",
            ],
        );
        check("/what-if?scale=deploy/web%3D1", &["2 pods deleted by controllers"]);
        check("/what-if?place=pending", &["1 pod unplaced as before"]);
        check(
            "/what-if?each=zone",
            &[
                "Not safe: the loss of 2 of 2 domains leaves pods without a node",
                "<strong>b</strong> (1 node)",
            ],
        );
    }

    #[test]
    fn what_a_drain_or_a_rollout_does_not_reach_is_shown_before_anything_is_written() {
        let budget = "\n---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web, namespace: shop},
            spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}}";
        let mut state = state(&(cluster() + budget));
        state.allows_changes = true;
        let (_, page) = get(&mut state, "/what-if?drain=a-1");
        for text in [
            "Evictions that the API server refuses",
            "<strong class=\"bad\">blocked by PodDisruptionBudget web: 0 disruptions allowed</strong>",
            "1 eviction of this list would be refused",
            "Not safe: 1 eviction blocked by PodDisruptionBudget web</strong>; 1 pod unplaced as before",
            "Before and after the changes",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        let deployment = cluster().split("\n---\n").nth(2).unwrap().replace("image: web", "image: web2");
        let form =
            form_urlencoded::Serializer::new(String::new()).append_pair("manifest", &deployment).finish();
        let page = respond(&mut state, &Request { path: "/what-if", query: "", form: Some(&form) }).body;
        for text in
            ["the rollout is <strong class=\"bad\">stuck</strong>", "Deployment shop/web", "1 stuck rollout"]
        {
            assert!(page.contains(text), "{text}: {page}");
        }
    }

    #[test]
    fn no_pod_is_placed_on_a_cordoned_node_until_it_is_uncordoned() {
        let new = "add-nodes=1&like=a-1&cordon=a-1-new-1&set-label=a-1-new-1+topology.kubernetes.io/zone%3Dc";
        check(&format!("/what-if?{new}"), &["1 pod unplaced as before"]);
        check(&format!("/what-if?{new}&uncordon=a-1-new-1"), &["1 pod newly placed"]);
    }

    #[test]
    fn nothing_is_written() {
        let mut state = state(&cluster());
        let before = get(&mut state, "/");
        assert_eq!(get(&mut state, "/what-if?drain=a-1&evict=shop/web-2&repairs=1").0, 200);
        assert!(get(&mut state, "/") == before);
    }

    #[test]
    fn of_many_nodes_those_that_change_are_drawn() {
        let node = |i: usize| {
            format!(
                "{{apiVersion: v1, kind: Node, metadata: {{name: n-{i}}}, status: {{allocatable: {{cpu: 1, memory: 1Gi, pods: 10}}}}}}"
            )
        };
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: u, \
                   controller: true}]}, spec: {nodeName: n-1, containers: [{name: c, image: c, resources: {requests: {cpu: 1}}}]}}";
        let objects: Vec<String> = (0..70).map(node).chain([pod.to_owned()]).collect();
        let (_, page) = get(&mut state(&objects.join("\n---\n")), "/what-if?drain=n-1&cordon=n-7");
        // The node that is drained, the one that is cordoned, and the one that takes the pod.
        assert_eq!(page.matches("67 nodes without a change are left out.").count(), 2, "{page}");
        assert_eq!(page.matches("<div class=\"cell\">").count(), 2 * 3, "{page}");
        assert!(page.contains("70 nodes, 1 pod, 0 pending"), "{page}");
    }

    #[test]
    fn a_manifest_replaces_objects() {
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("manifest", "{apiVersion: v1, kind: Node, metadata: {name: c-1, labels: {topology.kubernetes.io/zone: c}},
                status: {allocatable: {cpu: 2, memory: 4Gi, pods: 10}}}")
            .finish();
        let request = Request { path: "/what-if", query: "", form: Some(&form) };
        let response = respond(&mut state(&cluster()), &request);
        assert_eq!(response.status, 200);
        let moved = "shop/web-3</th><td data-label=\"From\">&lt;none&gt;</td><td data-label=\"To\"><strong class=\"good\">c-1</strong>";
        assert!(response.body.contains(moved), "{}", response.body);
        assert!(response.body.contains("kind: Node, metadata: {name: c-1"), "{}", response.body);
        let request = Request { form: Some("manifest=%7B%7D%7D"), ..request };
        let response = respond(&mut state(&cluster()), &request);
        assert!(response.status == 400 && response.body.contains("manifest"), "{}", response.body);
    }

    #[test]
    fn bad_changes_are_named() {
        let mut state = state(&cluster());
        for (query, message) in [
            ("drain=a-3", "Node a-3 is not in the input: did you mean a-1?"),
            ("remove-domain=zone", "remove-domain=zone: must have the form KEY=VALUE"),
            (
                "remove-domain=zone%3Dc",
                "no node has the label topology.kubernetes.io/zone=c: its values are a, b",
            ),
            ("add-nodes=0", "add-nodes=0: give a number from 1 to 10000"),
            ("add-nodes=2", "add-nodes=2: give like=NODE after it"),
            ("like=a-1", "like=a-1: give add-nodes=N before it"),
            ("taint=a-1", "taint=a-1: give a node and, after a space"),
            ("scale=web%3D2", "web: name a workload by its kind and name: "),
            ("evict=shop/web-3", "Pod shop/web-3 has no node: it cannot be evicted"),
            ("delete=a-1", "delete=a-1: no such parameter; there are remove-node, drain"),
            (&"add-nodes=6000&like=a-1&".repeat(2), "12000 nodes with add-nodes: give at most 10000"),
            ("each=rack", "each=rack: no node has this label"),
        ] {
            let (status, body) = get(&mut state, &format!("/what-if?{query}"));
            assert_eq!(status, 400, "{query}: {body}");
            assert!(body.contains(message), "{message}: {body}");
        }
    }
}
