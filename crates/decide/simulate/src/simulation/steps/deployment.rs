//! Rollouts of Deployments.

use berth_control::deployment::{Spec, plan};

use super::Steps;
use crate::simulation::progress::Progress;
use crate::simulation::rollout::{Rollout, Strategy};

/// The work of finding the order of deletion, for each pod.
const LOOKS_OF_ORDER: usize = 100;

impl Steps<'_> {
    /// Creates pods of the new ReplicaSet, or else deletes pods of the old ones.
    pub(super) fn update_deployment(&mut self, rollout: &mut Rollout, spec: Spec) -> bool {
        let Strategy::Deployment(_, progress) = &mut rollout.strategy else { return false };
        let (pods, n_vacated) = (&self.simulation.pods, self.simulation.n_vacated);
        let progress = progress.take().and_then(|progress| progress.updated(pods, n_vacated));
        let mut progress = progress.unwrap_or_else(|| {
            self.n_looks += rollout.n_pods() * LOOKS_OF_ORDER;
            let old = rollout.old.iter().map(|old| (&old.name, old.replica_set));
            Box::new(Progress::of(pods, n_vacated, old, &rollout.created, self.now))
        });
        self.n_looks += progress.unavailable.len();
        // The old pods are gone at once.
        let next = plan(&spec, Some(progress.new), &progress.old, || false);
        let has_changed = next.goes_on && !(rollout.old.is_empty() && rollout.to_create.is_empty());
        let size = next.new.unwrap_or(0);
        let n_to_create = usize::try_from(size - progress.new.replicas).unwrap_or(0);
        let first = self.simulation.pods.len();
        self.create_next(rollout, n_to_create);
        let created = first..self.simulation.pods.len();
        progress.unavailable.extend(created.map(|position| (position, None)));
        progress.new.replicas = size;
        for (set, after) in next.old.into_iter().enumerate() {
            let n = usize::try_from(progress.old[set].replicas - after).unwrap_or(0);
            for position in progress.order.take(set, n) {
                progress.old[set].replicas -= 1;
                match progress.unavailable.iter().position(|(at, _)| *at == position) {
                    Some(at) => _ = progress.unavailable.swap_remove(at),
                    None => progress.old[set].available -= 1,
                }
                let name = self.simulation.pods()[position].pod.metadata.namespaced_name();
                self.delete_old(rollout, &name);
            }
        }
        if let Strategy::Deployment(_, kept) = &mut rollout.strategy {
            *kept = Some(progress);
        }
        has_changed
    }
}
