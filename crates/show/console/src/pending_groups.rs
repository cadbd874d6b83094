//! The pods without a node, by workload and reason.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_engine::{Outcome, Verdict};
use berth_simulate::{PendingDecision, UnadmittedState};
use jiff::Timestamp;

use crate::State;
use crate::workloads::{WorkloadName, name_of};

/// What the rules against a pod are about, by a part of kube-scheduler's words.
const CAUSES: [(&str, &str); 14] = [
    ("anti-affinity", "Pod anti-affinity"),
    ("pod affinity", "Pod affinity"),
    ("topology spread", "Spread constraints"),
    ("node affinity/selector", "Node selector or affinity"),
    ("scheduler-enforced node affinity", "Node affinity of the profile"),
    ("untolerated taint", "Taints"),
    ("were unschedulable", "Cordoned nodes"),
    ("Too many pods", "No room for more pods"),
    ("requested node name", "Named node"),
    ("free ports", "Host ports"),
    ("volume", "Volumes"),
    ("PersistentVolume", "Volumes"),
    ("storage", "Volumes"),
    ("scheduling gates", "Scheduling gates"),
];

/// Pending pods of a workload with the same reason.
pub(crate) struct PendingGroup {
    pub(crate) workload: WorkloadName,
    /// What excludes most of the nodes that are nearest to feasible, in a few words.
    pub(crate) cause: String,
    pub(crate) reason: String,
    /// Their positions.
    pub(crate) pods: Vec<usize>,
    /// When the oldest was created.
    pub(crate) oldest: Option<Timestamp>,
}

/// The largest first. Each reason is that of the pod alone in the current state.
pub(crate) fn pending_groups(state: &mut State) -> Vec<PendingGroup> {
    let decisions = state.decide_pending();
    let all = state.pods();
    let mut groups: BTreeMap<(WorkloadName, String, String), Vec<usize>> = BTreeMap::new();
    for at in all.table.pending() {
        let pod = all.at(at);
        let (cause, reason) = match decisions.get(&at) {
            Some(decision) => (
                decision.bottleneck.as_ref().map_or_else(|| cause(&decision.outcome), cause_of),
                reason(decision),
            ),
            None if pod.is_unadmitted(UnadmittedState::NotCreated) => {
                ("Not created".to_owned(), pod.outcome.message().into_owned())
            }
            None if pod.unadmitted.is_some() => ("Named node".to_owned(), pod.outcome.message().into_owned()),
            None => (cause(&pod.outcome), pod.outcome.message().into_owned()),
        };
        groups.entry((name_of(pod), cause, reason)).or_default().push(at);
    }
    let group = |((workload, cause, reason), pods): (_, Vec<usize>)| {
        let oldest = pods.iter().filter_map(|at| all.at(*at).pod.metadata.creation_timestamp).min();
        PendingGroup { workload, cause, reason, pods, oldest }
    };
    let mut groups: Vec<_> = groups.into_iter().map(group).collect();
    groups.sort_by_key(|group| Reverse(group.pods.len()));
    groups
}

/// The causes with their pods and the oldest of these, most pods first.
pub(crate) fn causes(groups: &[PendingGroup]) -> Vec<(&str, usize, Option<Timestamp>)> {
    let mut causes: BTreeMap<&str, (usize, Option<Timestamp>)> = BTreeMap::new();
    for group in groups {
        let (n, oldest) = causes.entry(&group.cause).or_default();
        *n += group.pods.len();
        *oldest = [*oldest, group.oldest].into_iter().flatten().min();
    }
    let mut causes: Vec<_> = causes.into_iter().map(|(cause, (n, oldest))| (cause, n, oldest)).collect();
    causes.sort_by_key(|(cause, n, _)| (Reverse(*n), *cause));
    causes
}

fn cause_of(verdict: &Verdict) -> String {
    cause_in(&verdict.reason)
}

/// What excludes most nodes.
fn cause(outcome: &Outcome) -> String {
    if outcome.node().is_some() {
        return "Can be placed now".to_owned();
    }
    let message = outcome.message();
    // `0/12 nodes are available: 10 node(s) didn't match pod anti-affinity rules, 2 Insufficient cpu. preemption: ...`
    let reasons = message.split_once(": ").map_or(&*message, |(_, reasons)| reasons);
    let reasons = reasons.split(". ").next().unwrap_or_default().trim_end_matches('.');
    let counted = reasons.split(", ").filter_map(|part| {
        let (n, text) = part.split_once(' ')?;
        Some((n.parse::<usize>().ok()?, text))
    });
    let most = counted.max_by(|(a, text_a), (b, text_b)| a.cmp(b).then_with(|| text_b.cmp(text_a)));
    cause_in(most.map_or(&*message, |(_, text)| text))
}

/// What one reason is about.
fn cause_in(text: &str) -> String {
    if let Some(resource) = text.strip_prefix("Insufficient ") {
        return format!("Not enough {resource}");
    }
    let known = CAUSES.iter().find(|(part, _)| text.contains(part));
    known.map_or_else(|| "Other".to_owned(), |(_, cause)| (*cause).to_owned())
}

fn reason(PendingDecision { outcome, preemption, .. }: &PendingDecision) -> String {
    match (outcome.node(), preemption) {
        (Some(node), _) => format!("can be placed, for example on {node}"),
        (None, Some(preemption)) => format!(
            "{} It can be placed on {} if {} evicted there.",
            outcome.message(),
            preemption.node,
            match preemption.victims.len() {
                1 => "1 pod is".to_owned(),
                n => format!("{n} pods are"),
            }
        ),
        (None, None) => outcome.message().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use berth_input::inventory::Inventory;
    use berth_simulate::SimulationOptions;

    use super::*;

    #[test]
    fn the_cause_was_what_excludes_most_nodes_and_not_the_nearest() {
        let node = |name: &str, cpu: u32, taints: &str| {
            format!(
                "{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}, spec: {{{taints}}}, status: {{allocatable: {{cpu: {cpu}, pods: 9, \
                 example.com/gpu: {}}}}}}}\n---\n",
                cpu / 4
            )
        };
        let text = node("a", 2, "")
            + &node("b", 2, "")
            + &node("g", 8, "taints: [{key: gpu, effect: NoSchedule}]")
            + "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 4, \
               example.com/gpu: 1}}}]}}\n";
        let inventory = Inventory::from_text(&text).unwrap();
        let mut state = State::new("test", inventory, SimulationOptions::default()).unwrap();
        let groups = pending_groups(&mut state);
        assert_eq!(groups.iter().map(|group| group.cause.as_str()).collect::<Vec<_>>(), ["Taints"]);
    }

    #[test]
    fn the_cause_is_what_excludes_most_nodes() {
        let of = |message: &str| {
            cause(&Outcome::Unschedulable { message: message.to_owned(), plugins: Vec::new() })
        };
        let text = "0/12 nodes are available: 2 Insufficient cpu, 10 node(s) didn't match pod anti-affinity rules. preemption: 0/12 \
                    nodes are available: 12 Preemption is not helpful for scheduling.";
        assert_eq!(of(text), "Pod anti-affinity");
        assert_eq!(
            of("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."),
            "Not enough nvidia.com/gpu"
        );
        assert_eq!(of("0/1 nodes are available: 1 node(s) had untolerated taint(s)."), "Taints");
        assert_eq!(cause(&Outcome::Gated { gates: vec!["g".to_owned()] }), "Scheduling gates");
        assert_eq!(of("no nodes"), "Other");
    }
}
