//! Repairs of the pods of a rollout, which have to let all of it complete.

use berth_api::object::NamespacedName;
use berth_api::work::WorkBudget;

use super::change::{Change, Repair};
use super::made::changed_pod;
use super::requests::{EXPLAIN_STEPS, lacking_resources, least_reduction};
use crate::simulation::Simulation;

/// Nodes that are added at most.
const MAX_ADDED: usize = 8;

/// The first repair of a pod that `completes` the rollout of its workload: with the largest requests, or the fewest nodes, that are enough
/// for all of it.
pub(crate) fn rollout_repairs(
    simulation: &mut Simulation,
    name: &NamespacedName,
    mut completes: impl FnMut(&Repair) -> bool,
) -> Option<Repair> {
    let mut repairs = simulation.explain(name.namespace(), name.name(), None)?.repairs;
    // Whether another strategy helps has been tried.
    repairs.retain(|repair| !matches!(repair.changes[..], [Change::StopOldPodsFirst { .. }]));
    let is_less = |change: &Change| matches!(change, Change::RequestLess { .. });
    repairs.into_iter().find_map(|repair| match repair.changes.as_slice() {
        [Change::AddNode { .. }] => (1..=MAX_ADDED).find_map(|n| {
            let repair = Repair { changes: vec![repair.changes[0].clone(); n], ..repair.clone() };
            completes(&repair).then_some(repair)
        }),
        changes if changes.iter().all(is_less) => less(simulation, name, &mut completes),
        _ => completes(&repair).then_some(repair),
    })
}

/// The largest requests with which the rollout completes.
fn less(
    simulation: &mut Simulation,
    name: &NamespacedName,
    completes: &mut impl FnMut(&Repair) -> bool,
) -> Option<Repair> {
    let pod = simulation.pod(name.namespace(), name.name())?.clone();
    let budget = WorkBudget::new(EXPLAIN_STEPS);
    let mut trial = simulation.trial(&pod, None, &budget);
    let problem = trial.problem()?;
    least_reduction(lacking_resources(&problem), &trial.requests(), |repair| {
        completes(&repair).then_some(repair)
    })
}

impl Repair {
    /// Makes the changes before the rollout at this position is played: pods of the new template that are not created or have no node are
    /// changed. None for changes that concern other objects.
    pub(crate) fn apply_to_rollout(&self, simulation: &mut Simulation, at: usize) -> Option<()> {
        if self.changes.iter().any(Change::is_of_others) {
            return None;
        }
        simulation.change_nodes(self)?;
        for change in &self.changes {
            if let Change::Move { namespace, name, to, .. } = change {
                simulation.move_pod(namespace, name, to);
            }
        }
        if !self.changes_pod() {
            return Some(());
        }
        for pod in simulation.rollouts[at].to_create.values_mut() {
            pod.pod = changed_pod(&pod.pod, self)?;
        }
        for name in simulation.rollouts[at].created.clone() {
            let position = simulation.position(name.namespace(), name.name());
            let position = position.filter(|position| simulation.pods[*position].node().is_none());
            if let Some(position) = position {
                simulation.pods[position].pod = changed_pod(&simulation.pods[position].pod, self)?;
            }
        }
        Some(())
    }
}
