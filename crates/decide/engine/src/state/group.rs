//! The pod groups of assigned pods: their priority, and whether their pods are disrupted together.
//!
//! Pods and PodGroups arrive in any order, so that the members of every group are kept. Pods without a group have no part in this.

use std::collections::HashMap;
use std::sync::Arc;

use berth_api::feature_gates::VersionChange;
use berth_api::object::group::{GroupKind, TopologyLevel};
use berth_api::object::{GroupKey, Pod, PodGroup};
use rustc_hash::FxHashMap;

use super::State;
use super::ids::PodId;

/// What a PodGroup says of its pods once they run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupDisruption {
    /// They are preempted and evicted together or not at all.
    pub as_a_whole: bool,
    /// Instead of the priority of each.
    pub priority: Option<i32>,
    /// The topologies whose domains their replacements share, if all of them are evicted.
    pub levels: Vec<TopologyLevel>,
}

impl From<&PodGroup> for GroupDisruption {
    fn from(group: &PodGroup) -> GroupDisruption {
        let as_a_whole = group.is_disrupted_as_a_whole();
        let levels = if as_a_whole { group.levels() } else { Vec::new() };
        GroupDisruption { as_a_whole, priority: group.spec.priority, levels }
    }
}

/// The group of a pod, and the priority that the pod has by itself.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(super) key: Arc<GroupKey>,
    pub(super) priority: i32,
}

/// A group with assigned pods, or with rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupId(u32);

#[derive(Clone)]
struct GroupRecord {
    key: Arc<GroupKey>,
    disruption: GroupDisruption,
    /// With the priority that each has by itself.
    members: FxHashMap<PodId, i32>,
}

/// Names are what users send: the hasher is keyed.
#[derive(Clone, Default)]
pub(crate) struct Groups {
    slots: Vec<Option<GroupRecord>>,
    free: Vec<GroupId>,
    by_key: HashMap<Arc<GroupKey>, GroupId>,
}

impl Groups {
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    fn get(&self, id: GroupId) -> &GroupRecord {
        self.slots[id.0 as usize].as_ref().expect("group ids are only kept for groups that exist")
    }

    fn get_mut(&mut self, id: GroupId) -> &mut GroupRecord {
        self.slots[id.0 as usize].as_mut().expect("group ids are only kept for groups that exist")
    }

    fn intern(&mut self, key: &Arc<GroupKey>) -> GroupId {
        if let Some(id) = self.by_key.get(key) {
            return *id;
        }
        let record = GroupRecord {
            key: key.clone(),
            disruption: GroupDisruption::default(),
            members: FxHashMap::default(),
        };
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            GroupId(self.slots.len() as u32 - 1)
        });
        self.slots[id.0 as usize] = Some(record);
        self.by_key.insert(key.clone(), id);
        id
    }

    fn remove_if_unused(&mut self, id: GroupId) {
        let group = self.get(id);
        if group.members.is_empty() && group.disruption == GroupDisruption::default() {
            self.by_key.remove(&group.key.clone());
            self.slots[id.0 as usize] = None;
            self.free.push(id);
        }
    }

    fn disruption(&self, key: &GroupKey) -> Option<&GroupDisruption> {
        self.by_key.get(key).map(|id| &self.get(*id).disruption)
    }

    /// The topologies of a group that is disrupted as a whole.
    pub(crate) fn levels(&self, group: GroupId) -> &[TopologyLevel] {
        &self.get(group).disruption.levels
    }

    /// The group of a pod, if its pods are disrupted together.
    pub(crate) fn as_a_whole(&self, group: Option<GroupId>) -> Option<GroupId> {
        group.filter(|group| self.get(*group).disruption.as_a_whole)
    }

    pub(crate) fn key(&self, group: GroupId) -> &GroupKey {
        &self.get(group).key
    }

    /// The assigned pods of a group, in any order.
    pub(crate) fn members(&self, group: GroupId) -> impl Iterator<Item = PodId> + '_ {
        self.get(group).members.keys().copied()
    }
}

impl State {
    /// Whether a pod counts as a group where victims are ranked: if its group is disrupted as a whole, and since 1.37 also otherwise.
    pub(crate) fn ranks_as_group(&self, pod: PodId) -> bool {
        let group = self.pods.get(pod).group;
        let is_pod_group = |group: GroupId| self.groups.key(group).kind == GroupKind::Scheduling;
        let all_rank = self.settings.config.feature_gates.has(VersionChange::GroupsPreempt);
        self.groups.as_a_whole(group).is_some() || all_rank && group.is_some_and(is_pod_group)
    }

    pub(super) fn membership(&self, pod: &Pod) -> Option<Membership> {
        let key = GroupKey::of(pod, self.settings.extensions)?;
        Some(Membership { key: Arc::new(key), priority: pod.spec.priority.unwrap_or(0) })
    }

    /// The priority of a pod: that of its group, if it has one.
    pub(super) fn priority_of(&self, pod: &Pod, membership: Option<&Membership>) -> i32 {
        let of_group = membership.and_then(|membership| self.groups.disruption(&membership.key)?.priority);
        of_group.or(pod.spec.priority).unwrap_or(0)
    }

    pub(super) fn membership_of(&self, pod: PodId) -> Option<Membership> {
        let group = self.groups.get(self.pods.get(pod).group?);
        Some(Membership { key: group.key.clone(), priority: *group.members.get(&pod)? })
    }

    pub(super) fn is_member(&self, pod: PodId, membership: Option<&Membership>) -> bool {
        let group = self.pods.get(pod).group.map(|group| self.groups.get(group));
        group.map(|group| (&*group.key, group.members.get(&pod)))
            == membership.map(|membership| (&*membership.key, Some(&membership.priority)))
    }

    pub(super) fn join_group(&mut self, pod: PodId, membership: &Membership) {
        let group = self.groups.intern(&membership.key);
        self.groups.get_mut(group).members.insert(pod, membership.priority);
        self.pods.get_mut(pod).group = Some(group);
        self.members_changed(group);
    }

    pub(super) fn leave_group(&mut self, pod: PodId, group: GroupId) {
        self.groups.get_mut(group).members.remove(&pod);
        self.members_changed(group);
        self.groups.remove_if_unused(group);
    }

    /// Who leaves with a member is another question now: what is known of preemption on the nodes of a group is not valid any more.
    fn members_changed(&mut self, group: GroupId) {
        let group = self.groups.get(group);
        if group.disruption.as_a_whole {
            let nodes = group.members.keys().filter_map(|pod| self.pods.find_by_id(*pod)?.node);
            nodes.for_each(|node| self.relabelled.push(node));
        }
    }

    /// Sets what a PodGroup says of its pods. Returns whether that is new.
    pub(crate) fn set_group(&mut self, key: &GroupKey, disruption: GroupDisruption) -> bool {
        if *self.groups.disruption(key).unwrap_or(&GroupDisruption::default()) == disruption {
            return false;
        }
        let id = self.groups.intern(&Arc::new(key.clone()));
        let group = self.groups.get_mut(id);
        group.disruption = disruption;
        for (pod, own) in &group.members {
            let record = self.pods.get_mut(*pod);
            record.precedence.priority = group.disruption.priority.unwrap_or(*own);
            record.node.into_iter().for_each(|node| self.changes.push(node));
        }
        self.groups.remove_if_unused(id);
        true
    }
}
