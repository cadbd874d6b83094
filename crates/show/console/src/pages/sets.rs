//! How the sets of pods that selectors describe overlap.

use berth_api::syntax::format::{abbreviated, counted, grouped};
use berth_simulate::SimulatedPod;
use berth_simulate::sets::nodes::{NodeSet, NodeSetComparison, NodeSets};
use berth_simulate::sets::{ComparedSet, Relation, SelectorSets};
use maud::{Markup, html};

use super::answer::{Answer, Page, PageError};
use super::parts;
use crate::components::{Tone, empty, verdict};
use crate::pictures::{self, relation_words, rule_users, selector_owner};
use crate::{Request, State};

/// Selectors of a set that are named.
const MAX_NAMED: usize = 8;

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let (inventory, _) = state.objects();
    let mut sets = SelectorSets::new(&inventory).map_err(|error| PageError::Parameter(error.to_string()))?;
    let node_sets = NodeSets::new(&inventory).map_err(|error| PageError::Parameter(error.to_string()))?;
    let simulation = state.simulation();
    sets.add_terms(simulation);
    let pods: Vec<&SimulatedPod> = simulation.pods().iter().collect();
    let comparison = sets.compare(&pods);
    let node_comparison = node_sets.compare(simulation, |_| true);
    let (shown, pages) = parts::paged(request, &comparison.sets)?;
    let set = |set: &ComparedSet| {
        let owners: Vec<_> = set.owners.iter().map(|owner| selector_owner(owner, &set.namespaces)).collect();
        vec![
            parts::number(set.id),
            html! { (set.namespaces) },
            html! { code { (set.selector) } },
            parts::number(set.n_pods),
            html! { (abbreviated(&owners, MAX_NAMED)) },
        ]
    };
    let mut relations: Vec<&Relation> = comparison.relations.iter().filter(|r| r.n_pods > 0).collect();
    relations.sort_by_key(|relation| std::cmp::Reverse(relation.n_pods));
    let relation = |relation: &&Relation| {
        vec![
            html! { "set " (relation.set) },
            html! { (relation_words(relation.relation)) },
            html! { "set " (relation.other) },
            parts::number(relation.n_pods),
        ]
    };
    let summary = &comparison.summary;
    let content = html! {
        @let line = html! { (counted(summary.n_selectors, "selector")) " describe " (counted(summary.n_sets, "set")) " of pods" };
        @let twice = summary.n_pods_of_two_controllers + summary.n_pods_of_two_budgets + summary.n_pods_of_two_services + summary.n_pods_of_two_monitors;
        @let detail = html! { p.detail {
            (counted(summary.n_pods_of_two_controllers, "pod")) " of two controllers, "
            (grouped(summary.n_pods_of_two_budgets)) " of two budgets, "
            (grouped(summary.n_pods_of_two_services)) " of two Services, "
            (grouped(summary.n_pods_of_two_monitors)) " of two monitors"
        } };
        (verdict(if twice == 0 { Tone::Good } else { Tone::Warn }, &line, &detail))
        // Sets without a pod in common are a list: a plot would say nothing.
        @if !relations.is_empty() { section.card { h2 { "Overlaps of the sets of pods" } (parts::figure(&pictures::sets(&comparison))) } }
        @if comparison.sets.is_empty() { (empty("No sets of pods", &html! { "Selectors of Services, workloads, budgets and rules appear here." })) }
        (parts::table_of(
            "Sets of pods",
            &["Set", "Namespaces", "Selector", "Pods", "Selected by"],
            shown.iter().map(set).collect(),
        ))
        (pages)
        (parts::short_table(
            "Sets with pods in common",
            &["Set", "Relation", "Other set", "Pods in both"],
            (&relations, "pair"),
            relation,
        ))
        (of_nodes(&node_comparison))
    };
    Ok(Page::new("Sets of pods and nodes", content))
}

fn of_nodes(comparison: &NodeSetComparison) -> Markup {
    let summary = &comparison.summary;
    let rules = |set: &NodeSet| set.rules.iter().map(|rule| rule.rule.clone()).collect::<Vec<_>>();
    let set = |set: &NodeSet| {
        let users: Vec<_> = set.rules.iter().map(rule_users).collect();
        vec![
            parts::number(set.id),
            html! { code { (abbreviated(&rules(set), MAX_NAMED)) } },
            parts::number(set.n_nodes),
            html! { (abbreviated(&users, MAX_NAMED)) },
        ]
    };
    html! {
        h2 { "Sets of nodes" }
        p.detail {
            (counted(summary.n_node_selectors, "node selector")) ", " (counted(summary.n_taints, "taint")) ", "
            (counted(summary.n_sets, "set")) "; " (counted(summary.n_unselected, "node"))
            " without a node selector that matches, " (grouped(summary.n_unusable)) " that no pod can use"
        }
        @if comparison.sets.len() > 1 { section.card { h2 { "Overlaps of the sets of nodes" } (parts::figure(&pictures::node_sets(comparison))) } }
        (parts::short_table(
            "Sets of nodes",
            &["Set", "Rules", "Nodes", "Used by"],
            (&comparison.sets, "set"),
            set,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, cluster, get, state};

    #[test]
    fn sets_have_their_selectors_and_pods() {
        check(
            "/sets",
            &["<code>app=web</code></td><td data-label=\"Pods\">3</td>", "Deployment web", "Sets of nodes"],
        );
        // One set has no overlap to plot.
        let (_, body) = get(&mut state(&cluster()), "/sets");
        assert!(!body.contains("<figure"), "{body}");
        let service = "\n---\n{apiVersion: v1, kind: Service, metadata: {name: all, namespace: shop}, spec: {selector: {app: web, a: b}}}\n---\n\
                       {apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {selector: {tier: x}}}\n---\n\
                       {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop, labels: {app: web, tier: x}}, spec: {containers: [{name: c, image: i}]}}";
        let (_, body) = get(&mut state(&(cluster() + service)), "/sets");
        assert!(body.contains("Overlaps of the sets of pods") && body.contains("<figure"), "{body}");
    }
}
