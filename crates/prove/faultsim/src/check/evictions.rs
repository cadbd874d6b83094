//! Evictions: the enforcer's limits, and disruption budgets.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_enforcer::LimitOptions;
use berth_testkit::check::history::{Changes, name};
use http::Method;

use crate::cluster::ENFORCERS;
use crate::network::Accepted;

/// An eviction counts from its reservation, but is seen when it is made: requests, and writes of the ledger before them, may
/// take so long.
const SLACK: Duration = Duration::from_secs(60);

/// The number of the enforcers' evictions, and windows with too many of them.
pub fn over_limits(accepted: &[Accepted], limits: &LimitOptions, n_pods: usize) -> (usize, Vec<String>) {
    let evictions: Vec<&Accepted> = accepted
        .iter()
        .filter(|a| {
            ENFORCERS.contains(&a.client) && a.method == Method::POST && a.path.ends_with("/eviction")
        })
        .collect();
    let window = limits.window.saturating_sub(SLACK);
    let of_cluster =
        ((n_pods as f64 * limits.max_cluster_share) as usize).max(berth_enforcer::LEAST_CLUSTER_LIMIT);
    let most = of_cluster.min(limits.max_per_namespace as usize);
    let mut findings = Vec::new();
    for (i, first) in evictions.iter().enumerate() {
        let n = evictions[i..].iter().take_while(|e| e.at < first.at + window).count();
        if n > most {
            findings.push(format!(
                "{n} evictions by enforcers within {window:?} from {:?}, {most} are allowed",
                first.at
            ));
            break;
        }
    }
    (evictions.len(), findings)
}

/// Evictions that a disruption budget did not allow: the API server notes each in the budget and counts it there.
pub fn against_budgets(changes: &Changes) -> Vec<String> {
    let mut findings = Vec::new();
    let mut budgets: BTreeMap<String, (i64, Vec<String>)> = BTreeMap::new();
    for (version, change) in changes.iter().filter(|(_, change)| change.kind == "PodDisruptionBudget") {
        let status = &change.object["status"];
        let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
        let disrupted: Vec<String> = status["disruptedPods"]
            .as_object()
            .map(|pods| pods.keys().cloned().collect())
            .unwrap_or_default();
        let key = name(&change.object);
        if let Some((allowed_before, before)) = budgets.get(&key) {
            let n_new = disrupted.iter().filter(|pod| !before.contains(pod)).count() as i64;
            if n_new > *allowed_before || allowed < 0 {
                findings.push(format!(
                    "version {version}: {n_new} evictions, budget {key} allows {allowed_before}"
                ));
            }
        }
        budgets.insert(key, (allowed, disrupted));
    }
    findings
}
