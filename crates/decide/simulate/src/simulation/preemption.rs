//! Preemption in a simulation: victims leave at once, and those with a controller wait for a node again.

use std::collections::BTreeMap;

use berth_api::object::{NamespacedName, Pod};
use berth_engine::{Cluster, DisruptionBudget, Outcome, Preemption, PreparedPod, Victims};

use serde::Serialize;

use super::state::Simulation;

/// The pods that are evicted for a pod.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodPreemption {
    /// The node on which the pod fits then.
    pub node: String,
    /// `namespace/name`, the most important first.
    pub victims: Vec<String>,
    /// How many of them a disruption budget protects.
    pub n_pdb_violations: usize,
    /// The nodes of those that do not run on the node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub elsewhere: BTreeMap<String, String>,
    /// Whether the search across nodes ended at its limit: there may be fewer or less important victims.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
}

impl From<Victims> for PodPreemption {
    fn from(victims: Victims) -> PodPreemption {
        let Victims { node, victims, n_pdb_violations, elsewhere, is_cut, nominations: _ } = victims;
        let victims = victims.iter().map(ToString::to_string).collect();
        let elsewhere = elsewhere.into_iter().map(|(pod, node)| (pod.to_string(), node)).collect();
        PodPreemption { node, victims, n_pdb_violations, elsewhere, is_cut }
    }
}

impl PodPreemption {
    /// The victims, with the nodes of those that do not run on the node.
    pub fn listed_victims(&self) -> String {
        let listed = self.victims.iter().map(|victim| match self.elsewhere.get(victim) {
            Some(node) => format!("{victim} (runs on {node})"),
            None => victim.clone(),
        });
        listed.collect::<Vec<_>>().join(", ")
    }
}

impl Simulation {
    /// Unschedulable pods no longer preempt others.
    pub fn disable_preemption(&mut self) {
        self.preempts = false;
    }

    /// Evicts the victims of a pod that is unschedulable, and places it on their node. Returns the outcome, and the
    /// positions of victims that a controller creates again.
    pub(super) fn preempt(
        &mut self,
        position: usize,
        pod: &PreparedPod,
        mut outcome: Outcome,
    ) -> (Outcome, Vec<usize>) {
        let may_preempt = self.preempts && !self.vain_preemptors.contains(&position);
        let victims = may_preempt.then(|| preempt(&mut self.cluster, &self.budgets, pod, &mut outcome));
        let Some(victims) = victims.flatten() else { return (outcome, Vec::new()) };
        let Victims { node, victims, .. } = victims;
        let by = self.pods[position].pod.metadata.namespaced_name();
        let replaced = victims.iter().filter_map(|victim| self.evict(victim, &by, &node)).collect();
        self.pods[position].victims = victims.into();
        // Rarely the pod does not fit after all: PodTopologySpread counts pods that are being deleted otherwise in trials.
        // A pod with volumes or claims of devices is decided again, because the decision includes them.
        let pending = &self.pods[position].pod;
        let has_claims = !pending.spec.volumes.is_empty() || self.devices.may_be_for(pending);
        if !has_claims && self.cluster.fits_on(pod, &node) {
            self.cluster.assume(pod, &node);
            return (Outcome::on(node), replaced);
        }
        let outcome = self.cluster.place(pod);
        if outcome.node().is_none() {
            self.vain_preemptors.insert(position);
        }
        (outcome, replaced)
    }

    /// Removes a victim. Returns its position if a controller creates it again.
    pub(super) fn evict(
        &mut self,
        victim: &NamespacedName,
        by: &NamespacedName,
        node: &str,
    ) -> Option<usize> {
        let position = self.position(victim.namespace(), victim.name())?;
        let pod = &self.pods[position].pod;
        for budget in self.budgets.iter_mut().filter(|budget| protects(budget, pod)) {
            budget.disruptions_allowed = (budget.disruptions_allowed - 1).max(0);
        }
        self.vacate(position, format!("preempted by {by} on {node}"));
        let evicted = &mut self.pods[position];
        evicted.preempted_by = Some(by.clone());
        (evicted.workload.is_some() || evicted.pod.metadata.controller().is_some()).then_some(position)
    }
}

/// The victims whose eviction makes an unschedulable pod fit. If there are none, the message of the outcome says why, as
/// in the condition of a pod.
pub(crate) fn preempt(
    cluster: &mut Cluster,
    budgets: &[DisruptionBudget],
    pod: &PreparedPod,
    outcome: &mut Outcome,
) -> Option<Victims> {
    let Outcome::Unschedulable { message, .. } = outcome else { return None };
    let preemption = cluster.preempt(pod, budgets);
    if let Some(why) = preemption.message() {
        *message = format!("{message} {why}");
    }
    match preemption {
        Preemption::Victims(victims) => Some(victims),
        _ => None,
    }
}

/// Whether the budget limits evictions of the pod.
fn protects(budget: &DisruptionBudget, pod: &Pod) -> bool {
    let labels = &pod.metadata.labels;
    budget.namespace == pod.metadata.namespace
        && !labels.is_empty()
        && budget.selector.matches(|key| labels.get(key).map(String::as_str))
}
