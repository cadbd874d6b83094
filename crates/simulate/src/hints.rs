//! Hints: what would let a pod fit that fits nowhere.

use berth_api::config::Plugin;
use berth_api::quantity::with_unit;
use berth_engine::{ExcludedNodes, Explanation, Outcome, Status, Verdict};

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
    let of_group = |group: &ExcludedNodes| {
        let first = &group.nodes[0];
        let nodes = match group.nodes.len() {
            1 => first.clone(),
            2 => format!("{first} and 1 similar node"),
            n => format!("{first} and {} similar nodes", n - 1),
        };
        let hints: Vec<_> = group.verdicts.iter().map(hint).collect();
        format!("on {nodes}: {}", hints.join("; and "))
    };
    explanation.nearest().iter().map(of_group).collect()
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
        Plugin::TaintToleration => format!("add a toleration, or remove the taint: {}", verdict.detail),
        Plugin::NodeAffinity => format!("change the node's labels or the rule: {}", verdict.detail),
        Plugin::NodePorts => format!("move {}: {}", pods(), verdict.detail),
        Plugin::NodeResourcesFit if verdict.status == Status::UnschedulableAndUnresolvable => {
            format!(
                "request less, or add a larger node: {}, {} allocatable",
                verdict.detail,
                amount(count("allocatable"))
            )
        }
        Plugin::NodeResourcesFit => {
            let missing = count("requested") + count("used") - count("allocatable");
            format!("free {} more: {}", amount(missing), verdict.detail)
        }
        Plugin::PodTopologySpread if verdict.counts.is_empty() => {
            format!("add the label to the node ({}): {}", domain(), verdict.detail)
        }
        Plugin::PodTopologySpread => {
            format!(
                "place matching pods in other domains first ({} has {}, the minimum is {})",
                domain(),
                count("matching"),
                count("minimum")
            )
        }
        Plugin::InterPodAffinity if !verdict.witnesses.is_empty() => {
            format!("move {} out of {}, or relax the rule ({})", pods(), domain(), verdict.detail)
        }
        Plugin::InterPodAffinity => format!("start a matching pod in {}: {}", domain(), verdict.detail),
        _ => verdict.detail.clone(),
    }
}
