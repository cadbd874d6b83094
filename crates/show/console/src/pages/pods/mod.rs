//! The pods as a list, and one: where it can run and why, and what would make it schedulable.

mod attempt;
mod nearness;

use berth_api::syntax::format::{counted, grouped};
use berth_api::syntax::quantity::with_unit;
use berth_api::syntax::shell::Command;
use berth_engine::{FeasibleNodes, TermSummary, Verdict};
use berth_rules::PodRequests;
use berth_simulate::{PodClaim, PodExplanation, PodPreemption, Repair, SimulatedPod, UnadmittedState};
use maud::{Markup, html};

use super::answer::{Answer, Page, PageError};
use super::parts;
use crate::components::listing::{Column, Filter, listing};
use crate::components::time::Clock;
use crate::components::{Tone, badge, card, facts, field, labels, prose, verdict};
use crate::{Request, State, links, report, verdicts};

/// Groups of nodes, and domains of a rule.
const MAX_GROUPS: usize = 10;
/// Steps of work of the explanation, and of the search for repairs: some tenths of a second.
const MAX_STEPS: u64 = 3_000_000;
/// Nodes of a group with a link each.
const MAX_NODES: usize = 4;
/// Pods that a list sorts; of more, it has those that come first by name.
const MAX_SORTED: usize = 5_000;

pub(super) fn list(state: &mut State, request: &Request<'_>) -> Answer {
    let clock = state.clock();
    let all = state.pods();
    let filter = Filter::of(request);
    let wanted = request.parameter("state").unwrap_or_default();
    if !["", "pending", "running"].contains(&wanted.as_ref()) {
        return Err(PageError::Parameter(format!("state={wanted}: give pending or running")));
    }
    let is_wanted = |at: &usize| {
        let has_node = all.table.has_node(*at);
        let metadata = &all.at(*at).pod.metadata;
        (wanted.is_empty() || (wanted == "running") == has_node)
            && (filter.is_empty()
                || filter
                    .matches(&metadata.namespace, &[&metadata.name, all.at(*at).node().unwrap_or_default()]))
    };
    let found: Vec<usize> = (0..all.table.n_pods()).filter(is_wanted).collect();
    let n_found = found.len();
    let mut pods = all.sorted(found, MAX_SORTED);
    let created = |pod: &SimulatedPod| pod.pod.metadata.creation_timestamp;
    let columns = [
        Column::new("name", "Pod", |(_, pod): &(usize, &SimulatedPod)| parts::link(&links::pod(&pod.pod.metadata.namespace, &pod.pod.metadata.name), &pod.pod.metadata.name))
            .by(|(_, a), (_, b)| a.pod.metadata.name.cmp(&b.pod.metadata.name)),
        Column::new("namespace", "Namespace", |(_, pod): &(usize, &SimulatedPod)| html! { (pod.pod.metadata.namespace) })
            .by(|(_, a), (_, b)| a.pod.metadata.namespace.cmp(&b.pod.metadata.namespace)),
        Column::new("state", "State", |(_, pod): &(usize, &SimulatedPod)| state_of(pod)).by(|(_, a), (_, b)| a.node().is_some().cmp(&b.node().is_some())),
        Column::new("node", "Node", |(_, pod): &(usize, &SimulatedPod)| html! { @if let Some(node) = pod.node() { (parts::node(node)) } })
            .by(|(_, a), (_, b)| a.node().cmp(&b.node())),
        Column::new("workload", "Workload", |(_, pod): &(usize, &SimulatedPod)| parts::workload(&pod.pod.metadata.namespace, pod.workload.as_deref()))
            .by(|(_, a), (_, b)| a.workload.cmp(&b.workload)),
        Column::new("priority", "Priority", |(_, pod): &(usize, &SimulatedPod)| html! { (pod.pod.spec.priority.unwrap_or(0)) })
            .by(|(_, a), (_, b)| a.pod.spec.priority.unwrap_or(0).cmp(&b.pod.spec.priority.unwrap_or(0))),
        Column::new("age", "Age", move |(_, pod): &(usize, &SimulatedPod)| clock.optional(created(pod)))
            .by(move |(_, a), (_, b)| created(b).cmp(&created(a))),
    ];
    let table =
        listing(request, &counted(n_found, "pod"), &mut pods, &columns).map_err(PageError::Parameter)?;
    let namespaces = parts::namespaces(all);
    let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
    let content = html! {
        (filter.form(request, "Pod or node", &namespaces))
        @if n_found > MAX_SORTED { p.hint { "Of " (grouped(n_found)) " pods, the first " (grouped(MAX_SORTED)) " by name are listed." } }
        (table)
    };
    Ok(Page::new("Pods", content))
}

pub(super) fn state_of(pod: &SimulatedPod) -> Markup {
    match (pod.node(), &pod.unadmitted) {
        _ if pod.pod.metadata.is_deleting() => badge(Tone::Neutral, "being deleted"),
        (Some(_), _) => badge(Tone::Good, "has a node"),
        (None, Some(why)) => badge(Tone::Bad, &why.short()),
        (None, None) => badge(Tone::Warn, "pending"),
    }
}

pub(super) fn page(state: &mut State, namespace: &str, name: &str) -> Answer {
    let clock = state.clock();
    let explained = state.explain(namespace, name, MAX_STEPS);
    let simulation = state.simulation();
    let Some(explained) = explained else {
        let pods = simulation.pods().iter().map(|pod| &pod.pod.metadata);
        return Err(parts::not_found(
            format!("Pod {namespace}/{name}"),
            name,
            pods,
            |pod| pod.name.as_str(),
            |pod| (links::pod(&pod.namespace, &pod.name), format!("{}/{}", pod.namespace, pod.name)),
        ));
    };
    let attempts: Vec<_> =
        explained.repairs.iter().map(|repair| attempt::of(state, namespace, name, repair)).collect();
    let simulation = state.simulation();
    let pod = simulation.pod(namespace, name);
    let explanation = &explained.explanation;
    let groups = verdicts::groups(simulation, explanation);
    let relaxed = match explanation.running_on {
        Some(_) => "Required rules that were relaxed to bind it",
        None => "Required rules that are preferences by now",
    };
    let content = html! {
        (outcome(&explained, &groups))
        div.columns {
            div.fields {
                (repairs(&explained, &attempts))
                @if let Some(node) = &explanation.running_on { (broken(node, simulation.has_node(node), &explanation.broken)) }
                (nearness::picture(explanation, &groups))
                (feasible(&explanation.feasible))
            }
            div.fields {
                @if let Some(pod) = pod {
                    (facts_of(pod, clock))
                    (parts::short_list("Claims of devices", (&simulation.claims_of(&pod.pod), "claim"), claim))
                }
                (parts::list(relaxed, &explained.relaxed))
                (parts::list("Suggestions", &explained.hints))
                @if explained.core.len() > 1 {
                    (parts::short_list(
                        "These rules together exclude all nodes; without any of them, a node is left",
                        (&explained.core, "rule"),
                        |term| html! { strong { (term.plugin) } " " (field(&term.term)) ": " (prose(&term.detail)) },
                    ))
                }
                (parts::list("Different meaning in v1 fields and in proposal fields", &explained.dialect_notes))
            }
        }
        (terms(&explanation.terms, explanation.n_nodes - explanation.n_not_evaluated))
    };
    let key = format!("{namespace}/{name}");
    let actions = html! {
        @if pod.is_some_and(|pod| pod.was_running) { a.button.small href=(links::with("/what-if", "evict", &key)) { "What if it is evicted?" } }
        a.button.small href=(links::with("/topology", "pod", &key)) { "Show in the topology" }
        a.button.small href=(links::path(&["yaml", "Pod", namespace, name])) { "YAML" }
    };
    Ok(Page::new(format!("Pod {namespace}/{name}"), content).actions(actions))
}

/// A claim of a pod with its devices, such as `default/train-gpu-x7k2p: gpu-0, gpu-1 of gpu.example.com`.
fn claim(PodClaim { claim, devices }: &PodClaim) -> Markup {
    let names: Vec<_> = devices.iter().map(|device| device.device.as_str()).collect();
    html! {
        (parts::claim(claim)) ": "
        @match devices.first() {
            Some(first) => { (names.join(", ")) " of " (first.driver) }
            None => "no devices are allocated"
        }
    }
}

fn outcome(explained: &PodExplanation, groups: &[verdicts::Group<'_>]) -> Markup {
    let PodExplanation { explanation, unadmitted, preemption, group, .. } = explained;
    let message = explanation.outcome.message();
    let tone = match (unadmitted, &explanation.running_on, explanation.outcome.node()) {
        (Some(_), ..) => Tone::Bad,
        (None, Some(_), _) if explanation.broken.is_empty() => Tone::Good,
        (None, Some(_), _) => Tone::Warn,
        (None, None, Some(_)) => Tone::Info,
        (None, None, None) => Tone::Bad,
    };
    let plain = verdicts::sentence(groups, explanation.n_nodes);
    let line = html! {
        @match (unadmitted, &explanation.running_on, explanation.outcome.node()) {
            (Some(why), _, node) if why.state == UnadmittedState::NotCreated => {
                strong.bad { "Does not run: it is " (why) ". " } "Once it is created, it would "
                @match node {
                    Some(node) => { "be placed on " (parts::node(node)) "." }
                    None => { "be unschedulable: " (message) }
                }
            }
            (Some(why), _, node) => {
                strong.bad { "Does not run, " (why.short()) ": " } (why.message) ". Without spec.nodeName, it would "
                @match node {
                    Some(node) => { "be placed on " (parts::node(node)) "." }
                    None => { "be unschedulable: " (message) }
                }
            }
            (None, Some(on), Some(node)) if on == node => { "Runs on " (parts::node(on)) ", and would be placed there again." }
            (None, Some(on), Some(node)) if !explanation.broken.is_empty() => {
                "Runs on " (parts::node(on)) ", where " (counted(explanation.broken.len(), "rule")) " of it "
                (if explanation.broken.len() == 1 { "does" } else { "do" }) " not hold; it would now be placed on " (parts::node(node)) "."
            }
            (None, Some(on), Some(node)) => { "Runs on " (parts::node(on)) "; it would now be placed on " (parts::node(node)) "." }
            (None, Some(on), None) => { "Runs on " (parts::node(on)) "; no node would take it now. " (plain) "." }
            (None, None, Some(node)) => { "Pending, but it can be placed now: on " (parts::node(node)) "." }
            (None, None, None) if plain.is_empty() => { strong.bad { "Unschedulable. " } (message) }
            (None, None, None) => { strong.bad { "Unschedulable. " } (plain) "." }
        }
    };
    let detail = html! {
        @if let Some(preemption @ PodPreemption { node, n_pdb_violations, .. }) = preemption {
            p {
                "It would preempt " (preemption.listed_victims()) " on " (parts::node(node))
                @if *n_pdb_violations > 0 { ", which violates PodDisruptionBudgets for " (counted(*n_pdb_violations, "pod")) }
                ", and be placed there."
            }
        }
        @if let Some(group) = group {
            p { "Pod group " strong { (group.namespace) "/" (group.name) } " " (group.verdict()) }
            @if explanation.running_on.is_none() {
                p {
                    @match &group.failing {
                        Some(failing) => { "What follows is about " (failing.name) " with " (counted(failing.n_others, "other member")) " in place." }
                        None => { "What follows is about the pod alone, without the other pending members." }
                    }
                }
            }
        }
        @if explanation.outcome.node().is_none() && !plain.is_empty() && unadmitted.is_none() { p.detail { (message) } }
    };
    verdict(tone, &line, &detail)
}

fn facts_of(pod: &SimulatedPod, clock: Clock) -> Markup {
    let metadata = &pod.pod.metadata;
    let requests = PodRequests::of(&pod.pod);
    let mut all = vec![
        ("State", state_of(pod)),
        ("Workload", parts::workload(&metadata.namespace, pod.workload.as_deref())),
        ("Priority", html! { (pod.pod.spec.priority.unwrap_or(0)) }),
        (
            "Requests",
            html! { (with_unit("cpu", requests.milli_cpu)) " cpu, " (with_unit("memory", requests.memory)) " memory" },
        ),
    ];
    if let Some(group) = &pod.group {
        all.insert(2, ("Pod group", parts::link(&links::group(group), &group.name.to_string())));
    }
    if let Some(node) = pod.node() {
        all.insert(1, ("Node", parts::node(node)));
    }
    if metadata.creation_timestamp.is_some() {
        all.push(("Created", clock.optional(metadata.creation_timestamp)));
    }
    if !metadata.labels.is_empty() {
        all.push(("Labels", labels(metadata.labels.iter().map(|(key, value)| format!("{key}={value}")))));
    }
    card("Pod", &facts(&all))
}

fn broken(node: &str, is_known: bool, broken: &[Verdict]) -> Markup {
    html! {
        @if !is_known { p.bad { "Its rules cannot be checked: node " (node) " does not exist." } }
        @else if broken.is_empty() { p.good { "No rule is violated on " (parts::node(node)) "." } }
        @else {
            section.card {
                h2 { "Rules violated on " (node) }
                p.detail { "Only rules required during execution cause an eviction." }
                (verdicts_of(broken))
            }
        }
    }
}

/// The changes that help. `attempts` has, for each, what tries it in a what-if.
fn repairs(explained: &PodExplanation, attempts: &[Markup]) -> Markup {
    let repairs = &explained.repairs;
    html! {
        @if !repairs.is_empty() || explained.without_single_repair.is_some() {
            section.card {
                h2 { "Verified repairs, smallest change first" }
                @if let Some(note) = explained.without_single_repair { p { (note) "." } }
                ol.repairs {
                    @for (i, (repair, attempt)) in repairs.iter().zip(attempts).enumerate() {
                        li {
                            div.what {
                                p { (what(repair)) }
                                div.actions {
                                    (attempt)
                                    @if !repair.commands.is_empty() { button.small type="button" data-copy={ "repair-" (i) } { "Copy" } }
                                }
                            }
                            @if !repair.commands.is_empty() { pre tabindex="0" { code id={ "repair-" (i) } { (Command::lines(&repair.commands)) } } }
                        }
                    }
                }
            }
        }
    }
}

/// The changes of a repair in words.
pub(super) fn what(repair: &Repair) -> Markup {
    html! { (repair.to_string()) ": then it can be placed on " (repair.result().to_string()) }
}

fn terms(terms: &[TermSummary], n_nodes: usize) -> Markup {
    let excluding: Vec<&TermSummary> = terms.iter().filter(|term| term.excludes > 0).collect();
    let row = |term: &&TermSummary| {
        let TermSummary { plugin, term: path, detail, excludes, excludes_alone, domains, .. } = term;
        let cause = html! {
            @if !domains.is_empty() {
                details {
                    summary { (counted(domains.len(), "domain")) }
                    ul { @for domain in domains.iter().take(MAX_GROUPS) { li { (report::html::line(&report::rule::domain(domain), true)) } } }
                    @if domains.len() > MAX_GROUPS { "and " (grouped(domains.len() - MAX_GROUPS)) " more" }
                }
            }
        };
        vec![
            html! { (plugin.name()) },
            html! { (prose(detail)) div { (field(path)) } },
            parts::number(*excludes),
            parts::number(*excludes_alone),
            cause,
        ]
    };
    let headers = ["Plugin", "Rule", "Excluded nodes", "By this rule alone", "Where and why"];
    let caption = format!("Rules, evaluated individually on {}", counted(n_nodes, "node"));
    html! {
        @if !excluding.is_empty() {
            details {
                summary { (counted(excluding.len(), "rule")) " exclude nodes; " (grouped(terms.len() - excluding.len())) " exclude none" }
                (parts::short_table(&caption, &headers, (&excluding, "rule"), row))
            }
        }
    }
}

fn nodes(names: &[String]) -> Markup {
    html! {
        @for (i, name) in names.iter().take(MAX_NODES).enumerate() { @if i > 0 { ", " } (parts::node(name)) }
        @if names.len() > MAX_NODES { " and " (grouped(names.len() - MAX_NODES)) " more" }
    }
}

fn verdicts_of(verdicts: &[Verdict]) -> Markup {
    html! {
        ul.rows {
            @for verdict in verdicts.iter().take(parts::MAX_SHOWN) { li { div { (report::html::verdict(verdict)) } } }
            @if verdicts.len() > parts::MAX_SHOWN { li { "and " (grouped(verdicts.len() - parts::MAX_SHOWN)) " more" } }
        }
    }
}

fn feasible(groups: &[FeasibleNodes]) -> Markup {
    let row = |FeasibleNodes { nodes: names, total, scores }: &FeasibleNodes| {
        let part = |score: &berth_engine::PluginScore| format!("{} {}", score.plugin.name(), score.score);
        let parts: Vec<_> = scores.iter().filter(|score| score.score != 0).map(part).collect();
        vec![nodes(names), html! { (total) }, html! { (parts.join(", ")) }]
    };
    html! {
        (parts::table_of(
            "Feasible nodes by score; among the best, the first by name is selected",
            &["Nodes", "Score", "By plugin"],
            groups.iter().take(MAX_GROUPS).map(row).collect(),
        ))
        @if groups.len() > MAX_GROUPS { p { "and " (counted(groups.len() - MAX_GROUPS, "more group")) } }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, cluster, get, state};
    use crate::Request;

    #[test]
    fn a_pending_pod_has_rules_nodes_and_repairs() {
        check(
            "/pods/shop/web-3",
            &[
                "<strong class=\"bad\">Unschedulable. </strong>All 2 nodes are in a zone that already has a pod with app=web.",
                "<p class=\"detail\">0/2 nodes are available: ",
                "Rules, evaluated individually on 2 nodes",
                "caused by <a href=\"/pods/shop/web-1\">shop/web-1</a> on <a href=\"/nodes/a-1\">a-1</a>",
                "Verified repairs, smallest change first",
                ": then it can be placed on ",
            ],
        );
    }

    #[test]
    fn a_running_pod_has_its_node_and_no_broken_rule() {
        check(
            "/pods/shop/web-1",
            &[
                "<p class=\"outcome\">Runs on <a href=\"/nodes/a-1\">a-1</a>, and would be placed there again.</p>",
                "No rule is violated on",
                "<a href=\"/workloads/Deployment/shop/web\">Deployment web</a>",
                "href=\"/what-if?evict=shop%2Fweb-1\"",
            ],
        );
    }

    #[test]
    fn the_page_of_a_pod_with_many_rules_shows_some_and_counts_the_rest() {
        let keys: Vec<_> = (0..2000).map(|i| format!("key-{i}: v")).collect();
        let pod = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: large, namespace: shop}}, spec: {{nodeSelector: {{{}}},
               containers: [{{name: c, image: c}}]}}}}",
            keys.join(", ")
        );
        let (status, body) = get(&mut state(&format!("{}\n---\n{pod}", cluster())), "/pods/shop/large");
        assert_eq!(status, 200);
        assert!(body.contains("and 1,950 more rules"), "{body}");
        assert!(body.len() < 200_000, "{} bytes", body.len());
    }

    /// Tries the repair with this text on the page of a pod as a browser does; returns the manifests and the page of the what-if.
    #[track_caller]
    fn tried(text: &str, pod: &str, repair: &str) -> (Vec<String>, String) {
        let mut state = state(text);
        let (_, body) = get(&mut state, &format!("/pods/{pod}"));
        let item = body.split("<li>").find(|item| item.contains(repair) && item.contains("Try it"));
        let item = item.unwrap_or_else(|| panic!("{repair}: {body}"));
        let unescaped = |text: &str| {
            text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        };
        let value = |name: &str| {
            let before = format!("name=\"{name}\" value=\"");
            let values = item.split(&before).skip(1);
            values.map(|rest| unescaped(rest.split('"').next().unwrap())).collect::<Vec<_>>()
        };
        let manifests = value("manifest");
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(manifests.iter().map(|manifest| ("manifest", manifest)));
        form.extend_pairs(value("repair-of").iter().map(|pod| ("repair-of", pod)));
        state.allows_changes = true;
        let request = Request { path: "/what-if", query: "", form: Some(&form.finish()) };
        let response = crate::respond(&mut state, &request);
        assert_eq!(response.status, 200, "{}", response.body);
        (manifests, response.body)
    }

    /// A node, and a workload whose pod needs a label and more cpu than the node has.
    fn pending(workload: &str, owner: &str, template: &str) -> String {
        let spec = "nodeSelector: {disk: ssd}, containers: [{name: c, image: c, resources: {requests: {cpu: 100m}}}]";
        let template =
            template.replace("POD", &format!("metadata: {{labels: {{app: db}}}}, spec: {{{spec}}}"));
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: a, labels: {{disk: hdd}}}}, status: {{allocatable: {{cpu: 2, memory: 4Gi, pods: 10}}}}}}
---
{{{workload}, metadata: {{name: db, namespace: shop, uid: u}}, spec: {template}}}
---
{{apiVersion: v1, kind: Pod, metadata: {{name: db-0, namespace: shop, labels: {{app: db}}, ownerReferences: [{owner}]}}, spec: {{{spec}}}}}"
        )
    }

    #[test]
    fn a_repair_that_changes_the_pod_is_tried_on_its_workload() {
        let owner = |version: &str, kind: &str| {
            format!("{{apiVersion: {version}, kind: {kind}, name: db, uid: u, controller: true}}")
        };
        let selected = "{replicas: 1, selector: {matchLabels: {app: db}}, template: {POD}}";
        for (version, kind, template, n_objects) in [
            ("apps/v1", "StatefulSet", selected, 2),
            ("apps/v1", "ReplicaSet", selected, 2),
            ("batch/v1", "Job", "{template: {POD}}", 2),
        ] {
            let text =
                pending(&format!("apiVersion: {version}, kind: {kind}"), &owner(version, kind), template);
            let (manifests, page) = tried(&text, "shop/db-0", "prefer instead of require");
            assert_eq!(manifests.len(), n_objects, "{kind}: {manifests:?}");
            assert!(manifests[0].contains(&format!("\"kind\":\"{kind}\"")), "{manifests:?}");
            assert!(
                manifests.iter().all(|manifest| manifest.contains("\"nodeSelector\":{}")),
                "{manifests:?}"
            );
            assert!(page.contains("<strong class=\"good\">Safe: no new unplaced pods"), "{kind}: {page}");
            assert!(
                page.contains("A repair of pod <a href=\"/pods/shop/db-0\">")
                    && !page.contains("id=\"apply\""),
                "{page}"
            );
        }
        // Its rollout replaces the pod.
        let text =
            pending("apiVersion: apps/v1, kind: Deployment", &owner("apps/v1", "ReplicaSet"), selected);
        let of_deployment = owner("apps/v1", "Deployment");
        let text = format!(
            "{text}\n---\n{{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{name: db, namespace: shop, uid: u, ownerReferences: [{of_deployment}]}}, \
             spec: {{replicas: 1, selector: {{matchLabels: {{app: db}}}}, template: {{metadata: {{labels: {{app: db}}}}, spec: {{containers: []}}}}}}}}"
        );
        let (manifests, page) = tried(&text, "shop/db-0", "prefer instead of require");
        assert!(manifests.len() == 1 && manifests[0].contains("\"kind\":\"Deployment\""), "{manifests:?}");
        assert!(page.contains("<strong class=\"good\">Safe: no new unplaced pods"), "{page}");
        // A pod alone is changed itself, and requests are.
        let alone = "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 2, memory: 4Gi, pods: 10}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db-0, namespace: shop}, spec: {containers: [{name: c, image: c, resources: {requests: {cpu: 3}}}]}}";
        let (manifests, page) = tried(alone, "shop/db-0", "in container c");
        assert!(manifests.len() == 1 && manifests[0].contains("\"kind\":\"Pod\""), "{manifests:?}");
        assert!(page.contains("<strong class=\"good\">Safe: no new unplaced pods"), "{page}");
    }

    #[test]
    fn a_rolling_update_that_blocks_itself_is_tried_with_another_strategy() {
        let spec = |image: u32| {
            format!(
                "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [
                   {{labelSelector: {{matchLabels: {{app: web}}}}, topologyKey: kubernetes.io/hostname}}]}}}},
                 containers: [{{name: web, image: 'web:{image}'}}]"
            )
        };
        let node = |name: &str| {
            format!(
                "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}}}}},
                 status: {{allocatable: {{cpu: 2, memory: 4Gi, pods: 10}}}}}}"
            )
        };
        let metadata = |name: &str, hash: &str, kind: &str, owner: &str| {
            format!(
                "{{name: {name}, namespace: shop, uid: {name}, labels: {{app: web, pod-template-hash: '{hash}'}}, annotations: {{deployment.kubernetes.io/revision: '{hash}'}},
                   ownerReferences: [{{apiVersion: apps/v1, kind: {kind}, name: {owner}, uid: {owner}, controller: true}}]}}"
            )
        };
        let replica_set = |image: u32, replicas: u32| {
            let metadata = metadata(&format!("web-{image}"), &image.to_string(), "Deployment", "web");
            format!(
                "{{apiVersion: apps/v1, kind: ReplicaSet, metadata: {metadata}, spec: {{replicas: {replicas}, selector: {{matchLabels: {{app: web}}}},
                   template: {{metadata: {{labels: {{app: web, pod-template-hash: '{image}'}}}}, spec: {{{}}}}}}}}}",
                spec(image)
            )
        };
        let pod = |name: &str, image: u32, on: &str, status: &str| {
            let metadata = metadata(name, &image.to_string(), "ReplicaSet", &format!("web-{image}"));
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {metadata}, spec: {{{on}{}}}, status: {status}}}",
                spec(image)
            )
        };
        let running = "{phase: Running, conditions: [{type: Ready, status: 'True'}]}";
        let deployment = format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web, namespace: shop, uid: web}}, spec: {{replicas: 2,
               selector: {{matchLabels: {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}}, spec: {{{}}}}}}}}}",
            spec(2)
        );
        let text = [
            node("a"),
            node("b"),
            deployment,
            replica_set(1, 2),
            replica_set(2, 1),
            pod("old-a", 1, "nodeName: a, ", running),
            pod("old-b", 1, "nodeName: b, ", running),
            pod("new", 2, "", "{phase: Pending}"),
        ];
        let (manifests, page) = tried(&text.join("\n---\n"), "shop/new", "stop an old pod first");
        assert!(
            manifests.len() == 1
                && manifests[0].contains("\"kind\":\"Deployment\"")
                && manifests[0].contains("\"maxUnavailable\":1"),
            "{manifests:?}"
        );
        assert!(page.contains("<strong class=\"good\">Safe: no new unplaced pods"), "{page}");
    }

    #[test]
    fn another_device_class_is_tried_with_the_template_and_with_the_claim_that_was_made_from_it() {
        let spec = "{devices: {requests: [{name: gpu, exactly: {deviceClassName: gone}}]}}";
        let pod = |claim: &str, status: &str| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: ml, uid: u}}, status: {{{status}}}, \
                 spec: {{resourceClaims: [{{name: gpu, {claim}}}], containers: [{{name: c, image: c}}]}}}}"
            )
        };
        let objects = [
            "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 2, pods: 10}}}".to_owned(),
            "{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: a}, spec: {driver: d, nodeName: a, \
             pool: {name: a, generation: 1, resourceSliceCount: 1}, devices: [{name: g}]}}"
                .to_owned(),
            "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gone}, \
             spec: {selectors: [{cel: {expression: 'false'}}]}}"
                .to_owned(),
            "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}}".to_owned(),
        ];
        let claim = |name: &str, metadata: &str| {
            format!(
                "{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: {name}, namespace: ml{metadata}}}, spec: {spec}}}"
            )
        };
        let template = format!(
            "{{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {{name: gpus, namespace: ml}}, spec: {{spec: {spec}}}}}"
        );
        let made = claim(
            "p-gpu",
            ", annotations: {resource.kubernetes.io/pod-claim-name: gpu}, ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u, controller: true}]",
        );
        let of_template = "resourceClaimTemplateName: gpus";
        let recorded = "resourceClaimStatuses: [{name: gpu, resourceClaimName: p-gpu}]";
        for (more, kinds) in [
            (vec![claim("c", ""), pod("resourceClaimName: c", "")], vec!["ResourceClaim"]),
            (vec![template.clone(), pod(of_template, "")], vec!["ResourceClaimTemplate"]),
            (
                vec![template, made, pod(of_template, recorded)],
                vec!["ResourceClaimTemplate", "ResourceClaim"],
            ),
        ] {
            let text = [&objects[..], &more].concat().join("\n---\n");
            let (manifests, page) = tried(&text, "ml/p", "use the device class gpu instead of gone");
            assert_eq!(manifests.len(), kinds.len(), "{manifests:?}");
            for (manifest, kind) in manifests.iter().zip(kinds) {
                assert!(manifest.contains(&format!("\"kind\":\"{kind}\"")), "{manifest}");
                assert!(manifest.contains("\"deviceClassName\":\"gpu\""), "{manifest}");
            }
            assert!(page.contains("<strong class=\"good\">Safe: no new unplaced pods"), "{page}");
        }
    }

    #[test]
    fn an_explanation_changes_nothing() {
        let mut state = state(&cluster());
        let pages = ["/pending", "/", "/nodes", "/workloads"];
        let all = |state: &mut _| pages.map(|page| get(state, page));
        let before = all(&mut state);
        for pod in ["web-1", "web-3"] {
            assert_eq!(get(&mut state, &format!("/pods/shop/{pod}")).0, 200);
        }
        assert!(all(&mut state) == before);
    }
}
