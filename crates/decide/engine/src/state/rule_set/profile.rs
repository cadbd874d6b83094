//! Scheduling profiles, with their added affinity compiled.

use berth_api::object::{TOPOLOGY_LABELS, TopologySpreadConstraint};
use berth_api::syntax::labels::HOSTNAME;
use berth_input::config::{Profile, SpreadDefaulting};
use berth_rules::{Dialect, NodeSelectorRule, PreferredNodeTerm};

use crate::state::interned::intern::Symbols;
use crate::state::node::condition::{NodeMatcher, NodeSelectorMatcher};

/// A profile as the rules use it.
#[derive(Clone)]
pub(crate) struct ProfileState {
    pub(crate) profile: Profile,
    pub(crate) added_required: Option<(NodeSelectorRule, NodeSelectorMatcher)>,
    /// The terms and their weights.
    pub(crate) added_preferred: Vec<(PreferredNodeTerm, NodeMatcher)>,
    pub(crate) has_added_preferred: bool,
    /// Spread constraints of pods without their own; they have no selector.
    pub(crate) default_constraints: Vec<TopologySpreadConstraint>,
    /// Whether these are kube-scheduler's own, which nodes without a zone may ignore.
    pub(crate) system_defaulted: bool,
}

impl ProfileState {
    pub(crate) fn new(symbols: &mut Symbols, profile: Profile) -> ProfileState {
        let path = "KubeSchedulerConfiguration NodeAffinityArgs.addedAffinity";
        let added = profile.node_affinity.added_affinity.clone().unwrap_or_default();
        let required = added.required_during_scheduling_ignored_during_execution.as_ref();
        let added_required = required.map(|selector| {
            let rule = NodeSelectorRule::parse(selector, path.to_owned(), Dialect::V1, false);
            let matcher = NodeSelectorMatcher::compile(symbols, &rule.terms);
            (rule, matcher)
        });
        // The configuration was validated when it was read: its terms parse.
        let preferred = PreferredNodeTerm::parse_all(&added, path, Dialect::V1).unwrap_or_default();
        let compile = |t: PreferredNodeTerm| {
            let matcher = NodeMatcher::all(symbols, &t.requirements);
            (t, matcher)
        };
        let (default_constraints, system_defaulted) = match &profile.pod_topology_spread.defaulting {
            SpreadDefaulting::System => (system_constraints(), true),
            SpreadDefaulting::List(constraints) => (constraints.clone(), false),
        };
        ProfileState {
            added_required,
            added_preferred: preferred.into_iter().map(compile).collect(),
            has_added_preferred: !added.preferred_during_scheduling_ignored_during_execution.is_empty(),
            default_constraints,
            system_defaulted,
            profile,
        }
    }
}

/// kube-scheduler's default constraints.
fn system_constraints() -> Vec<TopologySpreadConstraint> {
    let constraint = |topology_key: &str, max_skew| TopologySpreadConstraint {
        max_skew,
        topology_key: topology_key.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        ..TopologySpreadConstraint::default()
    };
    let [_, zone] = TOPOLOGY_LABELS;
    vec![constraint(HOSTNAME, 3), constraint(zone, 5)]
}
