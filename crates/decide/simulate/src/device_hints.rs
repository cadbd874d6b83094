//! What would let the requests of claims be satisfied on a node, in words.

use std::collections::BTreeSet;

use berth_engine::{Counts, Explanation, Verdict};

/// Suggestions for the nodes that only devices exclude.
pub(crate) fn device_hints(explanation: &Explanation) -> Vec<String> {
    let mut hints = BTreeSet::new();
    for group in explanation.nearest() {
        let [verdict] = group.verdicts.as_slice() else { continue };
        if let (Some(node), Some(hint)) = (group.nodes.first(), hint(verdict)) {
            hints.insert(format!("{hint} on {node}"));
        }
    }
    hints.into_iter().collect()
}

/// How a request could be satisfied with the devices as they are.
fn hint(verdict: &Verdict) -> Option<String> {
    let Some(Counts::Devices { requested, available, excluded_devices }) = &verdict.counts else {
        return None;
    };
    let request = verdict.detail.split(": ").next().unwrap_or_default();
    let n_missing = requested.saturating_sub(*available);
    // The claims for extended resources have no tolerations.
    let is_of_claim = verdict.term.as_deref().is_some_and(|term| term.starts_with("spec.resourceClaims"));
    let tainted = excluded_devices
        .iter()
        .filter(|_| is_of_claim)
        .filter(|of| n_missing > 0 && of.n_devices >= n_missing);
    let tainted = tainted.filter_map(|of| Some((of, of.taints.as_ref()?))).next();
    if let Some((tainted, taints)) = tainted {
        return Some(format!("{request}: tolerations of {taints} would add {} devices", tainted.n_devices));
    }
    let what = if is_of_claim { "count: " } else { "" };
    (*available > 0 && n_missing > 0).then(|| format!("{request}: {what}{available} would fit"))
}
