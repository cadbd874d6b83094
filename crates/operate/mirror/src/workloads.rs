//! The groups that Workloads make of the pods of a Deployment or a StatefulSet.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::object::group::{GroupKey, PodGroup};
use berth_api::object::{NamespacedName, Pod};

/// Workloads that name such a controller, by the group of its pods.
#[derive(Default)]
pub(crate) struct Workloads {
    /// If several name one controller, the first by name counts.
    groups: BTreeMap<GroupKey, BTreeMap<NamespacedName, PodGroup>>,
    is_changed: bool,
}

impl Workloads {
    /// Sets the group of a Workload; none: it was deleted, or names another controller. Returns the groups that are others now.
    pub(crate) fn set(
        &mut self,
        name: NamespacedName,
        group: Option<PodGroup>,
    ) -> Vec<(GroupKey, Option<PodGroup>)> {
        let before = self.groups.iter().find(|(_, workloads)| workloads.contains_key(&name));
        let mut keys: Vec<GroupKey> = before.map(|(key, _)| key.clone()).into_iter().collect();
        if let Some(key) = keys.first()
            && let Some(workloads) = self.groups.get_mut(key)
        {
            workloads.remove(&name);
        }
        if let Some(group) = group {
            let key = group.key();
            self.is_changed |= !self.groups.contains_key(&key);
            self.groups.entry(key.clone()).or_default().insert(name, group);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let n_before = self.groups.len();
        self.groups.retain(|_, workloads| !workloads.is_empty());
        self.is_changed |= self.groups.len() != n_before;
        keys.into_iter().map(|key| (key.clone(), self.first(&key).cloned())).collect()
    }

    fn first(&self, key: &GroupKey) -> Option<&PodGroup> {
        self.groups.get(key)?.values().next()
    }

    /// Whether other controllers are named than when this was called last.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Makes a pod a member of the group of its controller.
    pub(crate) fn join(&self, pod: &mut Arc<Pod>) {
        if !self.groups.is_empty()
            && let Some(member) = GroupKey::join_workload(pod, |key| self.groups.contains_key(key))
        {
            *pod = Arc::new(member);
        }
    }
}
