//! Sets of pods: sizes of the comparison.

use std::fmt::Write as _;

use berth_api::inventory::Inventory;
use berth_simulate::sets::{SelectorRole, SelectorSets, SetComparison};
use berth_simulate::{SimulatedPod, Simulation, SimulationOptions};

/// Budgets in turn with each of some selectors, and a pod for each of these.
fn compared(n_budgets: usize, n_selectors: usize) -> SetComparison {
    let mut text = String::new();
    for i in 0..n_budgets {
        let key = i % n_selectors;
        writeln!(
            text,
            "---\n{{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: b{i:05}, namespace: default}}, \
             spec: {{selector: {{matchLabels: {{key{key}: v}}}}}}}}"
        )
        .expect("a string takes all");
    }
    for key in 0..n_selectors.min(3) {
        writeln!(
            text,
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p{key}, namespace: default, labels: {{key{key}: v}}}}, \
             spec: {{containers: [{{name: c, image: i}}]}}}}"
        )
        .expect("a string takes all");
    }
    let inventory = Inventory::from_text(&text).expect("valid");
    let sets = SelectorSets::new(&inventory).expect("valid");
    let simulation = Simulation::new(inventory, SimulationOptions::default()).expect("valid");
    let pods: Vec<&SimulatedPod> = simulation.pods().iter().collect();
    sets.compare(&pods)
}

#[test]
fn conflicts_are_listed_by_set_and_not_by_pair_of_owners() {
    for n_budgets in [40, 400] {
        let comparison = compared(n_budgets, 4);
        let n_owners = n_budgets / 4;
        assert_eq!(comparison.sets.len(), 4);
        assert!(comparison.sets.iter().all(|set| set.owners.len() == n_owners));
        // Four sets of their own, and six pairs of them.
        assert_eq!((comparison.conflicts.len(), comparison.summary.n_conflicts), (10, 10));
        let first = &comparison.conflicts[0];
        assert_eq!((first.role, first.n_pods), (SelectorRole::DisruptionBudget, 1));
        assert_eq!(
            (first.first.object.as_str(), first.second.object.as_str()),
            ("PodDisruptionBudget b00000", "PodDisruptionBudget b00004")
        );
        assert_eq!(first.n_pairs, n_owners * (n_owners - 1) / 2);
        let n_pairs: usize = comparison.conflicts.iter().map(|conflict| conflict.n_pairs).sum();
        assert_eq!(n_pairs, n_budgets * (n_budgets - 1) / 2, "every pair of budgets is counted");
        assert_eq!(comparison.summary.n_pods_of_two_budgets, 3);
    }
}

#[test]
fn too_many_different_sets_are_compared_in_part() {
    let comparison = compared(2000, 2000);
    let summary = &comparison.summary;
    assert_eq!(summary.n_sets, 2000);
    assert!((1..2000).contains(&summary.n_not_compared), "{summary:?}");
    let n_compared = summary.n_sets - summary.n_not_compared;
    assert_eq!(comparison.relations.len(), n_compared * (n_compared - 1) / 2);
    assert_eq!((summary.n_overlapping, summary.n_disjoint), (comparison.relations.len(), 0));
    assert!(comparison.conflicts.len() < summary.n_conflicts);
    assert_eq!(comparison.conflicts.len(), 10_000);
}
