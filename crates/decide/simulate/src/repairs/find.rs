//! The search for repairs.

use berth_api::work::WorkBudget;
use berth_engine::{Explanation, Outcome};

use super::change::{Change, Repair};
use super::commands;
use super::trial::{Problem, Trial};
use crate::simulation::{SimulatedPod, Simulation};

impl Simulation {
    /// The cheapest repair of each kind for an unschedulable pod, or with `only` not on that node; if no single kind of change helps,
    /// the cheapest two that help together. Those that reach least come first, then the cheapest. `explanation` is of the current state. When the budget is spent, kinds that are not found by then are missing.
    pub fn repairs(
        &mut self,
        namespace: &str,
        name: &str,
        only: Option<&str>,
        explanation: &Explanation,
        budget: &WorkBudget,
    ) -> Vec<Repair> {
        let Some(position) = self.position(namespace, name) else { return Vec::new() };
        if explanation.running_on.is_some() {
            return Vec::new();
        }
        if self.pods[position].group.is_some() && only.is_none() {
            return self.repairs_of_group(namespace, name, budget);
        }
        let mut found: Vec<_> = self.update_in_place(namespace, name).into_iter().collect();
        let (repairs, problem) = self.trial(&self.pods[position].clone(), only, budget).repairs(explanation);
        found.extend(repairs);
        if let Some(problem) = problem.filter(|_| only.is_none()) {
            self.fit_all(position, &problem, &mut found, budget);
        }
        found.sort_by_key(Repair::rank);
        found
    }

    pub(super) fn trial<'a>(
        &'a mut self,
        pod: &'a SimulatedPod,
        only: Option<&'a str>,
        budget: &'a WorkBudget,
    ) -> Trial<'a> {
        let now = self.pending_for.now();
        let Simulation { cluster, nodes, pods, budget_objects: budgets, devices, .. } = self;
        let (namespaces, policies, runtime_classes) =
            (&self.namespaces, &self.policies, &self.runtime_classes);
        Trial {
            cluster,
            nodes,
            pods,
            namespaces,
            budgets,
            scales: &self.scales,
            policies,
            runtime_classes,
            devices,
            workloads: &self.workloads,
            pod,
            now,
            only,
            budget,
        }
    }

    /// For a rolling update that blocks itself: it stops an old pod first.
    fn update_in_place(&mut self, namespace: &str, name: &str) -> Option<Repair> {
        let workload = self.pod(namespace, name)?.workload.clone();
        let workload = workload.filter(|workload| workload.starts_with("Deployment "))?;
        let old = self.rollout_blocker(namespace, name)?;
        let node = self.pod(old.namespace(), old.name())?.node()?.to_owned();
        let commands = vec![commands::stop_old_pods_first(namespace, &workload)];
        let changes = vec![Change::StopOldPodsFirst { namespace: namespace.to_owned(), workload }];
        Some(Repair::new(changes, node, commands))
    }
}

/// A search for the cheapest change of one kind.
pub(super) type Kind = for<'t, 'p> fn(&mut Trial<'t>, &'p Problem) -> Option<Repair>;

pub(super) const REQUEST_LESS: Kind = |trial, problem| trial.request_less(problem);

/// The kinds of changes besides moves, for which there is a plan.
pub(super) const KINDS: [Kind; 8] = [
    |trial, problem| trial.change_node(problem),
    |trial, problem| trial.scale(problem),
    REQUEST_LESS,
    |trial, problem| trial.honor_taints(problem),
    |trial, problem| trial.relax_rules(problem, false),
    |trial, problem| trial.relax_rules(problem, true),
    |trial, problem| trial.use_other_class(problem),
    |trial, problem| trial.add_node(problem),
];

impl Trial<'_> {
    /// The cheapest repair of each kind, or two that help together, and what keeps the pod off the nodes.
    fn repairs(mut self, explanation: &Explanation) -> (Vec<Repair>, Option<Problem>) {
        if let Outcome::Gated { gates } = &explanation.outcome {
            return (self.without_gates(gates).into_iter().collect(), None);
        }
        if !matches!(explanation.outcome, Outcome::Unschedulable { .. }) {
            return (Vec::new(), None);
        }
        let Some(problem) = self.problem() else { return (Vec::new(), None) };
        let mut found: Vec<_> = KINDS.iter().filter_map(|kind| kind(&mut self, &problem)).collect();
        found.extend(self.move_pods());
        if found.is_empty() {
            found.extend(self.pair(&problem));
        }
        (found, Some(problem))
    }

    fn without_gates(&mut self, gates: &[String]) -> Option<Repair> {
        let mut pod = self.pod.pod.clone();
        pod.spec.scheduling_gates.clear();
        let prepared = self.cluster.prepare(&pod);
        let node = self.place_of(&prepared)?;
        let changes = vec![Change::RemoveGates { gates: gates.to_vec() }];
        let patch = vec![serde_json::json!({"op": "remove", "path": "/spec/schedulingGates"})];
        let commands = vec![commands::patch_pod(&pod, &patch)];
        Some(Repair { patch, ..Repair::new(changes, node, commands) })
    }
}
