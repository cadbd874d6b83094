//! Placement rules that policies add to pods: `PlacementPolicy` and `ClusterPlacementPolicy`.
//!
//! A policy selects pods and has the rules in the fields of a pod's specification. [`PolicySet::apply`] adds the rules of
//! all policies that select a new pod, in a fixed order. It is a pure function of the pod, the policies and the labels of
//! namespaces; it changes only new pods, not running ones.

mod apply;
mod merge;
mod read;

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::object::{
    Affinity, LabelSelector, ObjectMeta, Pod, Shared, StringMap, Toleration, TopologySpreadConstraint,
    nullable,
};
use crate::resource::{CLUSTER_PLACEMENT_POLICIES, PLACEMENT_POLICIES, Resource};
use crate::rules::Selector;
pub use apply::{Applied, PodChange, changes};

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

/// `spec` of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementPolicySpec {
    /// Policies with a higher priority are applied first.
    #[serde(deserialize_with = "nullable")]
    pub priority: i32,
    /// Nothing is changed; warnings say what would be.
    #[serde(deserialize_with = "nullable")]
    pub dry_run: bool,
    /// How the rules meet those of the pod.
    #[serde(deserialize_with = "nullable")]
    pub mode: Mode,
    /// Whether the policy's rules replace those of the pod that are in their way.
    #[serde(rename = "override", deserialize_with = "nullable")]
    pub overrides: bool,
    /// The namespaces of the pods, by label; absent: all. For cluster-scoped policies only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// The pods, by label; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// Rules for `spec.affinity` of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Shared<Affinity>>,
    /// Rules for the annotation `scheduling.berth.dev/affinity` of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extended_affinity: Option<Affinity>,
    /// Spread constraints of the pods.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Shared<Vec<TopologySpreadConstraint>>,
    /// Tolerations of the pods.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Shared<Vec<Toleration>>,
}

/// A `PlacementPolicy` for the pods of its namespace, or a `ClusterPlacementPolicy`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacementPolicy {
    /// Metadata; without a namespace for a `ClusterPlacementPolicy`.
    pub metadata: ObjectMeta,
    /// Specification.
    pub spec: PlacementPolicySpec,
}

impl PlacementPolicy {
    /// Whether it is a `ClusterPlacementPolicy`.
    pub fn is_cluster_scoped(&self) -> bool {
        self.metadata.namespace.is_empty()
    }

    /// The resource of the object.
    pub fn resource(&self) -> Resource {
        if self.is_cluster_scoped() { CLUSTER_PLACEMENT_POLICIES } else { PLACEMENT_POLICIES }
    }

    /// The name in lists of policies: `NAMESPACE/NAME`, or `NAME` for a cluster-scoped policy.
    pub fn key(&self) -> String {
        self.metadata.namespaced_name().to_string()
    }

    /// Whether it selects a pod in a namespace with these labels.
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

    /// Policies are applied by priority, cluster-scoped ones first, then by name.
    fn order(&self) -> impl Ord + '_ {
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

/// All policies of a cluster, and the labels of its namespaces.
#[derive(Clone, Debug, Default)]
pub struct PolicySet {
    /// In the order in which they are applied.
    policies: Vec<PlacementPolicy>,
    namespaces: HashMap<String, Shared<StringMap>>,
}

impl PolicySet {
    /// The policies and, by name, the labels of namespaces.
    pub fn new(
        policies: impl IntoIterator<Item = PlacementPolicy>,
        namespaces: HashMap<String, Shared<StringMap>>,
    ) -> PolicySet {
        let mut policies: Vec<_> = policies.into_iter().collect();
        policies.sort_by(|a, b| a.order().cmp(&b.order()));
        PolicySet { policies, namespaces }
    }

    /// The policies, in the order in which they are applied.
    pub fn policies(&self) -> &[PlacementPolicy] {
        &self.policies
    }

    /// Whether a namespace is known, or no policy asks for its labels.
    pub fn knows(&self, namespace: &str) -> bool {
        self.namespaces.contains_key(namespace)
            || self.policies.iter().all(|policy| policy.spec.namespace_selector.is_none())
    }

    /// The policies that select a pod, in the order in which they are applied.
    pub fn of<'a>(&'a self, pod: &'a ObjectMeta) -> impl Iterator<Item = &'a PlacementPolicy> {
        static NO_LABELS: StringMap = StringMap::new();
        let labels = self.namespaces.get(&pod.namespace).map_or(&NO_LABELS, |labels| labels);
        self.policies.iter().filter(move |policy| policy.selects(pod, labels))
    }

    /// Adds the rules of all policies that select a new pod.
    pub fn apply(&self, pod: &mut Pod) -> Applied {
        let metadata = pod.metadata.clone();
        let policies: Vec<_> = self.of(&metadata).collect();
        apply::apply(pod, &policies)
    }
}

#[cfg(test)]
mod tests;
