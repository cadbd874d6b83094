//! Rollouts of StatefulSets.

use std::mem;

use berth_control::stateful_set::{Member, Step, steps};

use super::Steps;
use crate::simulation::rollout::{Rollout, Strategy};

impl Steps<'_> {
    pub(super) fn update_stateful_set(&mut self, rollout: &mut Rollout) -> bool {
        let Strategy::StatefulSet(spec, members) = &mut rollout.strategy else { return false };
        let mut changed = mem::take(&mut members.changed);
        if mem::replace(&mut members.n_vacated, self.simulation.n_vacated) != self.simulation.n_vacated {
            changed.extend(members.states.keys().copied().chain(spec.ordinals.clone()));
        }
        let state = |ordinal: i64| {
            let name = rollout.pod_name(ordinal);
            self.simulation.position(name.namespace(), name.name())?;
            let is_available = self.simulation.is_available(&name);
            let is_updated = !rollout.to_create.contains_key(&ordinal);
            let is_deleting = self.simulation.pod(name.namespace(), name.name())?.pod.metadata.is_deleting();
            Some(Member { is_updated, is_available, is_deleting, is_identified: true, ..Member::default() })
        };
        let states: Vec<_> = changed.into_iter().map(|ordinal| (ordinal, state(ordinal))).collect();
        let Strategy::StatefulSet(spec, members) = &mut rollout.strategy else { return false };
        for (ordinal, state) in states {
            if state.is_none_or(|state| !state.is_available) {
                members.changed.insert(ordinal);
            }
            match state {
                Some(state) => _ = members.states.insert(ordinal, state),
                None => _ = members.states.remove(&ordinal),
            }
        }
        let steps = steps(spec, &members.states);
        // What is created in this step is placed before the next one.
        members.changed.extend(steps.iter().map(|step| match step {
            Step::Create { ordinal, .. } | Step::Delete(ordinal) | Step::Label(ordinal) => *ordinal,
        }));
        let mut has_changed = false;
        for step in steps {
            has_changed |= match step {
                Step::Delete(ordinal) => {
                    let name = rollout.pod_name(ordinal);
                    let at = self.simulation.position(name.namespace(), name.name());
                    at.is_some_and(|at| self.stays_terminating(at)) || self.delete_old(rollout, &name)
                }
                Step::Create { ordinal, .. } => self.create(rollout, ordinal),
                Step::Label(_) => false,
            };
        }
        has_changed
    }

    /// Deletes a pod on a node that cannot be reached: unless that is out of service, nothing ends it there, and its name or its place on the node is not free. Returns
    /// whether that is so.
    pub(super) fn stays_terminating(&mut self, position: usize) -> bool {
        let pod = &self.simulation.pods[position];
        let is_unreachable = pod.node().is_some_and(|node| self.simulation.keeps_terminating(node));
        let owner = pod.pod.metadata.controller().map(|owner| owner.kind.as_str());
        let is_named = matches!(owner, Some("StatefulSet" | "DaemonSet"));
        let is_replaced = owner.is_some() && !is_named;
        if is_unreachable && is_named {
            let pod = &mut self.simulation.pods[position].pod;
            pod.metadata.deletion_timestamp.get_or_insert(self.now);
            self.simulation.creation.expire(pod);
        }
        is_unreachable && !is_replaced
    }
}
