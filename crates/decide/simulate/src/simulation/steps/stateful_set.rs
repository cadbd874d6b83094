//! Rollouts of StatefulSets.

use std::collections::{HashMap, HashSet};

use berth_api::object::NamespacedName;
use berth_api::rollout::stateful_set::{Member, Step, steps};

use super::Steps;
use crate::simulation::rollout::{Rollout, Strategy};

impl Steps<'_> {
    pub(super) fn update_stateful_set(&mut self, rollout: &mut Rollout) -> bool {
        let Strategy::StatefulSet(spec) = &rollout.strategy else { return false };
        let created: HashSet<&NamespacedName> = rollout.created.iter().collect();
        let mut members = HashMap::new();
        for ordinal in spec.ordinals.clone() {
            let name = rollout.pod_name(ordinal);
            if self.simulation.position(name.namespace(), name.name()).is_some() {
                let is_available = self.simulation.is_available(&name);
                let is_updated = created.contains(&name);
                let member = Member { is_updated, is_available, is_identified: true, ..Member::default() };
                members.insert(ordinal, member);
            }
        }
        let mut has_changed = false;
        for step in steps(spec, &members) {
            has_changed |= match step {
                Step::Delete(ordinal) => self.delete_old(rollout, &rollout.pod_name(ordinal)),
                Step::Create { ordinal, .. } => self.create(rollout, ordinal),
                Step::Label(_) => false,
            };
        }
        has_changed
    }
}
