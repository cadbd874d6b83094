//! Rollouts of DaemonSets.

use std::mem;

use berth_api::object::NamespacedName;
use berth_control::daemon_set::{Daemon, steps};

use super::Steps;
use crate::simulation::rollout::{Rollout, Strategy};

impl Steps<'_> {
    pub(super) fn update_daemon_set(&mut self, rollout: &mut Rollout) -> bool {
        let Strategy::DaemonSet(bounds, nodes) = &mut rollout.strategy else { return false };
        let is_there =
            |name: &NamespacedName| self.simulation.position(name.namespace(), name.name()).is_some();
        if mem::replace(&mut nodes.n_vacated, self.simulation.n_vacated) != self.simulation.n_vacated {
            nodes.changed.extend(0..nodes.states.len());
        }
        for at in mem::take(&mut nodes.changed) {
            nodes.pods[at].retain(|(name, _)| is_there(name));
            let daemon = |(name, is_updated): &(NamespacedName, bool)| {
                let is_available = self.simulation.is_available(name);
                let pod = self.simulation.pod(name.namespace(), name.name());
                Daemon {
                    is_updated: *is_updated,
                    is_ready: is_available,
                    is_available,
                    is_deleting: pod.is_some_and(|pod| pod.pod.metadata.is_deleting()),
                    is_terminal: false,
                }
            };
            nodes.states[at].pods = nodes.pods[at].iter().map(daemon).collect();
            if nodes.states[at].pods.iter().any(|pod| !pod.is_available) {
                nodes.changed.insert(at);
            }
        }
        let steps = steps(*bounds, false, &nodes.states);
        // What is created in this step is placed before the next one.
        let changed = steps.create_on.iter().copied().chain(steps.delete.iter().map(|(node, _)| *node));
        nodes.changed.extend(changed);
        let deleted = steps.delete.into_iter().map(|(node, pod)| nodes.pods[node][pod].0.clone());
        let deleted: Vec<_> = deleted.collect();
        for at in &steps.create_on {
            let pod = i64::try_from(*at).ok().and_then(|at| rollout.to_create.get(&at));
            nodes.pods[*at].extend(pod.map(|pod| (pod.pod.metadata.namespaced_name(), true)));
        }
        let mut has_changed = false;
        for name in deleted {
            let at = self.simulation.position(name.namespace(), name.name());
            has_changed |=
                !at.is_some_and(|at| self.stays_terminating(at)) && self.delete_old(rollout, &name);
        }
        for at in steps.create_on {
            has_changed |= i64::try_from(at).is_ok_and(|at| self.create(rollout, at));
        }
        has_changed
    }
}
