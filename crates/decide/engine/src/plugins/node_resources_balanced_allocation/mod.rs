//! Balanced utilization of the resources of a node.

use berth_input::config::Plugin;
use smallvec::SmallVec;

use super::node_resources_fit::scored_resource::{ScoredResource, Utilization, scored_resources};
use super::rule::{MAX_NODE_SCORE, Reads, Rule, Scorer};
use crate::cycle::context::{Context, NodeRef};
use crate::state::node::NodeId;

pub(super) struct NodeResourcesBalancedAllocation;

impl Rule for NodeResourcesBalancedAllocation {
    const PLUGIN: Plugin = Plugin::NodeResourcesBalancedAllocation;
    const READS: Reads = Reads::NODE_CLASS.and(Reads::NODE_USAGE);

    /// None for pods that request none of the resources.
    fn scorer<'a>(context: Context<'a>, _feasible: &[NodeId]) -> Option<Box<dyn Scorer + 'a>> {
        let specs = &context.profile.profile.balanced_allocation.resources;
        let resources = scored_resources(context.state, &context.rule_set.rules().requests, specs, false);
        let requests_any = resources.iter().any(|r| r.request != 0);
        requests_any.then(|| Box::new(BalancedAllocation { resources }) as Box<dyn Scorer>)
    }
}

struct BalancedAllocation {
    resources: Vec<ScoredResource>,
}

impl Scorer for BalancedAllocation {
    /// 75 if the pod does not change the balance; up to 100 if it improves it, down to 50 if it worsens it.
    fn score(&self, node: NodeRef<'_>) -> i64 {
        // Of each resource, with the pod and without it.
        let mut fractions = SmallVec::<[(f64, f64); 4]>::new();
        for resource in &self.resources {
            if let Some(Utilization { allocatable, requested }) = resource.utilization(node, false) {
                let fraction = |requested: i64| (requested as f64 / allocatable as f64).min(1.0);
                fractions.push((fraction(requested), fraction(requested - resource.request)));
            }
        }
        let change =
            balance(&fractions, |(with_pod, _)| *with_pod) - balance(&fractions, |(_, without)| *without);
        (MAX_NODE_SCORE + MAX_NODE_SCORE / 2 + change) / 2
    }

    fn parts(&self, node: NodeRef<'_>) -> Vec<(String, i64)> {
        let part = |resource: &ScoredResource| {
            let Utilization { allocatable, requested } = resource.utilization(node, false)?;
            Some((
                format!("{} utilization in percent", resource.name),
                requested.saturating_mul(100) / allocatable,
            ))
        };
        self.resources.iter().filter_map(part).collect()
    }
}

/// The balance of the utilization of each resource, 0 to 1: 100 if all are equal, at least 50.
fn balance<T>(resources: &[T], fraction: impl Fn(&T) -> f64) -> i64 {
    ((1.0 - standard_deviation(resources, fraction)) * MAX_NODE_SCORE as f64) as i64
}

/// With the same operations as kube-scheduler, so that truncation gives the same result.
fn standard_deviation<T>(resources: &[T], fraction: impl Fn(&T) -> f64) -> f64 {
    match resources {
        [] | [_] => 0.0,
        [a, b] => ((fraction(a) - fraction(b)) / 2.0).abs(),
        _ => {
            let n = resources.len() as f64;
            let fractions = || resources.iter().map(&fraction);
            let mean = fractions().fold(0.0, |sum, f| sum + f) / n;
            (fractions().fold(0.0, |sum, f| sum + (f - mean) * (f - mean)) / n).sqrt()
        }
    }
}
