//! Counts of pods after scheduling, and unplaced pods grouped by reason.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use berth_api::object::GroupKey;
use berth_api::work::WorkBudget;
use berth_engine::{Explanation, Outcome, TermSummary};
use berth_simulate::{PodExplanation, SimulatedPod, Simulation, UnadmittedState};
use serde::Serialize;

/// Number of groups of unplaced pods that are explained; an explanation costs a pass over all nodes.
const MAX_EXPLAINED: usize = 300;
/// Steps of work of all of these explanations together.
const EXPLAIN_STEPS: u64 = 50_000_000;

fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// Counts of pods.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub n_nodes: usize,
    /// Number of pods that had a node before.
    pub n_running: usize,
    /// Number of pods whose node does not exist.
    pub n_orphaned: usize,
    pub n_placed: usize,
    /// Number of pods that a scheduler found no node for.
    pub n_unplaced: usize,
    /// Number of pods that are rejected by the node that they name.
    pub n_rejected: usize,
    /// Number of pods that wait for a node that does not exist.
    pub n_waiting: usize,
    /// Number of pods that their controllers cannot create so far.
    pub n_not_created: usize,
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// The values of the topology key on the nodes.
    pub domains: BTreeSet<String>,
    /// Pods of each workload by domain.
    pub workloads: Vec<WorkloadSummary>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadSummary {
    pub namespace: String,
    /// Kind and name; none for the group of all pods of the namespace without a workload.
    pub workload: Option<String>,
    pub n_pods: usize,
    pub n_unplaced: usize,
    /// Number of its pods that are rejected by the node that they name.
    pub n_rejected: usize,
    /// Number of its pods that wait for a node that does not exist.
    pub n_waiting: usize,
    /// Number of its pods that are not created so far.
    pub n_not_created: usize,
    pub by_domain: BTreeMap<String, usize>,
    /// Number of its pods on nodes without the label, or on nodes that do not exist.
    pub n_without_domain: usize,
}

/// Unplaced pods with the same reason.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    pub workload: Option<String>,
    /// The pods, `namespace/name`.
    pub pods: Vec<String>,
    /// kube-scheduler's message.
    pub message: String,
    /// The rule with the largest effect; none when no term of a rule is the reason.
    pub bottleneck: Option<TermSummary>,
    /// Nodes on which the rules were not evaluated to find it, because that is too much work.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_not_evaluated: usize,
    /// For a rolling update that is stuck: the reason and the smallest change that lets it proceed.
    pub rollout: Option<String>,
}

impl WorkloadSummary {
    pub fn new(namespace: &str, workload: Option<&str>) -> WorkloadSummary {
        let workload = workload.map(str::to_owned);
        WorkloadSummary { namespace: namespace.to_owned(), workload, ..WorkloadSummary::default() }
    }

    /// Counts a pod on a node of this domain.
    pub fn count_in(&mut self, domain: Option<&str>) {
        match domain {
            Some(domain) => *self.by_domain.entry(domain.to_owned()).or_default() += 1,
            None => self.n_without_domain += 1,
        }
    }
}

impl Summary {
    pub fn of(simulation: &Simulation, topology_key: &str) -> Summary {
        let mut summary = Summary {
            n_nodes: simulation.n_nodes(),
            topology_key: topology_key.to_owned(),
            domains: simulation.domains(topology_key),
            ..Summary::default()
        };
        let mut workloads = BTreeMap::new();
        for (namespace, workload) in simulation.workloads() {
            let key = (namespace.as_str(), Some(workload.as_str()));
            workloads.insert(key, WorkloadSummary::new(key.0, key.1));
        }
        for pod in simulation.pods() {
            let key = (pod.pod.metadata.namespace.as_str(), pod.workload.as_deref());
            let workload = workloads.entry(key).or_insert_with(|| WorkloadSummary::new(key.0, key.1));
            workload.n_pods += 1;
            match (pod.node(), pod.was_running) {
                (Some(node), _) if !simulation.has_node(node) => summary.n_orphaned += 1,
                (Some(_), true) => summary.n_running += 1,
                (Some(_), false) => summary.n_placed += 1,
                (None, _) => {
                    summary.count_not_running(workload, pod.unadmitted.as_ref().map(|why| why.counted_as()));
                }
            }
            if let Some(node) = pod.node() {
                workload.count_in(simulation.node_label(node, topology_key));
            }
        }
        summary.workloads = workloads.into_values().collect();
        summary
    }

    /// Counts a pod of this workload that does not run, and why; without a reason, a scheduler found no node for it.
    pub fn count_not_running(&mut self, workload: &mut WorkloadSummary, why: Option<UnadmittedState>) {
        let (of_all, of_workload) = match why {
            None => (&mut self.n_unplaced, &mut workload.n_unplaced),
            Some(UnadmittedState::Rejected) => (&mut self.n_rejected, &mut workload.n_rejected),
            Some(UnadmittedState::Waiting | UnadmittedState::Unbound) => {
                (&mut self.n_waiting, &mut workload.n_waiting)
            }
            Some(UnadmittedState::NotCreated) => (&mut self.n_not_created, &mut workload.n_not_created),
        };
        *of_all += 1;
        *of_workload += 1;
    }

    /// Number of pods that do not run.
    pub fn n_not_running(&self) -> usize {
        self.n_unplaced + self.n_rejected + self.n_waiting + self.n_not_created
    }
}

/// Groups unplaced pods: pods of one workload by message, single pods by message and bottleneck.
pub fn failures(simulation: &mut Simulation) -> Vec<Failure> {
    let unplaced: Vec<_> = simulation.pods().iter().filter(|p| p.is_unplaced()).map(Unplaced::of).collect();
    let mut failures: Vec<Failure> = Vec::new();
    let (mut n_explained, budget) = (0, WorkBudget::new(EXPLAIN_STEPS));
    for Unplaced { namespace, name, workload, message, in_group } in unplaced {
        let key = format!("{namespace}/{name}");
        let alike = |f: &&mut Failure| f.workload == workload && f.message == message;
        // The message of a group is that of all its pods, and no pod alone is the reason.
        if (workload.is_some() || in_group)
            && let Some(failure) = failures.iter_mut().find(alike)
        {
            failure.pods.push(key);
            continue;
        }
        let (mut bottleneck, mut n_not_evaluated, mut rollout) = (None, 0, None);
        if n_explained < MAX_EXPLAINED && !in_group {
            n_explained += 1;
            let explanation = simulation.explain_without_repairs(&namespace, &name, None, &budget);
            if let Some(explained) = explanation {
                bottleneck = explained.explanation.bottleneck().cloned();
                n_not_evaluated = explained.explanation.n_not_evaluated;
                rollout = stuck_rollout(simulation, &explained);
            }
        }
        let cause =
            |b: &Option<TermSummary>| b.as_ref().map(|t| (t.plugin, t.term.clone(), t.detail.clone()));
        let alike = |f: &&mut Failure| alike(f) && cause(&f.bottleneck) == cause(&bottleneck);
        match failures.iter_mut().find(alike) {
            Some(failure) => failure.pods.push(key),
            None => failures.push(Failure {
                workload,
                pods: vec![key],
                message,
                bottleneck,
                n_not_evaluated,
                rollout,
            }),
        }
    }
    failures
}

/// Explains failures of a cluster by its state. Pods of a group that is not placed have its reason, not that of a pod, and are one failure.
pub fn explain(failures: &mut Vec<Failure>, simulation: &mut Simulation) {
    let budget = WorkBudget::new(EXPLAIN_STEPS);
    let mut groups = HashMap::new();
    let mut n_explained = 0;
    let mut explained: Vec<Failure> = Vec::new();
    for mut failure in std::mem::take(failures) {
        let mut own = Vec::new();
        for key in std::mem::take(&mut failure.pods) {
            match message_of_group(simulation, &key, &mut groups) {
                None => own.push(key),
                Some(message) => {
                    let alike = |f: &&mut Failure| f.message == message && f.workload == failure.workload;
                    match explained.iter_mut().find(alike) {
                        Some(known) => known.pods.push(key),
                        None => explained.push(Failure { pods: vec![key], message, ..failure.clone() }),
                    }
                }
            }
        }
        failure.pods = own;
        let Some((namespace, name)) = failure.pods.first().and_then(|key| key.split_once('/')) else {
            continue;
        };
        n_explained += 1;
        if n_explained <= MAX_EXPLAINED
            && let Some(explained) = simulation.explain_without_repairs(namespace, name, None, &budget)
        {
            // The message in the pod is that of the last attempt: since then, nodes may have come.
            if let Outcome::Unschedulable { message, .. } = &explained.explanation.outcome {
                failure.message.clone_from(message);
            }
            failure.bottleneck = explained.explanation.bottleneck().cloned();
            failure.n_not_evaluated = explained.explanation.n_not_evaluated;
            failure.rollout = stuck_rollout(simulation, &explained);
        }
        explained.push(failure);
    }
    *failures = explained;
}

/// Why the group of a pod is not placed; none for a pod without a group, or with one that is placed. `known` are those of at most
/// [`MAX_EXPLAINED`] groups.
fn message_of_group(
    simulation: &mut Simulation,
    pod: &str,
    known: &mut HashMap<GroupKey, Option<String>>,
) -> Option<String> {
    let (namespace, name) = pod.split_once('/')?;
    let key = simulation.pod(namespace, name)?.group.clone()?;
    if known.len() < MAX_EXPLAINED && !known.contains_key(&key) {
        let why = simulation.explain_group(namespace, name).and_then(|group| group.message);
        known.insert(key.clone(), why.map(|why| format!("{key}: {why}")));
    }
    known.get(&key).cloned().flatten()
}

/// Why the rolling update of a pod's Deployment is stuck, and the smallest change that lets it proceed.
fn stuck_rollout(simulation: &mut Simulation, explained: &PodExplanation) -> Option<String> {
    let Explanation { namespace, name, .. } = &explained.explanation;
    explained.rollout.clone().or_else(|| {
        let old = simulation.rollout_blocker(namespace, name)?;
        Some(format!(
            "the rolling update is stuck: no node has room for a new pod besides the old ones. It proceeds if {old} stops \
             first: let one pod stop first (maxUnavailable: 1 or more), or add a node"
        ))
    })
}

struct Unplaced {
    namespace: String,
    name: String,
    workload: Option<String>,
    message: String,
    in_group: bool,
}

impl Unplaced {
    fn of(pod: &SimulatedPod) -> Unplaced {
        Unplaced {
            namespace: pod.pod.metadata.namespace.clone(),
            name: pod.pod.metadata.name.clone(),
            workload: pod.workload.clone(),
            message: pod.outcome.message().into_owned(),
            in_group: pod.group.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_input::inventory::Inventory;
    use berth_simulate::SimulationOptions;

    use super::*;

    #[test]
    fn the_pods_of_a_gang_had_the_reason_of_one_pod() {
        let pod = |name: &str, group: &str, cpu: &str| {
            format!(
                "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{{group}containers: [{{name: c, image: x, \
                 resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}\n"
            )
        };
        let (gang, other) =
            ("schedulingGroup: {podGroupName: pg}, ", "schedulingGroup: {podGroupName: other}, ");
        let group = |name: &str| {
            format!(
                "---\n{{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {{name: {name}}}, \
                 spec: {{schedulingPolicy: {{gang: {{minCount: 2}}}}}}}}\n"
            )
        };
        let text = "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 1500m, memory: 1Gi, pods: 9}}}\n".to_owned()
            + &group("pg") + &group("other")
            + &pod("w-0", gang, "1") + &pod("w-1", gang, "1") + &pod("x-0", other, "1") + &pod("x-1", other, "1") + &pod("single", "", "2");
        let inventory = Inventory::from_text(&text).unwrap();
        let mut simulation = Simulation::new(inventory, SimulationOptions::default()).unwrap();
        let failure = |name: &&str| Failure {
            workload: None,
            pods: vec![format!("default/{name}")],
            message: "0/1 nodes are available: 1 Insufficient cpu.".to_owned(),
            bottleneck: None,
            n_not_evaluated: 0,
            rollout: None,
        };
        let mut failures: Vec<_> = ["single", "w-0", "x-1", "w-1"].iter().map(failure).collect();
        failures[0].pods.push("default/x-0".to_owned());
        explain(&mut failures, &mut simulation);
        let expected = [
            ("default/x-0 default/x-1", "pod group default/other: 1 of 2 pods fit, 2 have to;"),
            ("default/single", "0/1 nodes are available: 1 Insufficient cpu."),
            ("default/w-0 default/w-1", "pod group default/pg: 1 of 2 pods fit, 2 have to;"),
        ];
        assert_eq!(failures.len(), expected.len());
        for (failure, (pods, message)) in failures.iter().zip(expected) {
            assert_eq!(failure.pods.join(" "), pods);
            assert!(failure.message.starts_with(message), "{}", failure.message);
        }
        assert!(failures[0].bottleneck.is_none() && failures[1].bottleneck.is_some());
    }
}
