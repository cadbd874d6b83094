//! Sets of nodes that node selectors, node affinity, taints and the added affinity of profiles describe, and how they overlap.
//!
//! Unlike sets of pods, sets of nodes are compared by the nodes of the input: rules that match the same nodes describe one set.

mod collect;
mod compare;
mod distinct;
mod index;
mod rules;
mod tolerated;
mod users;

use std::collections::BTreeMap;

use berth_rules::SetRelation;
use serde::Serialize;

use super::PodGroup;

pub use collect::NodeSets;

/// What a rule about nodes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeRuleRole {
    /// `nodeSelector` and required node affinity of pods, together.
    NodeSelector,
    Taint,
    /// The required `addedAffinity` of a profile.
    AddedAffinity,
}

/// A rule that matches a set of nodes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRule {
    pub role: NodeRuleRole,
    /// The rule as text, such as `pool=gpu` or `gpu=true:NoSchedule`.
    pub rule: String,
    /// Of an added affinity: the `schedulerName` of the profiles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    /// The workloads whose pods have the node selector, tolerate the taint, or have such a profile; of those that tolerate a taint,
    /// the first few, DaemonSets last.
    pub workloads: Vec<PodGroup>,
    pub n_workloads: usize,
    pub n_pods: usize,
}

/// How the sets of nodes of an input overlap. Its JSON schema is stable: docs/sets.md.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSetComparison {
    /// The sets, each with all rules that match exactly its nodes; the largest first.
    pub sets: Vec<NodeSet>,
    /// Rules that match no node.
    pub empty: Vec<NodeRule>,
    /// The pairs of sets that are not disjoint.
    pub relations: Vec<NodeRelation>,
    /// The nodes by the sets that they are in, most nodes first.
    pub intersections: Vec<NodeIntersection>,
    /// The nodes that no node selector matches, DaemonSets apart.
    pub unselected: Vec<NodeGroup>,
    /// The nodes that no pod can use, DaemonSets apart: node selectors, taints and added affinity exclude all.
    pub unusable: Vec<NodeGroup>,
    pub summary: NodeSetSummary,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSet {
    /// Its number, from 1.
    pub id: usize,
    /// The number of its nodes, at least one.
    pub n_nodes: usize,
    /// The rules that match these nodes and no others, at least one.
    pub rules: Vec<NodeRule>,
}

/// Two sets that have nodes in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRelation {
    pub set: usize,
    /// How it relates to the other: it contains it, or overlaps with it.
    pub relation: SetRelation,
    /// Number of the other set, a larger one.
    pub other: usize,
    /// Nodes in both.
    pub n_nodes: usize,
}

/// The nodes that are in the same sets.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeIntersection {
    /// Numbers of the sets, ascending; none for nodes that are in no set.
    pub sets: Vec<usize>,
    /// Whether a node selector of a pod matches the nodes, DaemonSets apart.
    pub is_selected: bool,
    /// Whether a pod can use the nodes, DaemonSets apart.
    pub is_usable: bool,
    pub n_nodes: usize,
    pub nodes: Vec<String>,
}

/// Nodes with the same taints, and the same values of the labels that rules mention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroup {
    /// The labels that a rule mentions.
    pub labels: BTreeMap<String, String>,
    /// The taints as text.
    pub taints: Vec<String>,
    pub n_nodes: usize,
    pub nodes: Vec<String>,
}

/// Counts of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSetSummary {
    pub n_nodes: usize,
    /// Different node selectors.
    pub n_node_selectors: usize,
    /// Different taints.
    pub n_taints: usize,
    /// Different added affinities.
    pub n_added_affinities: usize,
    /// Sets: rules that match the same nodes count once.
    pub n_sets: usize,
    /// Pairs of sets of which one contains the other.
    pub n_contained: usize,
    /// Pairs of sets that have nodes in common, and each has others.
    pub n_overlapping: usize,
    /// Pairs of sets without a node in common.
    pub n_disjoint: usize,
    /// Sets whose relations to the others are not known: comparing more sets with each other would be too much work.
    #[serde(skip_serializing_if = "super::is_zero")]
    pub n_not_compared: usize,
    /// Rules that are left out: to find their nodes, or the pods that tolerate a taint, would be too much work.
    #[serde(skip_serializing_if = "super::is_zero")]
    pub n_rules_not_evaluated: usize,
    /// Rules that match no node.
    pub n_empty: usize,
    /// Taints that prevent scheduling and that no pod tolerates, DaemonSets apart.
    pub n_taints_not_tolerated: usize,
    /// Nodes that no node selector matches, DaemonSets apart.
    pub n_unselected: usize,
    /// Nodes that no pod can use, DaemonSets apart.
    pub n_unusable: usize,
    /// Pods, without those of DaemonSets.
    pub n_pods: usize,
    /// Those of them without node selector and required node affinity.
    pub n_pods_without_node_selector: usize,
}
