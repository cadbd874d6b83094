//! The score of a placement by `NodeResourcesFit`: how much of its nodes is in use with the pods of a group.
//!
//! As kube-scheduler scores placements: by used resources, with the weights of the scoring strategy, whatever its type.

use berth_api::config::ResourceSpec;
use smallvec::SmallVec;

use super::super::rule::MAX_NODE_SCORE;
use super::scored_resource::{ScoredResource, scored_resources};
use crate::cycle::context::NodeRef;
use crate::state::State;
use crate::state::pod::prepared::PreparedPod;

/// One amount for each resource of the scoring strategy.
pub(crate) type Amounts = SmallVec<[i64; 2]>;

/// What the nodes of a placement have, and what pods on them request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    allocatable: Amounts,
    used: Amounts,
}

/// Scores placements of the pods of a group.
pub(crate) struct PlacementScorer {
    resources: Vec<ScoredResource>,
    /// What each pod requests.
    requests: Vec<Amounts>,
}

impl PlacementScorer {
    /// By the profile of the first pod. None without one.
    pub(crate) fn new(state: &State, pods: &[PreparedPod]) -> Option<PlacementScorer> {
        let rule_set = |pod: &PreparedPod| state.rule_sets.get(pod.rule_set);
        let profile = &state.profiles[rule_set(pods.first()?).key.profile?].profile;
        let specs: &[ResourceSpec] = &profile.node_resources_fit.scoring_strategy.resources;
        let of = |pod: &PreparedPod| scored_resources(state, &rule_set(pod).rules().requests, specs, true);
        let requests: Vec<Amounts> =
            pods.iter().map(|pod| of(pod).iter().map(|resource| resource.request).collect()).collect();
        let mut resources = of(pods.first()?);
        for (at, resource) in resources.iter_mut().enumerate() {
            resource.request = requests.iter().map(|amounts| amounts[at]).fold(0, i64::saturating_add);
        }
        Some(PlacementScorer { resources, requests })
    }

    /// Adds a node to a placement.
    pub(crate) fn add(&self, usage: &mut Usage, node: NodeRef<'_>) {
        let n = self.resources.len();
        usage.allocatable.resize(n, 0);
        usage.used.resize(n, 0);
        for (at, resource) in self.resources.iter().enumerate() {
            let Some(utilization) = resource.utilization(node, true) else { continue };
            let used = utilization.requested.saturating_sub(resource.request);
            usage.allocatable[at] = usage.allocatable[at].saturating_add(utilization.allocatable);
            usage.used[at] = usage.used[at].saturating_add(used);
        }
    }

    /// The score with some of the pods on the nodes: 0 to 100.
    pub(crate) fn score(&self, usage: &Usage, pods: impl Iterator<Item = usize> + Clone) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for (at, (resource, allocatable)) in self.resources.iter().zip(&usage.allocatable).enumerate() {
            if *allocatable == 0 {
                continue;
            }
            let requested =
                pods.clone().map(|pod| self.requests[pod][at]).fold(usage.used[at], i64::saturating_add);
            sum += requested.min(*allocatable).saturating_mul(MAX_NODE_SCORE) / allocatable * resource.weight;
            weights += resource.weight;
        }
        if weights == 0 { 0 } else { sum / weights }
    }
}
