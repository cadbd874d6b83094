//! Hints: what would let a pod fit that fits nowhere.

use berth_api::config::Plugin;
use berth_api::quantity::with_unit;
use berth_engine::{Counts, ExcludedNodes, Explanation, Outcome, Status, Verdict};

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
    let detail = &verdict.detail;
    let domain = verdict.topology.as_ref().map(ToString::to_string).unwrap_or_default();
    match (verdict.plugin, &verdict.counts) {
        (Plugin::NodeUnschedulable, _) => "uncordon the node".to_owned(),
        (Plugin::NodeName, _) => "change spec.nodeName".to_owned(),
        (Plugin::TaintToleration, _) => format!("add a toleration, or remove the taint: {detail}"),
        (Plugin::NodeAffinity, _) => format!("change the labels of the node, or relax the rule: {detail}"),
        (Plugin::NodePorts, _) => format!("move {}: {detail}", pods(verdict)),
        (_, Some(Counts::Resource { resource, allocatable, .. }))
            if verdict.status == Status::UnschedulableAndUnresolvable =>
        {
            let allocatable = with_unit(resource, *allocatable);
            format!(
                "request less, or add a larger node: the pod {detail}, the node has {allocatable} allocatable"
            )
        }
        (_, Some(Counts::Resource { resource, .. })) if resource == "pods" => {
            format!("remove a pod from the node: the pod {detail}")
        }
        (_, Some(Counts::Resource { resource, requested, used, allocatable })) => {
            format!(
                "free {} more {resource}: the pod {detail}",
                with_unit(resource, requested + used - allocatable)
            )
        }
        (Plugin::PodTopologySpread, None) => format!("add the label to the node ({domain}): {detail}"),
        (_, Some(Counts::Spread { matching, minimum, .. })) => {
            format!(
                "place matching pods in other domains first ({domain} has {matching}, the minimum is {minimum})"
            )
        }
        (_, Some(Counts::AntiAffinity { matching, limit: limit @ 1.. })) => {
            let n = matching - i64::from(*limit);
            format!("move {n} of {} out of {domain}, or relax the rule: {detail}", pods(verdict))
        }
        (_, Some(Counts::ExistingLimit { .. })) => format!(
            "move matching pods out of {domain}, or the pods with the rule ({}), or relax the rule: {detail}",
            pods(verdict)
        ),
        (Plugin::InterPodAffinity, _) if !verdict.witnesses.is_empty() => {
            format!("move {} out of {domain}, or relax the rule: {detail}", pods(verdict))
        }
        (Plugin::InterPodAffinity, _) => format!("start a matching pod in {domain}: {detail}"),
        _ => detail.clone(),
    }
}

/// The pods that cause a verdict.
fn pods(verdict: &Verdict) -> String {
    let names: Vec<_> = verdict.witnesses.iter().map(|w| format!("{}/{}", w.namespace, w.name)).collect();
    match (names.as_slice(), verdict.more_witnesses) {
        ([], _) => "the pods".to_owned(),
        (_, 0) => names.join(", "),
        (_, more) => format!("{} and {more} more", names.join(", ")),
    }
}
