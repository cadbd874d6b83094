//! Rollouts of Deployments.

use std::collections::HashMap;

use berth_api::object::NamespacedName;
use berth_api::rollout::Bounds;
use berth_api::rollout::deployment::{SetSize, new_size, scale_down_old};

use super::Steps;
use crate::simulation::departure::replica;
use crate::simulation::pod::SimulatedPod;
use crate::simulation::rollout::Rollout;

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
        let n_old = rollout.old.iter().map(|old| old.replica_set + 1).max().unwrap_or(0);
        let mut old = vec![SetSize::default(); n_old];
        for pod in &rollout.old {
            old[pod.replica_set].replicas += 1;
            old[pod.replica_set].available += i32::from(self.simulation.is_available(&pod.name));
        }
        let created = &rollout.created;
        let n_available = created.iter().filter(|name| self.simulation.is_available(name)).count();
        let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let new = SetSize { replicas: count(created.len()), available: count(n_available) };
        let size = new_size(rollout.wanted, bounds, new.replicas, &old);
        let n_to_create = usize::try_from(size - new.replicas).unwrap_or(0);
        if n_to_create > 0 && !rollout.to_create.is_empty() {
            self.create_next(rollout, n_to_create);
            return true;
        }
        let before = old.clone();
        let has_changed = scale_down_old(rollout.wanted, bounds, new, &mut old);
        for (set, (before, after)) in before.iter().zip(&old).enumerate() {
            let n = usize::try_from(before.replicas - after.replicas).unwrap_or(0);
            for name in self.to_delete(rollout, set, n) {
                self.delete_old(rollout, &name);
            }
        }
        has_changed
    }

    /// The pods that a ReplicaSet with too many deletes.
    fn to_delete(&self, rollout: &Rollout, set: usize, n: usize) -> Vec<NamespacedName> {
        if n == 0 {
            return Vec::new();
        }
        let of_set = rollout.old.iter().filter(|old| old.replica_set == set);
        let pods = of_set.filter_map(|old| self.simulation.pod(old.name.namespace(), old.name.name()));
        let mut pods: Vec<_> = pods.collect();
        let mut on_node: HashMap<Option<&str>, usize> = HashMap::new();
        pods.iter().for_each(|pod| *on_node.entry(pod.node()).or_default() += 1);
        let of = |pod: &SimulatedPod| pod.node().is_some();
        let order = |a: &&SimulatedPod, b: &&SimulatedPod| {
            let a = replica(&a.pod, of(a), on_node[&a.node()]);
            a.deletion_order(&replica(&b.pod, of(b), on_node[&b.node()]), self.now)
        };
        // A step deletes few of many pods.
        if n < pods.len() {
            pods.select_nth_unstable_by(n, order);
            pods.truncate(n);
        }
        pods.sort_by(order);
        pods.into_iter().map(|pod| pod.pod.metadata.namespaced_name()).collect()
    }
}
