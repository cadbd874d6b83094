//! Balanced utilization of the resources of a node.

use smallvec::SmallVec;

use super::super::{MAX_NODE_SCORE, Scorer};
use super::{ScoredResource, Utilization, scored_resources};
use crate::context::{Context, NodeRef};

struct BalancedAllocation {
    resources: Vec<ScoredResource>,
}

/// None for pods that request none of the resources.
pub(in super::super) fn scorer<'a>(context: Context<'a>) -> Option<Box<dyn Scorer + 'a>> {
    let resources = scored_resources(context, &context.profile.profile.balanced_allocation.resources, false);
    let asks = resources.iter().any(|r| r.request != 0);
    asks.then(|| Box::new(BalancedAllocation { resources }) as Box<dyn Scorer>)
}

impl Scorer for BalancedAllocation {
    /// 75 if the pod does not change the balance; up to 100 if it improves it, down to 50 if it worsens it.
    fn score(&self, node: NodeRef<'_>) -> i64 {
        let (mut with_pod, mut without) = (Fractions::new(), Fractions::new());
        for resource in &self.resources {
            if let Some(Utilization { allocatable, requested }) = resource.utilization(node, false) {
                let fraction = |requested: i64| (requested as f64 / allocatable as f64).min(1.0);
                with_pod.push(fraction(requested));
                without.push(fraction(requested - resource.request));
            }
        }
        let change = balance(&with_pod) - balance(&without);
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

/// Utilization of each resource, 0 to 1.
type Fractions = SmallVec<[f64; 4]>;

/// The balance of the utilization: 100 if all fractions are equal, at least 50.
fn balance(fractions: &[f64]) -> i64 {
    ((1.0 - standard_deviation(fractions)) * MAX_NODE_SCORE as f64) as i64
}

/// With the same operations as kube-scheduler, so that truncation gives the same result.
fn standard_deviation(fractions: &[f64]) -> f64 {
    match fractions {
        [] | [_] => 0.0,
        [a, b] => ((a - b) / 2.0).abs(),
        _ => {
            let n = fractions.len() as f64;
            let mean = fractions.iter().fold(0.0, |sum, f| sum + f) / n;
            (fractions.iter().fold(0.0, |sum, f| sum + (f - mean) * (f - mean)) / n).sqrt()
        }
    }
}
