//! The groups of a cluster: what objects and owners say of them.

use std::collections::BTreeMap;

use super::composite::Hierarchies;
use super::{CompositePodGroup, GroupKey, GroupKind, GroupRules, PodGroup};
use crate::feature_gates::FeatureGates;
use crate::object::Pod;

/// What the objects and the owners of groups say of them.
#[derive(Clone, Debug, Default)]
pub struct GroupIndex {
    /// The PodGroups; without rules, their pods are placed one by one.
    rules: BTreeMap<GroupKey, Option<GroupRules>>,
    hierarchies: Hierarchies,
    /// How many pods owners have at one time.
    pub owners: BTreeMap<GroupKey, usize>,
}

impl GroupIndex {
    pub fn new<'a>(
        groups: impl Iterator<Item = &'a PodGroup> + Clone,
        composites: impl Iterator<Item = &'a CompositePodGroup>,
        owners: BTreeMap<GroupKey, usize>,
        gates: FeatureGates,
    ) -> GroupIndex {
        let rules = groups.clone().map(|group| (group.key(), group.rules(gates))).collect();
        GroupIndex { rules, hierarchies: Hierarchies::new(groups, composites, gates), owners }
    }

    /// Sets the rules of a PodGroup; none: it does not exist. Returns those before.
    pub fn set(&mut self, key: &GroupKey, rules: Option<Option<GroupRules>>) -> Option<Option<GroupRules>> {
        match rules {
            Some(rules) => self.rules.insert(key.clone(), rules),
            None => self.rules.remove(key),
        }
    }

    /// Sets the CompositePodGroups, and the PodGroups that belong to them. Returns the PodGroups whose pods are placed with others now, and
    /// the groups of which the rules changed.
    pub fn set_hierarchies<'a>(
        &mut self,
        groups: impl Iterator<Item = &'a PodGroup>,
        composites: impl Iterator<Item = &'a CompositePodGroup>,
        gates: FeatureGates,
    ) -> [Vec<GroupKey>; 2] {
        let now = Hierarchies::new(groups, composites, gates);
        let before = std::mem::replace(&mut self.hierarchies, now);
        let now = &self.hierarchies;
        [changed(&before.roots, &now.roots), changed(&before.rules, &now.rules)]
    }

    pub fn has_hierarchies(&self) -> bool {
        !self.hierarchies.roots.is_empty()
    }

    /// The group that the pods of a group are placed with: that of the root of its hierarchy.
    pub fn root(&self, key: GroupKey) -> GroupKey {
        self.hierarchies.roots.get(&key).cloned().unwrap_or(key)
    }

    /// The group that a pod is placed with; none if it is placed by itself.
    pub fn group_of(&self, pod: &Pod, extensions: bool) -> Option<GroupKey> {
        let key = self.root(GroupKey::of(pod, extensions)?);
        (self.rules(&key) != Some(None)).then_some(key)
    }

    /// The pod as a member of the group of its controller; see [`GroupKey::join_workload`].
    pub fn join_workload(&self, pod: &Pod) -> Option<Pod> {
        let join = || GroupKey::join_workload(pod, |key| self.rules.contains_key(key));
        if self.rules.is_empty() { None } else { join() }
    }

    /// The rules of a group with an object; inside, none if its pods are placed one by one.
    pub fn rules(&self, key: &GroupKey) -> Option<Option<&GroupRules>> {
        match key.kind {
            GroupKind::Composite => self.hierarchies.rules.get(key).map(Some),
            _ => self.rules.get(key).map(Option::as_ref),
        }
    }

    /// The rules of a group; of one without an object, `of_members` has what its members say. The pods of an owner that is not known are
    /// `n_created`, if that is given.
    pub fn rules_of(
        &self,
        key: &GroupKey,
        of_members: Option<GroupRules>,
        n_created: Option<usize>,
    ) -> Option<GroupRules> {
        match (key.kind, self.rules(key)) {
            (_, Some(rules)) => rules.cloned(),
            (GroupKind::Owner(_), None) => {
                let min = self.owners.get(key).copied().or(n_created)?;
                Some(GroupRules { min, ..of_members? })
            }
            (_, None) => of_members,
        }
    }
}

/// The keys whose values differ.
fn changed<T: PartialEq>(before: &BTreeMap<GroupKey, T>, now: &BTreeMap<GroupKey, T>) -> Vec<GroupKey> {
    let keys = before.keys().chain(now.keys().filter(|key| !before.contains_key(*key)));
    keys.filter(|key| before.get(*key) != now.get(*key)).cloned().collect()
}
