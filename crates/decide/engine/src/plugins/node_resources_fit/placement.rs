//! The score of a placement by `NodeResourcesFit`: how much of its nodes is in use with the pods of a group.
//!
//! As kube-scheduler scores placements: by used resources, with the weights of the scoring strategy, whatever its type.

use berth_input::config::ResourceSpec;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::super::rule::MAX_NODE_SCORE;
use super::scored_resource::{ScoredResource, scored_resources};
use crate::cycle::context::NodeRef;
use crate::state::State;
use crate::state::pod::prepared::PreparedPod;
use crate::state::rule_set::RuleSetId;

/// One amount for each resource of the scoring strategy.
pub(crate) type Amounts = SmallVec<[i64; 2]>;

/// What the nodes of a placement have, and what pods on them request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    allocatable: Amounts,
    used: Amounts,
}

impl Usage {
    /// Adds the nodes of another placement, or takes them out.
    pub(crate) fn change(&mut self, other: &Usage, is_added: bool) {
        let sign = if is_added { 1 } else { -1 };
        let add = |sums: &mut Amounts, amounts: &Amounts| {
            sums.resize(amounts.len().max(sums.len()), 0);
            sums.iter_mut()
                .zip(amounts)
                .for_each(|(sum, n)| *sum = sum.saturating_add(n.saturating_mul(sign)));
        };
        add(&mut self.allocatable, &other.allocatable);
        add(&mut self.used, &other.used);
    }
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
        let mut known: FxHashMap<RuleSetId, Amounts> = FxHashMap::default();
        let mut amounts = |pod: &PreparedPod| {
            let amounts = || of(pod).iter().map(|resource| resource.request).collect();
            known.entry(pod.rule_set).or_insert_with(amounts).clone()
        };
        let requests: Vec<Amounts> = pods.iter().map(&mut amounts).collect();
        let mut resources = of(pods.first()?);
        for (at, resource) in resources.iter_mut().enumerate() {
            resource.request = requests.iter().map(|amounts| amounts[at]).fold(0, i64::saturating_add);
        }
        Some(PlacementScorer { resources, requests })
    }

    /// Which resources count: placements with the same have the same [`Usage`] for all pods.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (&str, bool)> {
        self.resources.iter().map(|resource| (resource.name.as_str(), resource.request > 0))
    }

    pub(crate) fn usage(&self, node: NodeRef<'_>) -> Usage {
        let mut usage = Usage::default();
        for resource in &self.resources {
            let utilization = resource.utilization(node, true);
            let amounts = utilization.map(|u| (u.allocatable, u.requested.saturating_sub(resource.request)));
            let (allocatable, used) = amounts.unwrap_or_default();
            usage.allocatable.push(allocatable);
            usage.used.push(used);
        }
        usage
    }

    pub(crate) fn requests(&self, pods: impl Iterator<Item = usize>) -> Amounts {
        let mut sums: Amounts = self.resources.iter().map(|_| 0).collect();
        for pod in pods {
            sums.iter_mut().zip(&self.requests[pod]).for_each(|(sum, n)| *sum = sum.saturating_add(*n));
        }
        sums
    }

    /// The score with pods on the nodes that request this: 0 to 100.
    pub(crate) fn score(&self, usage: &Usage, requests: &Amounts) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for (at, (resource, allocatable)) in self.resources.iter().zip(&usage.allocatable).enumerate() {
            if *allocatable == 0 {
                continue;
            }
            let requested = usage.used[at].saturating_add(requests[at]);
            sum += requested.min(*allocatable).saturating_mul(MAX_NODE_SCORE) / allocatable * resource.weight;
            weights += resource.weight;
        }
        if weights == 0 { 0 } else { sum / weights }
    }
}
