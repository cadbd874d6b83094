//! Evenness of the use of a node's resources.

use smallvec::SmallVec;

use super::super::{Context, MAX_NODE_SCORE, NodeRef, Scorer};
use super::{ScoredResource, Utilization, scored_resources};

struct BalancedAllocation {
    resources: Vec<ScoredResource>,
}

/// Pods that ask for none of the resources are not scored.
pub(in super::super) fn scorer<'a>(context: Context<'a>) -> Option<Box<dyn Scorer + 'a>> {
    let resources = scored_resources(context, &context.profile.profile.balanced_allocation.resources, false);
    let asks = resources.iter().any(|r| r.request != 0);
    asks.then(|| Box::new(BalancedAllocation { resources }) as Box<dyn Scorer>)
}

impl BalancedAllocation {
    /// How even the use is: 100 for perfectly, 50 at the least.
    fn evenness(&self, node: NodeRef<'_>, with_pod: bool) -> i64 {
        let utilizations =
            self.resources.iter().filter_map(|r| Some((r.request, r.utilization(node, false)?)));
        let fractions = utilizations.map(|(request, Utilization { allocatable, requested })| {
            let requested = if with_pod { requested } else { requested - request };
            (requested as f64 / allocatable as f64).min(1.0)
        });
        let deviation = standard_deviation(&fractions.collect::<SmallVec<[f64; 4]>>());
        ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64
    }
}

impl Scorer for BalancedAllocation {
    /// By how much the pod makes the use more even (up to 100) or less (down to 50); 75 for no change.
    fn score(&self, node: NodeRef<'_>) -> i64 {
        let change = self.evenness(node, true) - self.evenness(node, false);
        (MAX_NODE_SCORE + MAX_NODE_SCORE / 2 + change) / 2
    }

    fn parts(&self, node: NodeRef<'_>) -> Vec<(String, i64)> {
        let part = |resource: &ScoredResource| {
            let Utilization { allocatable, requested } = resource.utilization(node, false)?;
            Some((format!("{} used, in percent", resource.name), requested.saturating_mul(100) / allocatable))
        };
        self.resources.iter().filter_map(part).collect()
    }
}

/// In the very operations of kube-scheduler, so that truncation comes out the same.
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
