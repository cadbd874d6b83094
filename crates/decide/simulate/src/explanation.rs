//! The engine's explanation of a pod, with notes about the text of the pod and what would make it fit.

use core::time::Duration;

use berth_api::object::Pod;
use berth_api::work::WorkBudget;
use berth_engine::{Cluster, DisruptionBudget, Explanation, Outcome};
use berth_rules::{dialect_notes, relaxed_rules};
use serde::Serialize;

use crate::device_hints::device_hints;
pub(crate) use crate::repairs::EXPLAIN_STEPS;
use crate::repairs::{CoreTerm, Repair, unsatisfiable_core};
use crate::rolling_update::blocked_by_own_update;
use crate::simulation::{GroupPlacement, PodPreemption, SimulatedPod, Simulation, Unadmitted, preempt};

/// Why a pod fits where it fits, or is unschedulable, and what would change that.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodExplanation {
    #[serde(flatten)]
    pub explanation: Explanation,
    /// Why the pod does not run on the node that it names: the explanation is without `spec.nodeName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unadmitted: Option<Unadmitted>,
    /// Places in the pod that Kubernetes' v1 fields and the proposals' fields read differently.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dialect_notes: Vec<String>,
    /// The required rules that are preferences here, because the pod has been pending for long enough; of a running pod, those
    /// that were relaxed to bind it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub relaxed: Vec<String>,
    /// The preemption that makes a pending pod fit; none if it fits without, or if preemption does not help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<PodPreemption>,
    /// The group of the pod. The explanation is that of the pod alone; that of a pending pod whose group is not placed is that of
    /// its failing member with the others in their places.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupPlacement>,
    /// Why the rolling update of its Deployment is stuck, if its old pods are the reason: one of the hints.
    #[serde(skip)]
    pub rollout: Option<String>,
    /// What else the author of an unschedulable pod has to know.
    pub hints: Vec<String>,
    /// The fewest rules that together exclude all nodes: each of them leaves nodes that the others do not exclude.
    pub core: Vec<CoreTerm>,
    /// Changes that let a pending pod fit, each verified; the cheapest of each kind, the cheapest first.
    pub repairs: Vec<Repair>,
    /// Where no single change helps: says so, and whether several do.
    #[serde(skip)]
    pub without_single_repair: Option<&'static str>,
}

impl PodExplanation {
    /// Asks the engine, and adds notes, hints and the core. With budgets, a pending pod preempts. It does without the required
    /// rules that it has been pending for.
    /// `pods` are all pods of the cluster.
    pub(crate) fn of<'a>(
        cluster: &mut Cluster,
        budgets: Option<&[DisruptionBudget]>,
        pod: &Pod,
        pending: Duration,
        node: Option<&str>,
        pods: impl Iterator<Item = &'a Pod>,
        budget: &WorkBudget,
    ) -> PodExplanation {
        let mut explanation = cluster.explain_assigned(pod, node, budget);
        let (mut preemption, mut relaxed) = (None, relaxed_rules(&pod.metadata));
        let mut prepared = cluster.prepare(pod);
        if explanation.running_on.is_none() {
            let is_unschedulable = matches!(explanation.outcome, Outcome::Unschedulable { .. });
            let decided = is_unschedulable.then(|| cluster.decide_relaxed(&prepared, pending)).flatten();
            relaxed = decided.as_ref().map(|(_, decided)| decided.paths.clone()).unwrap_or_default();
            if let Some((_, decided)) = decided {
                explanation = cluster.explain(pod, &decided.pod, node, budget);
                prepared = decided.pod;
            }
        }
        if let (Some(budgets), None) = (budgets, &explanation.running_on) {
            preemption = preempt(cluster, budgets, &prepared, &mut explanation.outcome).map(Into::into);
        }
        let extensions = cluster.settings().extensions;
        let (mut hints, mut rollout) = (Vec::new(), None);
        if explanation.running_on.is_none() && explanation.outcome.node().is_none() {
            rollout = blocked_by_own_update(&explanation, pod, pods);
            hints.extend(rollout.clone());
            match &explanation.outcome {
                Outcome::Gated { gates } => {
                    hints.push(format!("the scheduling gates {} hold the pod back", gates.join(", ")));
                }
                _ if explanation.n_nodes == 0 => hints.push("add nodes: the cluster has none".to_owned()),
                _ => {}
            }
        }
        if explanation.n_not_evaluated > 0 {
            hints.push(format!(
                "the rules were evaluated one by one on {} of {} nodes only: the pod has too many for all of them",
                explanation.n_nodes - explanation.n_not_evaluated,
                explanation.n_nodes
            ));
        }
        if explanation.blast_radius.is_none() {
            hints.push(
                "the blast radius of its anti-affinity was not measured: that is too much work".to_owned(),
            );
        }
        let core = unsatisfiable_core(&explanation);
        let dialect_notes = dialect_notes(pod, extensions);
        let dialect_notes = dialect_notes.iter().map(|n| format!("{}: {}", n.path, n.text)).collect();
        PodExplanation {
            explanation,
            unadmitted: None,
            dialect_notes,
            relaxed,
            preemption,
            group: None,
            rollout,
            hints,
            core,
            repairs: Vec::new(),
            without_single_repair: None,
        }
    }
}

impl PodExplanation {
    /// A member of a group that is not placed is not placed, wherever it alone fits. The domain of the group is no rule of the pod.
    fn is_of_unplaced_group(&mut self, message: String, within: Option<&(String, String)>) {
        let explanation = &mut self.explanation;
        if explanation.outcome.node().is_some() {
            explanation.outcome = Outcome::Unschedulable { message, plugins: Vec::new() };
        }
        let Some((key, _)) = within else { return };
        let (added, shown) = (format!("spec.nodeSelector[{key}]"), "the topology of the pod group");
        let of_verdicts = explanation.excluded.iter_mut().flat_map(|group| &mut group.verdicts);
        let paths = of_verdicts.filter_map(|verdict| verdict.term.as_mut());
        let paths = paths.chain(explanation.terms.iter_mut().map(|term| &mut term.term));
        let paths = paths.chain(self.core.iter_mut().map(|term| &mut term.term));
        paths.filter(|path| **path == added).for_each(|path| shown.clone_into(path));
    }
}

impl Simulation {
    /// Explains a pod in the current state; with `node`, the groups of nodes contain only that node. None if the
    /// pod does not exist.
    pub fn explain(&mut self, namespace: &str, name: &str, node: Option<&str>) -> Option<PodExplanation> {
        self.explain_within(namespace, name, node, EXPLAIN_STEPS)
    }

    /// As [`Simulation::explain`] with at most as many steps of work for the explanation, and for the search for repairs.
    pub fn explain_within(
        &mut self,
        namespace: &str,
        name: &str,
        node: Option<&str>,
        steps: u64,
    ) -> Option<PodExplanation> {
        let budget = WorkBudget::new(steps);
        let mut explained = self.explain_without_repairs(namespace, name, node, &budget)?;
        if explained.unadmitted.is_some() {
            return Some(explained);
        }
        let budget = WorkBudget::new(steps);
        explained.repairs = self.repairs(namespace, name, node, &explained.explanation, &budget);
        if budget.is_spent() {
            explained.hints.push(format!(
                "there may be other repairs: to look for all of them is more than {steps} steps of work"
            ));
        } else if let Outcome::Unschedulable { .. } = explained.explanation.outcome
            && explained.repairs.iter().all(|repair| repair.changes.len() > 1)
        {
            explained.without_single_repair = Some(match explained.repairs.is_empty() {
                true => "No single change and no pair of changes lets the pod fit",
                false => "No single change lets the pod fit, several together do",
            });
        }
        Some(explained)
    }

    /// As [`Simulation::explain`], for many pods, which share a budget.
    pub fn explain_without_repairs(
        &mut self,
        namespace: &str,
        name: &str,
        node: Option<&str>,
        budget: &WorkBudget,
    ) -> Option<PodExplanation> {
        let simulated = &self.pods[self.position(namespace, name)?];
        let is_pending = simulated.is_unplaced();
        let SimulatedPod { pod, unadmitted, .. } = simulated;
        if let Some(unadmitted) = unadmitted {
            let unadmitted = Unadmitted::clone(unadmitted);
            let mut pod = pod.clone();
            pod.spec.node_name.clear();
            let pods = std::iter::empty();
            let mut explained =
                PodExplanation::of(&mut self.cluster, None, &pod, Duration::ZERO, node, pods, budget);
            let again = if pod.is_terminal() {
                "the pod has failed and never runs: create it again, and "
            } else {
                ""
            };
            explained.hints.insert(0, format!("{again}{}", unadmitted.hint()));
            return Some(PodExplanation { unadmitted: Some(unadmitted), ..explained });
        }
        let mut pod = pod.clone();
        let group = self.explain_group(namespace, name);
        let unplaced = group.as_ref().filter(|group| is_pending && group.message.is_some());
        let failing = unplaced.and_then(|group| group.failing.as_ref());
        let mut others = Vec::new();
        if let Some(failing) = failing {
            pod = self.failing_pod(failing);
            others = self.assume_others(failing);
        }
        let budgets = (self.preempts && unplaced.is_none()).then_some(&*self.budgets);
        let pods = self.pods.iter().map(|p| &p.pod);
        let pending = self.pending_for.of(&pod);
        let mut explained = PodExplanation::of(&mut self.cluster, budgets, &pod, pending, node, pods, budget);
        others.iter().for_each(|other| self.cluster.forget(other));
        if explained.explanation.outcome.node().is_none() {
            explained.hints.extend(self.missing_devices(&pod));
            explained.hints.extend(device_hints(&explained.explanation));
        }
        if let Some(message) = unplaced.and_then(|group| group.message.clone()) {
            let within = failing.and_then(|failing| failing.within.as_ref());
            explained.is_of_unplaced_group(message, within);
        }
        Some(PodExplanation { group, ..explained })
    }
}
