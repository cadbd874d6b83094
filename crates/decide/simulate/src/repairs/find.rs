//! The search for repairs.

use berth_api::work::WorkBudget;
use berth_engine::{Explanation, Outcome};

use super::change::{Change, Repair};
use super::commands;
use super::trial::{Problem, Trial};
use crate::simulation::Simulation;

impl Simulation {
    /// The cheapest repair of each kind for an unschedulable pod, or with `only` not on that node; the cheapest
    /// first. `explanation` is of the current state. When the budget is spent, kinds that are not found by then are missing.
    pub fn repairs(
        &mut self,
        namespace: &str,
        name: &str,
        only: Option<&str>,
        explanation: &Explanation,
        budget: &WorkBudget,
    ) -> Vec<Repair> {
        let Some(position) = self.position(namespace, name) else { return Vec::new() };
        let Simulation { cluster, nodes, pods, budgets, .. } = self;
        let pod = &pods[position];
        if explanation.running_on.is_some() {
            return Vec::new();
        }
        Trial { cluster, nodes, pods, budgets, pod, only, budget }.repairs(explanation)
    }
}

impl Trial<'_> {
    /// The cheapest repair of each kind, the cheapest first.
    fn repairs(mut self, explanation: &Explanation) -> Vec<Repair> {
        if let Outcome::Gated { gates } = &explanation.outcome {
            return self.without_gates(gates).into_iter().collect();
        }
        if !matches!(explanation.outcome, Outcome::Unschedulable { .. }) {
            return Vec::new();
        }
        let prepared = self.cluster.prepare(&self.pod.pod);
        let Ok(mut rejecting) = self.cluster.rejecting_nodes(&prepared, self.budget) else {
            return Vec::new();
        };
        rejecting.retain(|(node, _)| self.only.is_none_or(|only| only == node));
        let broken = self.cluster.violations().iter().map(|v| v.key()).collect();
        let problem = Problem { rules: self.cluster.rules_of(&self.pod.pod), prepared, rejecting, broken };
        let mut found = Vec::new();
        found.extend(self.change_node(&problem));
        found.extend(self.scale(&problem));
        found.extend(self.move_pods(&problem));
        found.extend(self.request_less(&problem));
        found.extend(self.relax_rules(&problem));
        found.extend(self.add_node(&problem));
        found.sort_by_key(|repair| repair.cost);
        found
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
