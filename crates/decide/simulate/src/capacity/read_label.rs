//! The node labels that decide where a pod may go beside other pods.

use std::collections::BTreeSet;

use berth_engine::TermSummary;
use berth_input::config::Plugin;
use berth_rules::{PodRules, TopologyScope, WhenUnsatisfiable};

/// A topology key, and the rule that reads it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadLabel {
    pub key: String,
    /// The path of the rule in the pod, or in the existing pod that it belongs to.
    pub term: String,
}

/// The topology keys that decide where the pod may go: those of its required rules, and of other rules that exclude nodes.
pub(super) fn read_labels(rules: &PodRules, terms: &[TermSummary]) -> BTreeSet<ReadLabel> {
    let label = |key: &str, term: &str| ReadLabel { key: key.to_owned(), term: term.to_owned() };
    let own = rules.required_affinity.iter().chain(&rules.required_anti_affinity);
    let own = own.filter_map(|term| match &term.topology {
        TopologyScope::Key(key) => Some(label(key, &term.path)),
        TopologyScope::All => None,
    });
    let spread = rules.spread_constraints.iter();
    let spread =
        spread.filter(|constraint| constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule);
    let spread = spread.map(|constraint| label(&constraint.topology_key, &constraint.path));
    let is_between_pods =
        |term: &&TermSummary| matches!(term.plugin, Plugin::InterPodAffinity | Plugin::PodTopologySpread);
    let others = terms
        .iter()
        .filter(is_between_pods)
        .flat_map(|term| term.domains.iter().map(|domain| label(&domain.topology.key, &term.term)));
    own.chain(spread).chain(others).collect()
}
