//! Topology spread constraints.

use super::{Requirement, Selector};
use berth_api::object::{Pod, TopologySpreadConstraint};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// Field path in the pod or in the configuration.
    pub path: String,
    /// Largest allowed difference between the matching pods of a domain and the minimum over all domains.
    pub max_skew: i64,
    /// Node label key whose values are the domains.
    pub topology_key: String,
    /// Whether the constraint filters or scores nodes.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// The pods to count, in the pod's own namespace.
    pub selector: Selector,
    /// With fewer domains than this, the minimum is 0.
    pub min_domains: i64,
    /// Whether only nodes that satisfy the pod's node selector and affinity count.
    pub honor_node_affinity: bool,
    /// Whether nodes with untolerated taints are excluded.
    pub honor_node_taints: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenUnsatisfiable {
    /// Filters.
    DoNotSchedule,
    /// Scores.
    ScheduleAnyway,
}

impl SpreadConstraint {
    /// Parses one constraint; `selector` is already narrowed by `matchLabelKeys`.
    pub fn parse(constraint: &TopologySpreadConstraint, selector: Selector, path: String) -> Self {
        SpreadConstraint {
            path,
            max_skew: i64::from(constraint.max_skew),
            topology_key: constraint.topology_key.clone(),
            when_unsatisfiable: match constraint.when_unsatisfiable.as_str() {
                "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
                _ => WhenUnsatisfiable::DoNotSchedule,
            },
            selector,
            min_domains: i64::from(constraint.min_domains.unwrap_or(1)),
            honor_node_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            honor_node_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
        }
    }
}

/// The pod's own constraints. An invalid selector selects nothing.
pub(super) fn parse(pod: &Pod) -> Vec<SpreadConstraint> {
    let constraints = pod.spec.topology_spread_constraints.iter().enumerate();
    let parse = |(i, constraint): (usize, &TopologySpreadConstraint)| {
        let mut selector = Selector::parse(constraint.label_selector.as_ref()).unwrap_or(Selector::Nothing);
        if let Selector::All(requirements) = selector {
            // The API server merges the keys into the selector; this repeats it for pods from manifests.
            let labels = &pod.metadata.labels;
            let keys = constraint.match_label_keys.iter().filter_map(|k| labels.get_key_value(k));
            let merged = keys.map(|(k, v)| Requirement::In(k.clone(), vec![v.clone()]));
            selector = Selector::new(requirements.into_iter().chain(merged).collect());
        }
        SpreadConstraint::parse(constraint, selector, format!("spec.topologySpreadConstraints[{i}]"))
    };
    constraints.map(parse).collect()
}
