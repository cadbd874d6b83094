//! The objects `PlacementPolicy` and `ClusterPlacementPolicy`.

use berth_api_macros::object_type;
use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use berth_api::object::pod_limits::{affinity_entries, constraint_entries, selector_entries};
use berth_api::object::{
    Affinity, LabelSelector, ObjectMeta, Shared, StringMap, Toleration, TopologySpreadConstraint,
};
use berth_api::resource::{CLUSTER_PLACEMENT_POLICIES, PLACEMENT_POLICIES, Resource};
use berth_rules::Selector;

/// The annotation with the names of the policies whose rules a pod got.
pub const APPLIED_ANNOTATION: &str = "scheduling.berth.dev/placement-policies";

/// How the rules of a policy meet the rules of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Each rule is added, unless the pod has another rule about the same thing.
    #[default]
    Add,
    /// The rules of one sort are added to pods that have no rule of this sort.
    Default,
}

#[object_type]
pub struct PlacementPolicySpec {
    /// Policies with a higher priority are applied first.
    pub priority: i32,
    /// Nothing is changed; warnings say what would be.
    pub dry_run: bool,
    /// How the rules meet those of the pod.
    pub mode: Mode,
    /// Whether the policy's rules replace those of the pod that are in their way.
    #[serde(rename = "override")]
    pub overrides: bool,
    /// The namespaces of the pods, by label; absent: all. For cluster-scoped policies only.
    pub namespace_selector: Option<LabelSelector>,
    /// The pods, by label; absent: all.
    pub pod_selector: Option<LabelSelector>,
    /// Rules for `spec.affinity` of the pods.
    pub affinity: Option<Shared<Affinity>>,
    /// Rules for the annotation `scheduling.berth.dev/affinity` of the pods.
    pub extended_affinity: Option<Shared<Affinity>>,
    pub topology_spread_constraints: Shared<Vec<TopologySpreadConstraint>>,
    pub tolerations: Shared<Vec<Toleration>>,
}

/// A `PlacementPolicy` for the pods of its namespace, or a `ClusterPlacementPolicy`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacementPolicy {
    /// Metadata; without a namespace for a `ClusterPlacementPolicy`.
    pub metadata: ObjectMeta,
    pub spec: PlacementPolicySpec,
}

impl PlacementPolicy {
    pub fn is_cluster_scoped(&self) -> bool {
        self.metadata.namespace.is_empty()
    }

    pub fn resource(&self) -> Resource {
        if self.is_cluster_scoped() { CLUSTER_PLACEMENT_POLICIES } else { PLACEMENT_POLICIES }
    }

    /// The name in lists of policies: `NAMESPACE/NAME`, or `NAME` for a cluster-scoped policy.
    pub fn key(&self) -> String {
        self.metadata.namespaced_name().to_string()
    }

    pub fn selects(&self, pod: &ObjectMeta, namespace_labels: &StringMap) -> bool {
        let of_namespace = |key: &str| match key {
            "kubernetes.io/metadata.name" => Some(pod.namespace.as_str()),
            _ => namespace_labels.get(key).map(String::as_str),
        };
        let parsed = |selector: &Option<LabelSelector>| match selector {
            None => Selector::EVERYTHING,
            // Validation refuses invalid selectors.
            Some(selector) => Selector::parse(Some(selector)).unwrap_or(Selector::Nothing),
        };
        (self.is_cluster_scoped() || self.metadata.namespace == pod.namespace)
            && parsed(&self.spec.namespace_selector).matches(of_namespace)
            && parsed(&self.spec.pod_selector).matches(|key| pod.label(key))
    }

    /// The entries of its rules and of its selector of pods, counted as [`PodLimits`](berth_api::object::PodLimits) counts them.
    pub(super) fn n_entries(&self) -> usize {
        let PlacementPolicySpec { affinity, extended_affinity, pod_selector, .. } = &self.spec;
        let affinities = affinity.iter().chain(extended_affinity).map(|affinity| affinity_entries(affinity));
        affinities.sum::<usize>()
            + self.spec.tolerations.len()
            + constraint_entries(&self.spec.topology_spread_constraints)
            + selector_entries(pod_selector.as_ref())
    }

    /// Policies are applied by priority, cluster-scoped ones first, then by name.
    pub(super) fn order(&self) -> impl Ord + '_ {
        let ObjectMeta { namespace, name, .. } = &self.metadata;
        (Reverse(self.spec.priority), namespace, name)
    }
}

impl std::fmt::Display for PlacementPolicy {
    /// `PlacementPolicy team-a/spread`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.resource().kind, self.key())
    }
}
