//! Hints: what would let a pod fit that fits nowhere.

use berth_api::config::Plugin;
use berth_api::quantity::with_unit;
use berth_engine::{Explanation, Outcome, Status, Verdict};

/// One hint for each of the nearest groups of nodes.
pub(crate) fn nearest_hints(explanation: &Explanation) -> Vec<String> {
    match &explanation.outcome {
        Outcome::Gated { gates } => return vec![format!("remove the scheduling gates {}", gates.join(", "))],
        Outcome::Failed { .. } | Outcome::Placed { .. } => return Vec::new(),
        Outcome::Unschedulable { .. } if explanation.n_nodes == 0 => {
            return vec!["add nodes: the cluster has none".to_owned()];
        }
        Outcome::Unschedulable { .. } => {}
    }
    let mut hints = Vec::new();
    for group in explanation.nearest() {
        let first = &group.nodes[0];
        let place = match group.nodes.len() {
            1 => format!("on {first}"),
            n => format!("on {first} and {} more like it", n - 1),
        };
        let helps: Vec<_> = group.verdicts.iter().map(hint).collect();
        hints.push(format!("{place}: {}", helps.join("; and ")));
    }
    hints
}

fn hint(verdict: &Verdict) -> String {
    let count = |name| verdict.counts.get(name).copied().unwrap_or(0);
    let domain = || verdict.topology.as_ref().map(ToString::to_string).unwrap_or_default();
    let pods = || {
        let n = verdict.witnesses.len() + verdict.more_witnesses;
        let names: Vec<_> = verdict.witnesses.iter().map(|w| format!("{}/{}", w.namespace, w.name)).collect();
        let more = if verdict.more_witnesses > 0 {
            format!(" and {} more", verdict.more_witnesses)
        } else {
            String::new()
        };
        if n == 0 { "the pods".to_owned() } else { format!("{}{more}", names.join(", ")) }
    };
    let resource = verdict.reason.strip_prefix("Insufficient ").unwrap_or("pods");
    let amount = |n| with_unit(resource, n);
    match verdict.plugin {
        Plugin::NodeUnschedulable => "uncordon the node".to_owned(),
        Plugin::NodeName => "change spec.nodeName".to_owned(),
        Plugin::TaintToleration => format!("tolerate it, or remove it: {}", verdict.detail),
        Plugin::NodeAffinity => format!("change the node's labels or the rule: {}", verdict.detail),
        Plugin::NodePorts => format!("{} would have to go: {}", pods(), verdict.detail),
        Plugin::NodeResourcesFit if verdict.status == Status::UnschedulableAndUnresolvable => {
            format!(
                "ask for less, or add a larger node: {}, and the node has {} in all",
                verdict.detail,
                amount(count("allocatable"))
            )
        }
        Plugin::NodeResourcesFit => {
            let missing = count("requested") + count("used") - count("allocatable");
            format!("free {} more: {}", amount(missing), verdict.detail)
        }
        Plugin::PodTopologySpread if verdict.counts.is_empty() => {
            format!("label the node ({}): {}", domain(), verdict.detail)
        }
        Plugin::PodTopologySpread => {
            format!(
                "place matching pods elsewhere first ({} has {}, the fewest is {})",
                domain(),
                count("matching"),
                count("minimum")
            )
        }
        Plugin::InterPodAffinity if !verdict.witnesses.is_empty() => {
            format!("{} in {} would have to go, or the rule ({})", pods(), domain(), verdict.detail)
        }
        Plugin::InterPodAffinity => format!("start a matching pod in {}: {}", domain(), verdict.detail),
        _ => verdict.detail.clone(),
    }
}
