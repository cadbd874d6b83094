//! The plugins, one file for each rule.
//!
//! A plugin is prepared once per decision, and then filters ([`Filter`]) or scores ([`Scorer`]) single nodes. The
//! plugins have the names and the arithmetic of kube-scheduler's, integer truncations included.

use berth_api::config::Plugin;

use smallvec::SmallVec;

use crate::context::{Context, NodeRef};
use crate::state::State;
use crate::state::node::{NodeId, NodeRecord};
use crate::state::rule_set::RuleSet;
use crate::state::topology::TopologyId;
use crate::verdict::{Rejection, Verdict};

mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_resources;
mod node_unschedulable;
mod node_volume_limits;
pub(crate) mod pod_topology_spread;
mod taint_toleration;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;

pub(crate) use inter_pod_affinity::{
    REASON_AFFINITY, REASON_ANTI_AFFINITY, exceeds_limit, rejects, requires,
};
pub(crate) use node_affinity::required_verdict as node_affinity_verdict;
pub(crate) use node_resources::{Shortage, is_extended_resource, shortages};
pub(crate) use pod_topology_spread::HOSTNAME;
pub(crate) use taint_toleration::tolerates;

/// The best score of a node by one plugin, before its weight.
pub(crate) const MAX_NODE_SCORE: i64 = 100;

/// A rule that rejects nodes.
pub(crate) trait Filter {
    /// The rejection of the node, in kube-scheduler's words; none if the node is admitted.
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection>;

    /// Whether the node is admitted: [`Filter::check`] without the words.
    fn admits(&self, node: NodeRef<'_>) -> bool {
        self.check(node).is_none()
    }

    /// The topologies with several nodes per domain in which the rule counts pods.
    fn shared_topologies(&self) -> SmallVec<[TopologyId; 2]> {
        SmallVec::new()
    }

    /// Appends what the rule reads of counts that change without a change of the node: where these values stay equal,
    /// equal nodes get equal results, also if they lose or gain up to `max_pods` pods. They are equal for all nodes
    /// with the same domains in the shared topologies.
    fn inputs(&self, _node: NodeId, _max_pods: i64, _inputs: &mut Vec<i64>) {}

    /// Every single term of the rule, whether or not it rejects a node.
    fn terms(&self) -> Vec<TermInfo>;

    /// Every single reason against the node, in detail.
    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict>;
}

/// One requirement of a rule: its path in the pod and a short text.
pub(crate) struct TermInfo {
    pub(crate) term: String,
    pub(crate) detail: String,
}

/// A rule that scores nodes.
pub(crate) trait Scorer {
    /// The raw score.
    fn score(&self, node: NodeRef<'_>) -> i64;

    /// Turns raw scores of the feasible nodes into 0 to [`MAX_NODE_SCORE`].
    fn normalize(&self, _nodes: &[NodeId], _scores: &mut [i64]) {}

    /// The parts of the raw score: a text and a value each.
    fn parts(&self, node: NodeRef<'_>) -> Vec<(String, i64)>;
}

/// A scorer with its place in the profile.
pub(crate) struct Weighted<'a> {
    pub(crate) plugin: Plugin,
    pub(crate) weight: i64,
    pub(crate) scorer: Box<dyn Scorer + 'a>,
}

/// The result of the plugins that run before the nodes are filtered.
pub(crate) enum PreFilter {
    /// All nodes are filtered.
    AllNodes,
    /// Only the nodes with these names are filtered: the plugin has excluded the others.
    Nodes(Plugin, Vec<String>),
    /// The pod is rejected on every node.
    Rejected(Rejection),
}

/// Runs `preFilter`.
pub(crate) fn pre_filter(context: Context<'_>) -> PreFilter {
    let mut result = PreFilter::AllNodes;
    for plugin in &context.profile.profile.pre_filter {
        let outcome = match plugin {
            Plugin::NodeAffinity => node_affinity::pre_filter(context),
            Plugin::InterPodAffinity => inter_pod_affinity::pre_filter(context),
            Plugin::VolumeRestrictions => volume_restrictions::pre_filter(context),
            Plugin::VolumeBinding => volume_binding::pre_filter(context),
            Plugin::VolumeZone => volume_zone::pre_filter(context),
            _ => PreFilter::AllNodes,
        };
        match outcome {
            PreFilter::AllNodes => {}
            PreFilter::Rejected(_) => return outcome,
            PreFilter::Nodes(..) => result = outcome,
        }
    }
    result
}

/// The filters of a profile, in its order.
pub(crate) type Filters<'a> = Vec<(Plugin, Box<dyn Filter + 'a>)>;

/// Prepares the filters of the pod's profile, in order. Rules that cannot reject are left out.
pub(crate) fn filters(context: Context<'_>) -> Filters<'_> {
    let plugins = context.profile.profile.filter.iter();
    plugins.filter_map(|plugin| Some((*plugin, filter(*plugin, context)?))).collect()
}

/// Prepares one filter; none if it cannot reject.
pub(crate) fn filter<'a>(plugin: Plugin, context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
    match plugin {
        Plugin::NodeUnschedulable => node_unschedulable::filter(context),
        Plugin::NodeName => node_name::filter(context),
        Plugin::TaintToleration => taint_toleration::filter(context),
        Plugin::NodeAffinity => node_affinity::filter(context),
        Plugin::NodePorts => node_ports::filter(context),
        Plugin::NodeResourcesFit => node_resources::filter(context),
        Plugin::VolumeRestrictions => volume_restrictions::filter(context),
        Plugin::NodeVolumeLimits => node_volume_limits::filter(context),
        Plugin::VolumeBinding => volume_binding::filter(context),
        Plugin::VolumeZone => volume_zone::filter(context),
        Plugin::PodTopologySpread => pod_topology_spread::filter(context),
        Plugin::InterPodAffinity => inter_pod_affinity::filter(context),
        Plugin::NodeDeclaredFeatures => node_declared_features::filter(context),
        Plugin::SchedulingGates
        | Plugin::PrioritySort
        | Plugin::NodeResourcesBalancedAllocation
        | Plugin::ImageLocality => None,
    }
}

/// Prepares the scorers of the pod's profile, in order, with their weights. Plugins that do not concern this pod are
/// left out, as kube-scheduler skips them.
///
/// # Errors
/// A rule cannot score this pod; the text is kube-scheduler's.
pub(crate) fn scorers<'a>(context: Context<'a>, feasible: &[NodeId]) -> Result<Vec<Weighted<'a>>, String> {
    if let Some(error) = &context.rule_set.rules().preferred_node_affinity_error
        && context.profile.profile.score.iter().any(|(p, _)| *p == Plugin::NodeAffinity)
    {
        return Err(format!("running PreScore plugin \"{}\": {error}", Plugin::NodeAffinity.name()));
    }
    let mut scorers = Vec::new();
    for (plugin, weight) in &context.profile.profile.score {
        let scorer = match plugin {
            Plugin::PodTopologySpread => pod_topology_spread::scorer(context, feasible),
            Plugin::InterPodAffinity => inter_pod_affinity::scorer(context),
            _ => local_scorer(*plugin, context),
        };
        scorers.extend(scorer.map(|scorer| Weighted { plugin: *plugin, weight: *weight, scorer }));
    }
    Ok(scorers)
}

/// Prepares a scorer that reads only the node itself; none if it does not concern this pod.
pub(crate) fn local_scorer<'a>(plugin: Plugin, context: Context<'a>) -> Option<Box<dyn Scorer + 'a>> {
    match plugin {
        Plugin::TaintToleration => taint_toleration::scorer(context),
        Plugin::NodeAffinity => node_affinity::scorer(context),
        Plugin::NodeResourcesFit => node_resources::fit_scorer(context),
        Plugin::NodeResourcesBalancedAllocation => node_resources::balanced_allocation_scorer(context),
        Plugin::ImageLocality => image_locality::scorer(context),
        _ => None,
    }
}

/// kube-scheduler's usual normalization: the largest score becomes [`MAX_NODE_SCORE`].
pub(crate) fn default_normalize(scores: &mut [i64], reverse: bool) {
    let max = scores.iter().copied().max().unwrap_or(0);
    for score in scores {
        if max != 0 {
            *score = MAX_NODE_SCORE * *score / max;
        }
        if reverse {
            *score = MAX_NODE_SCORE - *score;
        }
    }
}

impl RuleSet {
    /// Node selector and required node affinity together.
    pub(crate) fn satisfies_required_node_affinity(&self, state: &State, node: &NodeRecord) -> bool {
        self.node_selector.iter().all(|(k, v)| node.labels.get(*k) == Some(*v))
            && self.required_node_affinity.iter().all(|s| s.matches(&state.symbols, node))
    }
}
