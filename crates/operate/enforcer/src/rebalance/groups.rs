//! The pending pods and groups, as plans count them: a group as a whole.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use berth_api::object::Pod;
use berth_api::object::group::{GroupKey, GroupKind, GroupRules, PodGroup, rank};
use berth_engine::Cluster;
use berth_mirror::Change;
use berth_rebalance::{Pending, PendingGroup};

/// What is known of the groups of pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    objects: BTreeMap<GroupKey, PodGroup>,
    /// How many pods an owner has at one time.
    owners: BTreeMap<GroupKey, usize>,
}

impl Groups {
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::PodGroupApplied(key, group) => {
                self.objects.insert(key.clone(), PodGroup::clone(group));
            }
            Change::PodGroupDeleted(key) => _ = self.objects.remove(key),
            Change::GroupOwnerChanged(key, Some(n_members)) => {
                self.owners.insert(key.clone(), *n_members);
            }
            Change::GroupOwnerChanged(key, None) => _ = self.owners.remove(key),
            _ => {}
        }
    }

    /// The pods that wait for a node, in the order in which the scheduler tries them, a group when it tries the first of its members.
    pub(super) fn pending<'a>(
        &self,
        mut waiting: Vec<&'a Pod>,
        running: impl Iterator<Item = &'a Pod>,
        cluster: &Cluster,
    ) -> Vec<Pending<'a>> {
        let settings = cluster.settings();
        let rules =
            |key: &GroupKey| self.objects.get(key).map(|object| object.rules(settings.config.feature_gates));
        // The pods of a PodGroup without rules are placed one by one.
        let group_of = |pod: &Pod| {
            GroupKey::of(pod, settings.extensions)
                .filter(|key| rules(key).is_none_or(|rules| rules.is_some()))
        };
        waiting.sort_by_key(|pod| (Reverse(pod.spec.priority.unwrap_or(0)), pod.metadata.creation_timestamp));
        let mut pending: Vec<Pending<'a>> = Vec::new();
        let mut positions: HashMap<GroupKey, usize> = HashMap::new();
        for pod in waiting {
            let key = group_of(pod);
            match key.as_ref().and_then(|key| positions.get(key)) {
                Some(at) => pending[*at].pods.push(pod),
                None => {
                    positions.extend(key.map(|key| (key, pending.len())));
                    pending.push(Pending::from(pod));
                }
            }
        }
        if positions.is_empty() {
            return pending;
        }
        let mut nodes: HashMap<GroupKey, Vec<&str>> = HashMap::new();
        for pod in running {
            if let Some(key) = group_of(pod).filter(|key| positions.contains_key(key)) {
                nodes.entry(key).or_default().push(&pod.spec.node_name);
            }
        }
        for (key, at) in positions {
            let Pending { pods, group } = &mut pending[at];
            pods.sort_by_key(|pod| rank(pod));
            let of_members = GroupRules::of_members(&key, pods.iter().copied());
            let rules = match key.kind {
                // How many pods it has says the owner.
                GroupKind::Owner(_) => {
                    self.owners.get(&key).and_then(|min| Some(GroupRules { min: *min, ..of_members? }))
                }
                _ => rules(&key).unwrap_or(of_members),
            };
            let nodes = nodes.remove(&key).unwrap_or_default();
            *group = Some(PendingGroup::new(rules, pods.len(), &nodes, cluster));
        }
        pending
    }
}
