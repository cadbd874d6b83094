//! Which workloads require or avoid which others, and what does not hold.

use berth_api::syntax::format::{counted, grouped};
use berth_picture::bars::Section;
use berth_simulate::SimulatedPod;
use maud::{Markup, html};

use super::answer::{Answer, Page, PageError};
use super::parts;
use crate::components::bars::{bars, legend};
use crate::components::listing::{Column, Filter, listing};
use crate::components::{Tone, badge, card, empty, field, verdict};
use crate::overview::Pods;
use crate::pictures;
use crate::pictures::rules::{Edge, MAX_WITH_SINGLE, edges, graph, keys, topology};
use crate::workloads::WorkloadName;
use crate::{Request, State, links};

/// Workloads whose spread is drawn, and rules about nodes.
const MAX_SPREAD: usize = 12;
const MAX_NODE_RULES: usize = 50;
/// Rules of the picture.
const MAX_DRAWN: usize = 60;

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let overview = state.overview();
    let n_broken = overview.broken.violations.len();
    let mut edges = edges(overview);
    edges.sort_by_key(|edge| std::cmp::Reverse(edge.n_broken));
    // A rule of a workload about itself is a row: a picture says no more.
    let mut drawn: Vec<Edge> = edges.iter().filter(|edge| edge.from != edge.to).cloned().collect();
    let n_between = drawn.len();
    drawn.truncate(MAX_DRAWN);
    let spreads = spreads(overview.pods);
    let node_rules = node_rules(overview.pods);
    let filter = Filter::of(request);
    let is_wanted = |edge: &&Edge| filter.matches(&edge.from.0, &[&edge.from.1, &edge.to.1]);
    let mut shown: Vec<&Edge> = edges.iter().filter(is_wanted).collect();
    let n_shown = shown.len();
    let name = |(namespace, workload): &WorkloadName| {
        html! { (namespace) "/" (parts::link(&links::workload(namespace, workload), workload)) }
    };
    let columns = [
        Column::new("workload", "Workload", |edge: &&Edge| name(&edge.from)).by(|a, b| a.from.cmp(&b.from)),
        Column::new("relation", "Relation", |edge: &&Edge| html! { (edge.relation.verb()) })
            .by(|a, b| a.relation.verb().cmp(b.relation.verb())),
        Column::new("to", "To", |edge: &&Edge| name(&edge.to)).by(|a, b| a.to.cmp(&b.to)),
        Column::text(
            "where",
            "Where",
            |edge: &&Edge| html! { (topology(&edge.term)) div { (field(&edge.term.path)) } },
        ),
        Column::new("now", "Now", |edge: &&Edge| {
            if edge.n_broken > 0 {
                badge(Tone::Bad, &format!("broken for {}", counted(edge.n_broken, "pod")))
            } else {
                badge(Tone::Good, "holds")
            }
        })
        .by(|a, b| a.n_broken.cmp(&b.n_broken)),
    ];
    let caption = format!("{} between workloads, broken ones first", counted(n_shown, "rule"));
    let table = listing(request, &caption, &mut shown, &columns).map_err(PageError::Parameter)?;
    let line = html! {
        (counted(n_broken, "required rule")) " of running pods "
        @if n_broken == 1 { "does" } @else { "do" } " not hold, those of nodes included."
    };
    let detail = html! {
        p.detail {
            (parts::link("/enforcer", "Broken rules and planned evictions")) ". Below: "
            (counted(edges.len(), "rule")) " between workloads, " (counted(spreads.len(), "workload")) " with spread constraints, "
            (counted(node_rules.len(), "rule")) " about nodes."
        }
    };
    let content = html! {
        (verdict(if n_broken == 0 { Tone::Good } else { Tone::Bad }, &line, &detail))
        @if overview.pods.table.n_pods() > MAX_WITH_SINGLE {
            p.hint { "Where there are more than " (grouped(MAX_WITH_SINGLE)) " workloads, pods without one are left out." }
        }
        @if edges.is_empty() && spreads.is_empty() && node_rules.is_empty() {
            (empty("No workload has a rule", &html! { "Affinity, anti-affinity, spread constraints and node selectors of pods appear here." }))
        }
        @if !drawn.is_empty() {
            section.card {
                h2 { "Affinity and anti-affinity between workloads" }
                (legend(&keys()))
                (parts::figure(&graph(&drawn, false)))
                @if n_between > drawn.len() { p.detail { "Those " (grouped(drawn.len())) " of " (counted(n_between, "rule")) " that are broken, or first by name." } }
            }
        }
        @if !edges.is_empty() {
            (filter.form(request, "Workload", &[]))
            (table)
        }
        @if !spreads.is_empty() {
            h2 { "Spread constraints" }
            div.sides { @for section in &spreads { (spread(section)) } }
        }
        (parts::table_of("Rules about nodes", &["Workload", "Rule", "Nodes that match", "Pods"], node_rules))
    };
    Ok(Page::new("Rules", content))
}

/// The pods that stand for their workloads, by name.
fn representatives(pods: Pods<'_>) -> Vec<(&WorkloadName, &SimulatedPod)> {
    let positions = pods.table.representatives(pods.simulation);
    let mut workloads: Vec<_> = pods
        .table
        .workloads()
        .filter_map(|(number, name)| Some((name, pods.at(positions[number]?))))
        .collect();
    workloads.sort_unstable_by_key(|(name, _)| *name);
    workloads
}

/// A bar for each domain of each spread constraint, with the limit that maxSkew sets.
fn spreads(pods: Pods<'_>) -> Vec<Section> {
    let has_constraint =
        |(_, pod): &(&WorkloadName, &SimulatedPod)| !pod.pod.spec.topology_spread_constraints.is_empty();
    let shown = representatives(pods).into_iter().filter(has_constraint).take(MAX_SPREAD);
    let sections = |(name, _): (&WorkloadName, &SimulatedPod)| {
        let members: Vec<&SimulatedPod> = pods.table.of_workload(name).map(|at| pods.at(at)).collect();
        pictures::spread_of(pods.simulation, name, &members, None)
    };
    shown.flat_map(sections).collect()
}

/// A spread constraint: the workload as the heading, the rule below it.
fn spread(section: &Section) -> Markup {
    match section.name.split_once(": ") {
        Some((workload, rule)) => card(workload, &html! { p.detail { (rule) } (bars(section)) }),
        None => card(&section.name, &bars(section)),
    }
}

/// The node selectors and the required node affinity of workloads.
fn node_rules(pods: Pods<'_>) -> Vec<Vec<Markup>> {
    let mut rows = Vec::new();
    for (name, pod) in representatives(pods) {
        if rows.len() >= MAX_NODE_RULES {
            break;
        }
        let spec = &pod.pod.spec;
        if spec.node_selector.is_empty() && spec.affinity.is_none() && pod.pod.metadata.annotations.is_empty()
        {
            continue;
        }
        let rules = pods.simulation.rules_of(&pod.pod);
        let n_pods = pods.table.of_workload(name).count();
        let mut add = |rule: Markup, n_nodes: usize| {
            let (namespace, workload) = name;
            let matching = if n_nodes == 0 { badge(Tone::Bad, "none") } else { parts::number(n_nodes) };
            rows.push(vec![
                html! { (namespace) "/" (parts::link(&links::workload(namespace, workload), workload)) },
                rule,
                matching,
                parts::number(n_pods),
            ]);
        };
        for (key, value) in &rules.node_selector {
            let has_label = |node: &&berth_api::object::Node| node.metadata.labels.get(key) == Some(value);
            add(
                html! { "node selector " code { (key) "=" (value) } },
                pods.simulation.nodes().filter(has_label).count(),
            );
        }
        for rule in &rules.required_node_affinity {
            let matches =
                |node: &&berth_api::object::Node| rule.matches(&node.metadata.name, &node.metadata.labels);
            let when =
                if rule.required_during_execution { "also during execution" } else { "when it is scheduled" };
            add(
                html! { "node affinity, required " (when) div { (field(&rule.path)) } },
                pods.simulation.nodes().filter(matches).count(),
            );
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::tests::{CACHE, check, cluster, get, state};

    #[test]
    fn rules_have_a_graph_and_a_row_each() {
        check(
            "/rules",
            &[
                "0 required rules of running pods do not hold",
                "1 rule between workloads, broken ones first",
                "<td data-label=\"Relation\">avoids</td><td data-label=\"To\">shop/<a href=\"/workloads/Deployment/shop/web\">Deployment web</a></td>",
                "data-label=\"Where\">per topology.kubernetes.io/zone",
                "<span class=\"badge good\">holds</span>",
                "maxSkew 1 by topology.kubernetes.io/zone",
            ],
        );
        // A picture of one workload says no more than the row.
        let (_, body) = get(&mut state(&cluster()), "/rules");
        assert!(!body.contains("<figure"), "{body}");
        let (_, body) = get(&mut state(&(cluster() + CACHE)), "/rules");
        assert!(body.contains(">1 rule between 2 workloads</text>"), "{body}");
    }
}
