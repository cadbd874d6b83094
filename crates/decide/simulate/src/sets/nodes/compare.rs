//! The comparison of the sets of nodes with each other.

use berth_api::object::Node;
use berth_rules::SetRelation;

use super::collect::PodClasses;
use super::distinct::Distinct;
use super::rules::Rules;
use super::tolerated::Taints;
use super::users::{Users, alike};
use super::{NodeIntersection, NodeSetComparison, NodeSetSummary, NodeSets};
use crate::Simulation;

impl NodeSets {
    /// Compares the sets of the nodes of a simulation with each other. Only pods in wanted namespaces count.
    pub fn compare(&self, simulation: &Simulation, is_wanted: impl Fn(&str) -> bool) -> NodeSetComparison {
        let classes = PodClasses::new(&self.templates, simulation, is_wanted);
        let nodes: Vec<&Node> = simulation.nodes().collect();
        let taints = Taints::new(&nodes);
        let Rules { evaluated, n_selectors, n_taints_not_tolerated, n_taints_left_out } =
            Rules::new(&classes, &taints, &nodes);
        let distinct = Distinct::new(&evaluated);
        let by_sets = distinct.nodes_by_sets(nodes.len());
        let (mut relations, n_compared) = distinct.relations(&by_sets);
        relations.sort_by_key(|relation| (relation.set, relation.other));

        let users = Users::new(&classes, &taints, &evaluated, &distinct);
        let is_named = |i: &usize| classes.named_nodes.contains(&nodes[*i].metadata.name);
        let mut intersections: Vec<_> = by_sets
            .into_iter()
            .map(|(sets, members)| {
                let is_usable = users.can_use(&sets, members[0]) || members.iter().all(is_named);
                (users.selects(&sets), is_usable, sets, members)
            })
            .collect();
        intersections.sort_by(|(_, _, a, x), (_, _, b, y)| y.len().cmp(&x.len()).then_with(|| a.cmp(b)));
        let (mut unselected, mut unusable) = (Vec::new(), Vec::new());
        for (is_selected, is_usable, _, members) in &intersections {
            unselected.extend(members.iter().filter(|_| !is_selected));
            unusable.extend(members.iter().filter(|i| !is_usable && !is_named(i)));
        }
        let (n_unselected, n_unusable) = (unselected.len(), unusable.len());
        let [unselected, unusable] =
            [unselected, unusable].map(|members| alike(&members, &nodes, &taints, &classes));
        let intersection = |(is_selected, is_usable, sets, members): (bool, bool, Vec<usize>, Vec<usize>)| {
            NodeIntersection {
                sets: sets.iter().map(|set| set + 1).collect(),
                is_selected,
                is_usable,
                n_nodes: members.len(),
                nodes: members.iter().map(|i| nodes[*i].metadata.name.clone()).collect(),
            }
        };
        let intersections: Vec<_> = intersections.into_iter().map(intersection).collect();

        let n_not_evaluated = evaluated.iter().filter(|rule| rule.nodes.is_none()).count();
        let (sets, empty) = distinct.into_sets(evaluated);
        let n_overlapping = relations.iter().filter(|r| r.relation == SetRelation::Overlaps).count();
        let summary = NodeSetSummary {
            n_nodes: nodes.len(),
            n_node_selectors: n_selectors,
            n_taints: taints.all.len(),
            n_added_affinities: classes.added.values.len(),
            n_sets: sets.len(),
            n_contained: relations.len() - n_overlapping,
            n_overlapping,
            n_disjoint: n_compared * n_compared.saturating_sub(1) / 2 - relations.len(),
            n_not_compared: sets.len() - n_compared,
            n_rules_not_evaluated: n_not_evaluated + n_taints_left_out,
            n_empty: empty.len(),
            n_taints_not_tolerated,
            n_unselected,
            n_unusable,
            n_pods: classes.n_pods,
            n_pods_without_node_selector: classes.n_pods_without_selector,
        };
        NodeSetComparison { sets, empty, relations, intersections, unselected, unusable, summary }
    }
}
