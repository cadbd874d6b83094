//! Rollouts of Deployments.

use berth_api::object::NamespacedName;
use berth_api::rollout::Bounds;
use berth_api::rollout::deployment::{SetSize, new_size, scale_down_old};
use jiff::Timestamp;

use super::Steps;
use super::deletion_order::DeletionOrder;
use crate::simulation::rollout::{Rollout, Strategy};
use crate::simulation::state::Simulation;

/// The work of finding the order of deletion, for each pod.
const LOOKS_OF_ORDER: usize = 100;

/// What a rolling update knows of its pods after a step, so that the next one looks at few of them.
#[derive(Clone)]
pub(crate) struct Progress {
    /// [`Simulation::n_vacated`] at that time: when pods have lost their nodes, all are counted again.
    n_vacated: usize,
    /// The old ReplicaSets.
    old: Vec<SetSize>,
    /// The new one.
    new: SetSize,
    /// The pods that are not available: their positions, and the numbers of their ReplicaSets; none for the new one.
    unavailable: Vec<(usize, Option<usize>)>,
    order: DeletionOrder,
}

impl Progress {
    fn of(rollout: &Rollout, simulation: &Simulation, now: Timestamp) -> Progress {
        let position = |name: &NamespacedName| simulation.position(name.namespace(), name.name());
        let old = rollout.old.iter().filter_map(|old| Some((position(&old.name)?, old.replica_set)));
        let old: Vec<(usize, usize)> = old.collect();
        let new: Vec<usize> = rollout.created.iter().filter_map(position).collect();
        let n_sets = old.iter().map(|(_, set)| set + 1).max().unwrap_or(0);
        let mut progress = Progress {
            n_vacated: simulation.n_vacated,
            old: vec![SetSize::default(); n_sets],
            new: SetSize::default(),
            unavailable: Vec::new(),
            order: DeletionOrder::new(simulation, &old, &new, now),
        };
        let old = old.into_iter().map(|(position, set)| (position, Some(set)));
        for (position, set) in old.chain(new.into_iter().map(|position| (position, None))) {
            let size = progress.size(set);
            size.replicas += 1;
            match simulation.pods()[position].is_available() {
                true => size.available += 1,
                false => progress.unavailable.push((position, set)),
            }
        }
        progress
    }

    fn size(&mut self, set: Option<usize>) -> &mut SetSize {
        match set {
            Some(set) => &mut self.old[set],
            None => &mut self.new,
        }
    }

    /// Counts the pods that have become available. Returns none if the order of deletion has to be found again.
    fn updated(mut self: Box<Progress>, simulation: &Simulation) -> Option<Box<Progress>> {
        if self.n_vacated != simulation.n_vacated {
            return None;
        }
        let is_available =
            |(position, _): &mut (usize, Option<usize>)| simulation.pods()[*position].is_available();
        for (position, set) in self.unavailable.extract_if(.., is_available).collect::<Vec<_>>() {
            if set.is_some() {
                return None;
            }
            self.new.available += 1;
            if let Some(node) = simulation.pods()[position].node() {
                self.order.add(node);
            }
        }
        Some(self)
    }
}

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
        let progress = progress.take().and_then(|progress| progress.updated(self.simulation));
        let mut progress = progress.unwrap_or_else(|| {
            self.n_looks += rollout.n_pods() * LOOKS_OF_ORDER;
            Box::new(Progress::of(rollout, self.simulation, self.now))
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
