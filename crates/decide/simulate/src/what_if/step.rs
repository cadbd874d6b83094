//! What a step of changes does.

use berth_api::object::NamespacedName;
use serde::Serialize;

use super::before::Before;
use super::departures::Departures;
use crate::simulation::Simulation;

/// The cluster once it has settled after a step: changes that are made together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepOutcome {
    /// The changes in words.
    pub changes: Vec<String>,
    /// Pods that a scheduler found no node for, that are lost, or that an unreachable node has, as `namespace/name`: those first that had a
    /// node before all changes, or are new.
    pub unplaced: Vec<String>,
    /// How many of them had no node before.
    pub unplaced_before: usize,
    /// Why the first of them has none.
    pub message: String,
    /// Pods that do not run on the nodes that they name, or are not created, as `namespace/name`.
    pub not_running: Vec<String>,
    /// Evictions that disruption budgets refuse at this time, as `namespace/name` of the pods.
    pub blocked: Vec<String>,
    /// The budgets that allow no further disruption, as `namespace/name`.
    pub exhausted_budgets: Vec<String>,
}

impl StepOutcome {
    pub(super) fn of(
        changes: Vec<String>,
        simulation: &Simulation,
        before: &Before,
        departures: &Departures,
        exhausted: Vec<NamespacedName>,
    ) -> StepOutcome {
        let pods = || simulation.pods().iter().filter(|pod| !pod.pod.metadata.is_deleting());
        let missing = pods().filter(|pod| pod.is_unplaced());
        let missing = missing.map(|pod| (before.name_of(pod), pod.outcome.message()));
        let lost = departures.lost.iter().map(|(name, why)| (name.clone(), why.into()));
        let stranded = pods().filter_map(|pod| Some((pod, departures.stranded(pod, simulation)?)));
        let stranded = stranded.map(|(pod, why)| (before.name_of(pod), why.into()));
        let was_unplaced = |name: &NamespacedName| before.unplaced.contains(name);
        let mut unplaced: Vec<_> = missing.chain(lost).chain(stranded).collect();
        unplaced.sort_by(|a, b| (was_unplaced(&a.0), a).cmp(&(was_unplaced(&b.0), b)));
        let mut not_running: Vec<_> = pods()
            .filter(|pod| pod.unadmitted.is_some())
            .map(|pod| before.name_of(pod).to_string())
            .collect();
        not_running.sort();
        StepOutcome {
            changes,
            message: unplaced.first().map(|(_, message)| message.clone().into_owned()).unwrap_or_default(),
            unplaced_before: unplaced.iter().filter(|(name, _)| was_unplaced(name)).count(),
            not_running,
            unplaced: unplaced.iter().map(|(name, _)| name.to_string()).collect(),
            blocked: departures.refused.iter().map(|e| format!("{}/{}", e.namespace, e.name)).collect(),
            exhausted_budgets: exhausted.iter().map(ToString::to_string).collect(),
        }
    }

    /// Steps are compared by what is not there: pods, evictions, disruptions.
    pub fn severity(&self) -> (usize, usize, usize) {
        let n_missing = self.unplaced.len() + self.not_running.len();
        (n_missing, self.blocked.len(), self.exhausted_budgets.len())
    }
}
