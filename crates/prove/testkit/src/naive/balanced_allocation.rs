//! `NodeResourcesBalancedAllocation`: prefers nodes on which the pod balances the use of resources.

use berth_api::object::{Node, ResourceList};

use super::requests::{allocatable, amount, pod_requests};
use super::resources_fit::{counts, requested};
use super::{MAX_NODE_SCORE, Question};

/// `None` for pods that request none of the resources.
pub fn score(q: Question, feasible: &[&Node]) -> Option<Vec<i64>> {
    let resources = &q.profile.balanced_allocation.resources;
    let wanted = pod_requests(q.pod, &ResourceList::new(), q.options.feature_gates.version);
    if resources.iter().all(|spec| amount(&wanted, &spec.name) == 0) {
        return None;
    }
    let score = |node: &&Node| {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for spec in resources {
            let wanted = amount(&wanted, &spec.name);
            if counts(node, &spec.name, wanted) {
                let capacity = allocatable(node, &spec.name).unwrap_or(0);
                let used = requested(q, node, &spec.name);
                without.push((used as f64 / capacity as f64).min(1.0));
                with.push((used.saturating_add(wanted) as f64 / capacity as f64).min(1.0));
            }
        }
        // Half of the scale, plus the improvement on the other half's scale.
        let half = MAX_NODE_SCORE / 2;
        half + (half + evenness(&with) - evenness(&without)) / 2
    };
    Some(feasible.iter().map(score).collect())
}

/// 100 × (1 − standard deviation), truncated.
fn evenness(fractions: &[f64]) -> i64 {
    let deviation = match fractions {
        [a, b] => ((a - b) / 2.0).abs(),
        [_, _, _, ..] => {
            let n = fractions.len() as f64;
            let mean = fractions.iter().sum::<f64>() / n;
            let squares: f64 = fractions.iter().map(|f| (f - mean) * (f - mean)).sum();
            (squares / n).sqrt()
        }
        _ => 0.0,
    };
    ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64
}
