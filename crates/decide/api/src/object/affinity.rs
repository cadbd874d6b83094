//! `Affinity`: the fields of the v1 API and of the design proposals in one type. the crate `rules` decides the meaning of
//! a field.

use serde::{Deserialize, Deserializer, Serialize};

use super::{Empty, LabelSelector, SelectorRequirement, nullable};

/// `spec.affinity`, or the content of the annotation `scheduling.berth.dev/affinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<NodeAffinity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_affinity: Option<PodAffinity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_anti_affinity: Option<PodAffinity>,
}

impl Empty for Affinity {
    fn empty() -> &'static Self {
        &Affinity { node_affinity: None, pod_affinity: None, pod_anti_affinity: None }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAffinity {
    /// Proposal only: required when scheduling, and enforced by eviction afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_during_scheduling_required_during_execution: Option<NodeSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
    #[serde(deserialize_with = "null_items", skip_serializing_if = "Vec::is_empty")]
    pub preferred_during_scheduling_ignored_during_execution: Vec<PreferredSchedulingTerm>,
}

/// Node selector terms, ORed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    #[serde(with = "null_terms")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
    /// Annotation only: after how long a required selector becomes a preference, such as `5m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relax_after: Option<String>,
}

/// One node selector term: its expressions and fields are ANDed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<SelectorRequirement>,
    /// Requirements on node fields: on `metadata.name` only in v1, on `rules::NODE_FIELDS` in the
    /// proposals.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub match_fields: Vec<SelectorRequirement>,
    /// Proposals only: requirements on node annotations.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreferredSchedulingTerm {
    /// 1 to 100.
    #[serde(deserialize_with = "nullable")]
    pub weight: i32,
    /// The term, in the v1 API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preference: Option<NodeSelectorTerm>,
    /// The term, in the proposals (annotation only).
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<SelectorRequirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightedPodAffinityTerm {
    /// 1 to 100.
    #[serde(deserialize_with = "nullable")]
    pub weight: i32,
    #[serde(deserialize_with = "nullable")]
    pub pod_affinity_term: PodAffinityTerm,
}

/// A pod affinity term: the pods by label selector and namespaces, and the topology key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinityTerm {
    /// Null matches no pods; empty matches all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Namespaces by name. Absent and empty differ in the proposals' dialect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// Node label key; empty means "all topologies" in the proposal's dialect.
    #[serde(deserialize_with = "nullable")]
    pub topology_key: String,
    /// Namespaces by label; adds to `namespaces`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Pod label keys whose values are merged into `labelSelector` with `In`.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub match_label_keys: Vec<String>,
    /// Pod label keys whose values are merged into `labelSelector` with `NotIn`.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub mismatch_label_keys: Vec<String>,
    /// Proposals' required anti-affinity only: how many other matching pods may share the domain. Absent means 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i32>,
    /// Annotation only: after how long a required term becomes a preference, such as `5m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relax_after: Option<String>,
}
