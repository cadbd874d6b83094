//! Groups that are evicted as a whole.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use super::{Plan, PodName, Rank, Step, name_of};
use crate::state::group::GroupId;
use crate::state::pod::PodId;
use crate::violation::types::{Target, ViolationKey};

impl Plan<'_, '_> {
    /// The group that a pod is evicted with: one that is disrupted as a whole and has other running pods.
    pub(super) fn whole_group(&self, id: PodId) -> Option<GroupId> {
        let state = self.speculation.state();
        let group = state.groups.as_a_whole(state.pods.get(id).group)?;
        state.groups.members(group).any(|member| member != id).then_some(group)
    }

    /// Evicts all pods of a group that are not being deleted, and places their replacements as a group. Returns whether it did: if not,
    /// `id` is the pod that has no feasible node.
    pub(super) fn evict_group(&mut self, id: PodId, group: GroupId) -> bool {
        let state = self.speculation.state();
        let name = name_of(state, id);
        let mut members: Vec<PodId> =
            state.groups.members(group).filter(|member| !state.pods.get(*member).terminating).collect();
        members.sort_by_cached_key(|member| Rank::of(state, *member));
        let is_released = members.iter().any(|member| self.released.contains(member));
        let levels = state.groups.levels(group).to_vec();
        let savepoint = self.speculation.savepoint();
        let removed: Vec<_> = members.into_iter().map(|member| self.speculation.remove(member)).collect();
        let mut evaluated = self.speculation.evaluate();
        let mut targets = vec![Target::NotRequested; removed.len()];
        let mut obstacle = None;
        if self.options.seek_targets {
            let replacements: Vec<_> = removed.iter().map(|(.., replacement)| replacement.clone()).collect();
            match self.speculation.seek_all(&replacements, &levels) {
                Ok((nodes, by_placing)) => {
                    targets = nodes.into_iter().map(Target::Node).collect();
                    evaluated.then(by_placing);
                }
                Err(why) if is_released => targets = vec![Target::Nowhere(why); removed.len()],
                Err(why) => obstacle = Some(why),
            }
        }
        if let Some(why) = obstacle.or_else(|| self.broken_again(&evaluated)) {
            self.speculation.undo_to(savepoint);
            self.speculation.evaluate();
            let pod = removed.into_iter().find(|(pod, ..)| (pod.namespace, &pod.name) == (name.0, &name.1));
            self.nowhere.extend(pod.map(|(pod, node, _)| (name, (pod, node, why))));
            return false;
        }
        let cured = self.cured_by(&name, evaluated);
        for ((pod, node, _), target) in removed.into_iter().zip(targets) {
            let mut guarded: Vec<PodId> = Vec::new();
            if matches!(target, Target::Node(_)) {
                guarded.extend(self.speculation.state().pods.find(pod.namespace, &pod.name));
            }
            guarded.extend(&cured);
            guarded.retain(|pod| self.guarded.insert(*pod));
            self.evicted.insert((pod.namespace, pod.name.clone()));
            let group = Some(group);
            self.steps.push(Step { pod, node, target, savepoint, needs_match: false, guarded, group });
        }
        true
    }

    /// What the eviction of one pod of a group fixes, that of the group does.
    pub(super) fn share_cures(&self, cures: &mut HashMap<PodName, Vec<ViolationKey>>) {
        let mut of_group: FxHashMap<GroupId, Vec<ViolationKey>> = FxHashMap::default();
        for step in &self.steps {
            let Some(group) = step.group else { continue };
            of_group.entry(group).or_default().extend(cures.get(&step.name()).into_iter().flatten().cloned());
        }
        for keys in of_group.values_mut() {
            keys.sort_unstable();
            keys.dedup();
        }
        for step in &self.steps {
            let keys = step.group.and_then(|group| of_group.get(&group)).filter(|keys| !keys.is_empty());
            if let Some(keys) = keys {
                cures.insert(step.name(), keys.clone());
            }
        }
    }
}
