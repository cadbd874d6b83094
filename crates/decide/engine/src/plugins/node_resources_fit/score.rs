//! The score of `NodeResourcesFit`: by free resources, by used resources, or by a configured function of the
//! utilization.

use berth_api::feature_gates::VersionChange;
use berth_input::config::{ScoringStrategyKind, UtilizationShapePoint};

use super::super::rule::{MAX_NODE_SCORE, Scorer};
use super::scored_resource::{ScoredResource, Utilization, percent, scored_resources};
use crate::cycle::context::{Context, NodeRef};

struct FitScore<'a> {
    /// Whether products do not overflow.
    is_exact: bool,
    kind: &'a ScoringStrategyKind,
    resources: Vec<ScoredResource>,
}

pub(super) fn scorer<'a>(context: Context<'a>) -> Option<Box<dyn Scorer + 'a>> {
    let strategy = &context.profile.profile.node_resources_fit.scoring_strategy;
    let resources =
        scored_resources(context.state, &context.rule_set.rules().requests, &strategy.resources, true);
    let is_exact = context.state.settings.config.feature_gates.has(VersionChange::ScoresOfHugeQuantities);
    Some(Box::new(FitScore { is_exact, kind: &strategy.kind, resources }))
}

impl FitScore<'_> {
    /// The score of a resource, if it counts on the node.
    #[inline]
    fn score_of(&self, resource: &ScoredResource, node: NodeRef<'_>) -> Option<i64> {
        let Utilization { allocatable, requested } = resource.utilization(node, true)?;
        let percent = |part| percent(part, allocatable, self.is_exact);
        Some(match self.kind {
            ScoringStrategyKind::LeastAllocated if requested > allocatable => 0,
            ScoringStrategyKind::LeastAllocated => percent(allocatable.wrapping_sub(requested)),
            ScoringStrategyKind::MostAllocated => percent(requested.min(allocatable)),
            ScoringStrategyKind::RequestedToCapacityRatio { shape } => {
                let percent = if requested > allocatable { 100 } else { percent(requested) };
                // kube-scheduler leaves a ratio of zero out of the mean.
                return Some(piecewise_linear(shape, percent)).filter(|score| *score > 0);
            }
        })
    }
}

impl Scorer for FitScore<'_> {
    /// Weighted mean of the scores of the resources: truncated, or rounded for a configured function.
    fn score(&self, node: NodeRef<'_>) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for resource in &self.resources {
            if let Some(score) = self.score_of(resource, node) {
                sum += score * resource.weight;
                weights += resource.weight;
            }
        }
        match self.kind {
            _ if weights == 0 => 0,
            ScoringStrategyKind::RequestedToCapacityRatio { .. } => {
                (sum as f64 / weights as f64).round() as i64
            }
            _ => sum / weights,
        }
    }

    fn parts(&self, node: NodeRef<'_>) -> Vec<(String, i64)> {
        let part = |r: &ScoredResource| {
            self.score_of(r, node).map(|score| (format!("{} (weight {})", r.name, r.weight), score))
        };
        self.resources.iter().filter_map(part).collect()
    }
}

/// The configured function at a utilization in percent. Configured scores are 0 to 10.
pub(in crate::plugins) fn piecewise_linear(shape: &[UtilizationShapePoint], percent: i64) -> i64 {
    let score = |point: &UtilizationShapePoint| point.score * MAX_NODE_SCORE / 10;
    let above = shape.iter().position(|point| percent <= point.utilization);
    match (above, shape) {
        (_, []) => 0,
        (Some(0), [first, ..]) => score(first),
        (None, [.., last]) => score(last),
        (Some(i), _) => {
            let (from, to) = (&shape[i - 1], &shape[i]);
            let rise = (score(to) - score(from)) * (percent - from.utilization);
            score(from) + rise / (to.utilization - from.utilization)
        }
    }
}
