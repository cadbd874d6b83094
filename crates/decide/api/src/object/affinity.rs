//! `Affinity`: the fields of the v1 API and of the design proposals in one type. the crate `rules` decides the meaning of
//! a field.

use berth_api_macros::object_type;
use serde::{Deserialize, Deserializer};

use super::{Empty, LabelSelector, SelectorRequirement};

/// `spec.affinity`, or the content of the annotation `scheduling.berth.dev/affinity`.
#[object_type(Eq, Hash)]
pub struct Affinity {
    pub node_affinity: Option<NodeAffinity>,
    pub pod_affinity: Option<PodAffinity>,
    pub pod_anti_affinity: Option<PodAffinity>,
}

impl Empty for Affinity {
    fn empty() -> &'static Self {
        &Affinity { node_affinity: None, pod_affinity: None, pod_anti_affinity: None }
    }
}

#[object_type(Eq, Hash)]
pub struct NodeAffinity {
    /// Proposal only: required when scheduling, and enforced by eviction afterwards.
    pub required_during_scheduling_required_during_execution: Option<NodeSelector>,
    pub required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
    #[serde(deserialize_with = "null_items", skip_serializing_if = "Vec::is_empty")]
    pub preferred_during_scheduling_ignored_during_execution: Vec<PreferredSchedulingTerm>,
}

/// Node selector terms, ORed.
#[object_type(Eq, Hash)]
pub struct NodeSelector {
    #[serde(with = "null_terms")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
    /// Annotation only: after how long a required selector becomes a preference, such as `5m`.
    pub relax_after: Option<String>,
}

/// One node selector term: its expressions and fields are ANDed.
#[object_type(Eq, Hash)]
pub struct NodeSelectorTerm {
    pub match_expressions: Vec<SelectorRequirement>,
    /// Requirements on node fields: on `metadata.name` only in v1, on `rules::NODE_FIELDS` in the
    /// proposals.
    pub match_fields: Vec<SelectorRequirement>,
    /// Proposals only: requirements on node annotations.
    pub match_annotations: Vec<SelectorRequirement>,
    /// Whether the term is null, which in the proposals matches no node; in v1 it is the same as an empty one.
    #[serde(skip)]
    pub is_null: bool,
}

/// Terms with null among them.
mod null_terms {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::NodeSelectorTerm;

    pub(super) fn serialize<S: Serializer>(
        terms: &[NodeSelectorTerm],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(terms.iter().map(|term| (!term.is_null).then_some(term)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<NodeSelectorTerm>, D::Error> {
        let terms = Option::<Vec<Option<NodeSelectorTerm>>>::deserialize(deserializer)?.unwrap_or_default();
        let null = || NodeSelectorTerm { is_null: true, ..NodeSelectorTerm::default() };
        Ok(terms.into_iter().map(|term| term.unwrap_or_else(null)).collect())
    }
}

/// A list in which null is an element without fields, as for the API server.
fn null_items<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    let items = Option::<Vec<Option<T>>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(items.into_iter().map(Option::unwrap_or_default).collect())
}

/// A preferred node selector term.
///
/// v1 writes the term under `preference`; the proposal writes `matchExpressions` beside the weight.
#[object_type(Eq, Hash)]
pub struct PreferredSchedulingTerm {
    /// 1 to 100.
    pub weight: i32,
    /// The term, in the v1 API.
    pub preference: Option<NodeSelectorTerm>,
    /// The term, in the proposals (annotation only).
    pub match_expressions: Vec<SelectorRequirement>,
}

#[object_type(Eq, Hash)]
pub struct PodAffinity {
    /// Proposal only: required when scheduling, and enforced by eviction afterwards.
    #[serde(deserialize_with = "null_items", skip_serializing_if = "Vec::is_empty")]
    pub required_during_scheduling_required_during_execution: Vec<PodAffinityTerm>,
    #[serde(deserialize_with = "null_items", skip_serializing_if = "Vec::is_empty")]
    pub required_during_scheduling_ignored_during_execution: Vec<PodAffinityTerm>,
    #[serde(deserialize_with = "null_items", skip_serializing_if = "Vec::is_empty")]
    pub preferred_during_scheduling_ignored_during_execution: Vec<WeightedPodAffinityTerm>,
}

/// A preferred pod affinity term.
#[object_type(Eq, Hash)]
pub struct WeightedPodAffinityTerm {
    /// 1 to 100.
    pub weight: i32,
    pub pod_affinity_term: PodAffinityTerm,
}

/// A pod affinity term: the pods by label selector and namespaces, and the topology key.
#[object_type(Eq, Hash)]
pub struct PodAffinityTerm {
    /// Null matches no pods; empty matches all.
    pub label_selector: Option<LabelSelector>,
    /// Namespaces by name. Absent and empty differ in the proposals' dialect.
    pub namespaces: Option<Vec<String>>,
    /// Node label key; empty means "all topologies" in the proposal's dialect.
    pub topology_key: String,
    /// Namespaces by label; adds to `namespaces`.
    pub namespace_selector: Option<LabelSelector>,
    /// Pod label keys whose values are merged into `labelSelector` with `In`.
    pub match_label_keys: Vec<String>,
    /// Pod label keys whose values are merged into `labelSelector` with `NotIn`.
    pub mismatch_label_keys: Vec<String>,
    /// Proposals' required anti-affinity only: how many other matching pods may share the domain. Absent means 0.
    pub limit: Option<i32>,
    /// Annotation only: after how long a required term becomes a preference, such as `5m`.
    pub relax_after: Option<String>,
}
