//! What a step of changes does.

use berth_api::object::NamespacedName;
use serde::Serialize;

use super::before::Before;
use super::departures::Departures;
use crate::simulation::{SimulatedPod, Simulation, UnadmittedState};

/// The cluster once it has settled after a step: changes that are made together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepOutcome {
    /// The changes in words.
    pub changes: Vec<String>,
    /// Pods without a node that had one before all changes or are new, as `namespace/name`.
    pub unplaced: Vec<String>,
    /// Why the first of them has none.
    pub message: String,
    /// Evictions that disruption budgets refuse at this time, as `namespace/name` of the pods.
    pub blocked: Vec<String>,
    /// The budgets of evicted pods that allow no further disruption, as `namespace/name`.
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
        let is_missing = |pod: &&SimulatedPod| {
            (pod.is_unplaced() || pod.is_unadmitted(UnadmittedState::NotCreated))
                && !pod.pod.metadata.is_deleting()
        };
        let missing = simulation.pods().iter().filter(is_missing);
        let missing = missing.map(|pod| (before.name_of(pod), pod.outcome.message()));
        let is_new = |name: &NamespacedName| {
            !before.unplaced.contains(name) && !before.not_running.contains(&name.to_string())
        };
        let mut unplaced: Vec<_> = missing.filter(|(name, _)| is_new(name)).collect();
        let lost = departures.lost.iter().map(|(name, why)| (name.clone(), why.into()));
        unplaced.extend(lost);
        let stranded = simulation.pods().iter();
        let stranded = stranded.filter_map(|pod| Some((pod, departures.stranded(pod, simulation)?)));
        unplaced.extend(stranded.map(|(pod, why)| (before.name_of(pod), why.into())));
        unplaced.sort();
        StepOutcome {
            changes,
            message: unplaced.first().map(|(_, message)| message.clone().into_owned()).unwrap_or_default(),
            unplaced: unplaced.iter().map(|(name, _)| name.to_string()).collect(),
            blocked: departures.refused.iter().map(|e| format!("{}/{}", e.namespace, e.name)).collect(),
            exhausted_budgets: exhausted.iter().map(ToString::to_string).collect(),
        }
    }

    /// Steps are compared by what is not there: pods, evictions, disruptions.
    pub fn severity(&self) -> (usize, usize, usize) {
        (self.unplaced.len(), self.blocked.len(), self.exhausted_budgets.len())
    }
}
