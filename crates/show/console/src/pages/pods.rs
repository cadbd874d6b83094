//! One pod: where it fits and why, and what would make it fit.

use berth_api::object::support::unsupported_message;
use berth_api::syntax::format::{counted, grouped};
use berth_engine::{DomainSummary, ExcludedNodes, FeasibleNodes, TermSummary, Verdict};
use berth_simulate::{PodExplanation, PodPreemption, Repair, SimulatedPod};
use maud::{Markup, html};

use super::answer::{Answer, Page};
use super::parts;
use crate::{State, links, pictures};

/// Groups of nodes, and domains of a rule.
const MAX_GROUPS: usize = 10;
/// Steps of work of the explanation, and of the search for repairs: some tenths of a second.
const MAX_STEPS: u64 = 3_000_000;
/// Nodes of a group with a link each.
const MAX_NODES: usize = 4;

pub(super) fn page(state: &mut State, namespace: &str, name: &str) -> Answer {
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
    let pod = simulation.pod(namespace, name);
    let explanation = &explained.explanation;
    let relaxed = match explanation.running_on {
        Some(_) => "Required rules that were relaxed to bind it",
        None => "Required rules that are preferences by now",
    };
    let content = html! {
        (outcome(&explained))
        @if let Some(pod) = pod { (facts(pod)) }
        @if let Some(node) = &explanation.running_on {
            @if !simulation.has_node(node) { p.bad { "Its rules cannot be checked: node " (node) " does not exist." } }
            @else if explanation.broken.is_empty() { p { "No rule is violated on " (parts::node(node)) "." } }
            @else {
                h2 { "Rules violated on " (node) }
                p { "Only rules required during execution cause an eviction." }
                (verdicts(&explanation.broken))
            }
        }
        (repairs(&explained.repairs))
        (parts::list(relaxed, &explained.relaxed))
        (parts::list("Suggestions", &explained.hints))
        @if explained.core.len() > 1 {
            (parts::short_list(
                "These rules together exclude all nodes; without any of them, a node is left",
                (&explained.core, "rule"),
                |term| html! { strong { (term.plugin) } " " code { (term.term) } ": " (term.detail) },
            ))
        }
        (terms(&explanation.terms, explanation.n_nodes - explanation.n_not_evaluated))
        (excluded(&explanation.excluded))
        (feasible(&explanation.feasible))
        (parts::list("Different meaning in v1 fields and in proposal fields", &explained.dialect_notes))
        (parts::figure(&pictures::explanation(&explained)))
    };
    Ok(Page::new(format!("Pod {namespace}/{name}"), content))
}

fn outcome(explained: &PodExplanation) -> Markup {
    let PodExplanation { explanation, unadmitted, preemption, group, unsupported, .. } = explained;
    let message = explanation.outcome.message();
    html! {
        @if let Some(group) = group {
            p {
                "Pod group " strong { (group.namespace) "/" (group.name) } " "
                @match (&group.message, &group.domain) {
                    (Some(message), _) => { "is not placed: " (message) }
                    (None, Some(domain)) => { "would be placed in " (domain) }
                    (None, None) => { "would be placed" }
                }
                @match &group.failing {
                    Some(failing) => { ". What follows is about " (failing.name) " with " (counted(failing.n_others, "other member")) " in place." }
                    None => { ". What follows is about the pod alone, without the other pending members." }
                }
            }
        }
        p.outcome {
            @match (unadmitted, &explanation.running_on, explanation.outcome.node()) {
                (Some(why), _, node) => {
                    strong.bad { "Does not run, " (why.short()) ": " } (why.message) ". Without spec.nodeName, it would "
                    @match node {
                        Some(node) => { "be placed on " (parts::node(node)) "." }
                        None => { "fit on no node: " (message) }
                    }
                }
                (None, Some(on), Some(node)) if on == node => { "Runs on " (parts::node(on)) ", and would be placed there again." }
                (None, Some(on), Some(node)) => { "Runs on " (parts::node(on)) "; it would now be placed on " (parts::node(node)) "." }
                (None, Some(on), None) => { "Runs on " (parts::node(on)) "; it would now fit on no node: " (message) }
                (None, None, Some(node)) => { "Pending; it fits now, and would be placed on " (parts::node(node)) "." }
                (None, None, None) => { strong.bad { "Fits on no node: " } (message) }
            }
        }
        @if let Some(PodPreemption { node, victims, n_pdb_violations }) = preemption {
            p {
                "It would preempt " (victims.join(", ")) " on " (parts::node(node))
                @if *n_pdb_violations > 0 { ", which violates PodDisruptionBudgets for " (counted(*n_pdb_violations, "pod")) }
                ": it fits there then."
            }
        }
        @if !unsupported.is_empty() { p.bad { (unsupported_message(unsupported)) ": ignored in this explanation" } }
    }
}

fn facts(pod: &SimulatedPod) -> Markup {
    let metadata = &pod.pod.metadata;
    html! {
        dl {
            dt { "Workload" } dd { (parts::workload(&metadata.namespace, pod.workload.as_deref())) }
            dt { "Priority" } dd { (pod.pod.spec.priority.unwrap_or(0)) }
            @if !metadata.labels.is_empty() {
                dt { "Labels" } dd { @for (key, value) in &metadata.labels { code { (key) "=" (value) } " " } }
            }
            @if metadata.is_deleting() { dt { "State" } dd { "being deleted" } }
        }
        @if pod.was_running {
            p { a href=(links::with("/what-if", "evict", &pod.pod.key())) { "What if it is evicted?" } }
        }
    }
}

pub(super) fn repairs(repairs: &[Repair]) -> Markup {
    html! {
        @if !repairs.is_empty() {
            h2 { "Repairs, those that change least first; each was verified" }
            ol {
                @for repair in repairs {
                    li {
                        (repair.to_string()) ": then it fits on " (repair.node)
                        @if !repair.commands.is_empty() { pre tabindex="0" { code { (repair.commands.join("\n")) } } }
                    }
                }
            }
        }
    }
}

fn terms(terms: &[TermSummary], n_nodes: usize) -> Markup {
    let row = |term: &TermSummary| {
        let TermSummary { plugin, term: path, detail, excludes, excludes_alone, domains } = term;
        let cause = html! {
            @if !domains.is_empty() {
                details {
                    summary { (counted(domains.len(), "domain")) }
                    ul { @for domain in domains.iter().take(MAX_GROUPS) { li { (self::domain(domain)) } } }
                    @if domains.len() > MAX_GROUPS { "and " (grouped(domains.len() - MAX_GROUPS)) " more" }
                }
            }
        };
        vec![
            html! { (plugin.name()) },
            html! { code { (path) } div.detail { (detail) } },
            parts::number(*excludes),
            parts::number(*excludes_alone),
            cause,
        ]
    };
    let caption = format!("Rules, evaluated individually on {}", counted(n_nodes, "node"));
    let headers = ["Plugin", "Rule", "Excluded nodes", "By this rule alone", "Where and why"];
    parts::short_table(&caption, &headers, (terms, "rule"), row)
}

fn domain(DomainSummary { topology, n_nodes, counts, witnesses, more_witnesses }: &DomainSummary) -> Markup {
    html! {
        (topology.to_string()) ": " (counted(*n_nodes, "node"))
        @if let Some(counts) = counts { "; " (counts.text(Some(topology))) }
        (parts::witnesses(witnesses, *more_witnesses))
    }
}

fn nodes(names: &[String]) -> Markup {
    html! {
        @for (i, name) in names.iter().take(MAX_NODES).enumerate() { @if i > 0 { ", " } (parts::node(name)) }
        @if names.len() > MAX_NODES { " and " (grouped(names.len() - MAX_NODES)) " more" }
    }
}

fn verdicts(verdicts: &[Verdict]) -> Markup {
    html! {
        ul.plain {
            @for verdict in verdicts.iter().take(parts::MAX_SHOWN) { li { (parts::verdict(verdict)) } }
            @if verdicts.len() > parts::MAX_SHOWN { li { "and " (grouped(verdicts.len() - parts::MAX_SHOWN)) " more" } }
        }
    }
}

fn excluded(groups: &[ExcludedNodes]) -> Markup {
    let row = |ExcludedNodes { nodes: names, verdicts }: &ExcludedNodes| {
        vec![nodes(names), self::verdicts(verdicts)]
    };
    html! {
        (parts::table_of(
            "Excluded nodes, those with the fewest reasons first; the reasons are those of the first node of each group",
            &["Nodes", "Reasons"],
            groups.iter().take(MAX_GROUPS).map(row).collect(),
        ))
        @if groups.len() > MAX_GROUPS { p { "and " (counted(groups.len() - MAX_GROUPS, "more group")) } }
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

    #[test]
    fn a_pending_pod_has_rules_nodes_and_repairs() {
        check(
            "/pods/shop/web-3",
            &[
                "<strong class=\"bad\">Fits on no node: </strong>0/2 nodes are available: ",
                "Rules, evaluated individually on 2 nodes",
                "caused by <a href=\"/pods/shop/web-1\">shop/web-1</a> on <a href=\"/nodes/a-1\">a-1</a>",
                "Repairs, those that change least first; each was verified",
                "then it fits on ",
                "fits on no node</text>",
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
        assert!(body.contains("and 1,952 more rules"), "{body}");
        assert!(body.len() < 200_000, "{} bytes", body.len());
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
