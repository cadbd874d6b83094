//! Rollouts of Deployments.

use berth_api::rollout::Bounds;
use berth_api::rollout::deployment::{new_size, scale_down_old};

use super::Steps;
use crate::simulation::progress::Progress;
use crate::simulation::rollout::{Rollout, Strategy};

/// The work of finding the order of deletion, for each pod.
const LOOKS_OF_ORDER: usize = 100;

impl Steps<'_> {
    /// Deletes all old pods, then creates the new ones.
    pub(super) fn recreate(&mut self, rollout: &mut Rollout) -> bool {
        let has_changed = !rollout.old.is_empty() || !rollout.to_create.is_empty();
        let old: Vec<_> = rollout.old.iter().map(|old| old.name.clone()).collect();
        old.iter().for_each(|name| _ = self.delete_old(rollout, name));
        self.create_next(rollout, usize::MAX);
        has_changed
    }

    /// Creates pods of the new ReplicaSet, or else deletes pods of the old ones.
    pub(super) fn roll(&mut self, rollout: &mut Rollout, bounds: Bounds) -> bool {
        let Strategy::RollingUpdate(_, progress) = &mut rollout.strategy else { return false };
        let (pods, n_vacated) = (&self.simulation.pods, self.simulation.n_vacated);
        let progress = progress.take().and_then(|progress| progress.updated(pods, n_vacated));
        let mut progress = progress.unwrap_or_else(|| {
            self.n_looks += rollout.n_pods() * LOOKS_OF_ORDER;
            let old = rollout.old.iter().map(|old| (&old.name, old.replica_set));
            Box::new(Progress::of(pods, n_vacated, old, &rollout.created, self.now))
        });
        self.n_looks += progress.unavailable.len();
        let has_changed = self.roll_from(rollout, bounds, &mut progress);
        if let Strategy::RollingUpdate(_, kept) = &mut rollout.strategy {
            *kept = Some(progress);
        }
        has_changed
    }

    fn roll_from(&mut self, rollout: &mut Rollout, bounds: Bounds, progress: &mut Progress) -> bool {
        let size = new_size(rollout.wanted, bounds, progress.new.replicas, &progress.old);
        let n_to_create = usize::try_from(size - progress.new.replicas).unwrap_or(0);
        if n_to_create > 0 && !rollout.to_create.is_empty() {
            let first = self.simulation.pods.len();
            self.create_next(rollout, n_to_create);
            let created = first..self.simulation.pods.len();
            progress.new.replicas += i32::try_from(created.len()).unwrap_or(i32::MAX);
            progress.unavailable.extend(created.map(|position| (position, None)));
            return true;
        }
        let mut old = progress.old.clone();
        let has_changed = scale_down_old(rollout.wanted, bounds, progress.new, &mut old);
        for (set, after) in old.into_iter().enumerate() {
            let n = usize::try_from(progress.old[set].replicas - after.replicas).unwrap_or(0);
            for position in progress.order.take(set, n, self.simulation.pods()) {
                progress.old[set].replicas -= 1;
                match progress.unavailable.iter().position(|(at, _)| *at == position) {
                    Some(at) => _ = progress.unavailable.swap_remove(at),
                    None => progress.old[set].available -= 1,
                }
                let name = self.simulation.pods()[position].pod.metadata.namespaced_name();
                self.delete_old(rollout, &name);
            }
        }
        has_changed
    }
}
