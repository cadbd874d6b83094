//! The rules that read nothing but a node itself.

use std::hash::{Hash, Hasher};

use berth_api::config::Plugin;
use rustc_hash::FxHasher;
use smallvec::SmallVec;

use super::cells::Features;
use crate::context::{Context, NodeRef};
use crate::plugins::{self, Filter, Scorer};
use crate::state::State;
use crate::state::node::{NodeId, NodeRecord};

/// Filters and scorers that read a node alone.
pub(super) struct LocalRules<'a> {
    state: &'a State,
    /// `NodeAffinity` and the volume plugins read labels, names and volumes, which differ between nodes that are
    /// otherwise equal.
    own_filters: SmallVec<[Box<dyn Filter + 'a>; 1]>,
    node_affinity: Option<Box<dyn Scorer + 'a>>,
    /// The other filters.
    filters: SmallVec<[Box<dyn Filter + 'a>; 6]>,
    taints: Option<Box<dyn Scorer + 'a>>,
    /// Scorers whose scores are not normalized, with their weights.
    others: SmallVec<[(i64, Box<dyn Scorer + 'a>); 3]>,
    /// Results of nodes, by the hash of what the rules other than `NodeAffinity` read.
    results: Vec<Option<(NodeId, Result)>>,
}

/// The raw score of `TaintToleration` and the sum of the scores that are not normalized; `None` if a filter rejects.
type Result = Option<(i64, i64)>;

/// Results that are kept while all nodes are checked.
const N_RESULTS: usize = 1 << 10;

impl<'a> LocalRules<'a> {
    /// With `all_nodes`, results are kept for equal nodes: most of a cluster's nodes are alike.
    pub(super) fn new(context: Context<'a>, all_nodes: bool) -> LocalRules<'a> {
        let mut rules = LocalRules {
            state: context.state,
            own_filters: SmallVec::new(),
            node_affinity: None,
            filters: SmallVec::new(),
            taints: None,
            others: SmallVec::new(),
            results: if all_nodes { vec![None; N_RESULTS] } else { Vec::new() },
        };
        for plugin in &context.profile.profile.filter {
            match plugin {
                Plugin::InterPodAffinity | Plugin::PodTopologySpread => {}
                Plugin::NodeAffinity
                | Plugin::VolumeRestrictions
                | Plugin::NodeVolumeLimits
                | Plugin::VolumeBinding
                | Plugin::VolumeZone => rules.own_filters.extend(plugins::filter(*plugin, context)),
                _ => rules.filters.extend(plugins::filter(*plugin, context)),
            }
        }
        for (plugin, weight) in &context.profile.profile.score {
            match plugin {
                Plugin::InterPodAffinity | Plugin::PodTopologySpread => {}
                Plugin::NodeAffinity => rules.node_affinity = plugins::local_scorer(*plugin, context),
                Plugin::TaintToleration => rules.taints = plugins::local_scorer(*plugin, context),
                _ => rules.others.extend(plugins::local_scorer(*plugin, context).map(|s| (*weight, s))),
            }
        }
        rules
    }

    /// Sets the features of a node that are scores, and returns the sum of the scores that are not normalized;
    /// `None` if a filter rejects the node.
    pub(super) fn score(&mut self, node: NodeRef<'_>, features: &mut Features) -> Option<i64> {
        if !self.own_filters.iter().all(|f| f.admits(node)) {
            return None;
        }
        features.node_affinity = self.node_affinity.as_ref().map_or(0, |s| s.score(node));
        let (taints, sum) = self.without_node_affinity(node)?;
        features.taints = taints;
        Some(sum)
    }

    fn without_node_affinity(&mut self, node: NodeRef<'_>) -> Result {
        let slot = (!self.results.is_empty()).then(|| hash(node.record) as usize % N_RESULTS);
        if let Some(slot) = slot
            && let Some((id, result)) = self.results[slot]
            && is_like(self.state.nodes.get(id), node.record)
        {
            return result;
        }
        let result = self.filters.iter().all(|f| f.admits(node)).then(|| {
            let taints = self.taints.as_ref().map_or(0, |s| s.score(node));
            (taints, self.others.iter().map(|(weight, s)| weight * s.score(node)).sum())
        });
        if let Some(slot) = slot {
            self.results[slot] = Some((node.id, result));
        }
        result
    }
}

fn hash(node: &NodeRecord) -> u64 {
    let mut hasher = FxHasher::default();
    (node.allocatable_id, node.requested.milli_cpu, node.requested.memory).hash(&mut hasher);
    (node.pods.len(), node.taints.first().map(|taint| taint.key)).hash(&mut hasher);
    hasher.finish()
}

/// Whether two nodes differ in nothing that rules other than `NodeAffinity` read.
fn is_like(a: &NodeRecord, b: &NodeRecord) -> bool {
    let NodeRecord {
        name: _,
        labels: _,
        attributes_epoch: _,
        unschedulable,
        declared_features,
        taints,
        allocatable: _,
        allocatable_id,
        images,
        requested,
        non_zero_milli_cpu,
        non_zero_memory,
        ports,
        pods,
    } = a;
    (*unschedulable, *allocatable_id, pods.len()) == (b.unschedulable, b.allocatable_id, b.pods.len())
        && *declared_features == b.declared_features
        && (*non_zero_milli_cpu, *non_zero_memory) == (b.non_zero_milli_cpu, b.non_zero_memory)
        && *requested == b.requested
        && (taints, images, ports) == (&b.taints, &b.images, &b.ports)
}
