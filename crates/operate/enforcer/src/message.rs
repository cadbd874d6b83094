//! Messages in conditions, events and the log.

use berth_engine::{Remedy, Target, Verdict};

/// The violated rule, the reason, and the conflicting pods, in one line.
pub(crate) fn verdict(verdict: &Verdict) -> String {
    let mut text = String::new();
    if let Some(term) = &verdict.term {
        text.push_str(term);
        text.push_str(": ");
    }
    text.push_str(&verdict.reason);
    if !verdict.detail.is_empty() {
        text.push_str(": ");
        text.push_str(&verdict.detail);
    }
    if let Some(topology) = &verdict.topology {
        text.push_str(&format!("; {topology}"));
    }
    let witnesses: Vec<_> =
        verdict.witnesses.iter().map(|w| format!("{}/{} on {}", w.namespace, w.name, w.node)).collect();
    if !witnesses.is_empty() {
        text.push_str(&format!("; because of {}", witnesses.join(", ")));
        if verdict.more_witnesses > 0 {
            text.push_str(&format!(" and {} more", verdict.more_witnesses));
        }
    }
    text
}

/// Two sentences; the first may end without a period.
pub(crate) fn sentences(first: &str, second: &str) -> String {
    format!("{}. {second}", first.trim_end_matches('.'))
}

/// Why a pod is evicted, and the feasible node.
pub(crate) fn evicted(remedy: &Remedy) -> String {
    let why = verdict(&remedy.verdict);
    match &remedy.target {
        Target::Node(node) => format!("{why}. The pod (or its replacement) fits on {node}"),
        Target::Nowhere(nowhere) => format!("{why}. No node is feasible for the pod: {nowhere}"),
        Target::NotRequested => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_ends_with_one_period() {
        for first in [
            "0/1 nodes are available: 1 node(s) didn't match",
            "0/1 nodes are available: 1 node(s) didn't match.",
        ] {
            assert_eq!(
                sentences(first, "Eviction rejected, retrying"),
                "0/1 nodes are available: 1 node(s) didn't match. Eviction rejected, retrying"
            );
        }
    }
}
