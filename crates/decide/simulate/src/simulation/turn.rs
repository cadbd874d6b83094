//! Whether a pod can be explained in the state as it is, or only after the pods before it in the queue have been placed.

use std::collections::HashSet;

use berth_engine::Preemption;

use super::state::Simulation;

impl Simulation {
    /// Whether [`Simulation::run_before`] in a simulation that has placed no pod yet would lead to this state: no pod has been placed,
    /// and no pending pod that may come before this one has a node, or pods to preempt.
    pub fn is_in_turn(&mut self, namespace: &str, name: &str) -> bool {
        if self.pods.iter().any(|pod| !pod.was_running && pod.node().is_some()) {
            return false;
        }
        let with = self.placed_with(namespace, name);
        let priority = |i: usize| self.priority(i);
        let Some(own) = self.queue.iter().find(|i| with.contains(i)).map(|i| priority(*i)) else {
            return true;
        };
        let before: Vec<usize> =
            self.queue.iter().copied().filter(|i| !with.contains(i) && priority(*i) >= own).collect();
        let mut known = HashSet::new();
        before.into_iter().all(|i| {
            if self.pods[i].group.is_some() {
                return false;
            }
            let pending = self.pending_for.of(&self.pods[i].pod);
            let pod = self.cluster.prepare(&self.pods[i].pod);
            if !known.insert(self.cluster.equivalence(&pod))
                && self.cluster.relaxable(&pod, pending).is_empty()
            {
                return true;
            }
            self.cluster.decide(&pod).node().is_none()
                && self.cluster.decide_relaxed(&pod, pending).is_none()
                && !(self.preempts
                    && matches!(self.cluster.preempt(&pod, &self.budgets), Preemption::Victims(_)))
        })
    }
}
