//! How the sets of pods that selectors describe overlap.

use berth_simulate::SimulatedPod;
use berth_simulate::sets::SelectorSets;
use berth_simulate::sets::nodes::NodeSets;
use maud::html;

use super::answer::{Answer, Page, PageError};
use super::parts;
use crate::components::empty;
use crate::report::sets::{of_nodes, of_pods};
use crate::{State, pictures};

const MAX_ROWS: usize = 1_000;

pub(super) fn page(state: &mut State) -> Answer {
    let (inventory, _) = state.objects();
    let mut sets = SelectorSets::new(&inventory).map_err(|error| PageError::Parameter(error.to_string()))?;
    let node_sets = NodeSets::new(&inventory).map_err(|error| PageError::Parameter(error.to_string()))?;
    let simulation = state.simulation();
    sets.add_terms(simulation);
    let pods: Vec<&SimulatedPod> = simulation.pods().iter().collect();
    let comparison = sets.compare(&pods);
    let node_comparison = node_sets.compare(simulation, |_| true);
    let (of_pods, of_nodes) = (of_pods(&comparison, MAX_ROWS), of_nodes(&node_comparison, MAX_ROWS));
    let content = html! {
        (of_pods.verdict_card(true))
        // Sets without a pod in common are a list: a plot would say nothing.
        @if comparison.relations.iter().any(|relation| relation.n_pods > 0) {
            section.card { h2 { "Overlaps of the sets of pods" } (parts::figure(&pictures::sets(&comparison))) }
        }
        @if comparison.sets.is_empty() { (empty("No sets of pods", &html! { "Selectors of Services, workloads, budgets and rules appear here." })) }
        (of_pods.cards(true))
        h2 { "Sets of nodes" }
        (of_nodes.verdict_card(true))
        @if node_comparison.sets.len() > 1 {
            section.card { h2 { "Overlaps of the sets of nodes" } (parts::figure(&pictures::node_sets(&node_comparison))) }
        }
        (of_nodes.cards(true))
    };
    Ok(Page::new("Sets of pods and nodes", content))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, cluster, get, state};

    #[test]
    fn sets_have_their_selectors_and_pods() {
        check("/sets", &["app=web</td><td data-label=\"Pods\">3</td>", "Deployment web", "Sets of nodes"]);
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
