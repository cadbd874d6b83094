//! The pending pods and groups, as plans count them: a group as a whole.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use berth_api::object::group::{CompositePodGroup, GroupIndex, GroupKey, GroupRules, PodGroup, rank};
use berth_api::object::{NamespacedName, Pod};
use berth_engine::Cluster;
use berth_mirror::Change;
use berth_rebalance::Pending;

/// What is known of the groups of pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    objects: BTreeMap<GroupKey, PodGroup>,
    composites: BTreeMap<NamespacedName, CompositePodGroup>,
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
            Change::CompositePodGroup(name, Some(group)) => {
                self.composites.insert(name.clone(), CompositePodGroup::clone(group));
            }
            Change::CompositePodGroup(name, None) => _ = self.composites.remove(name),
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
        let gates = settings.config.feature_gates;
        let (objects, composites) = (self.objects.values(), self.composites.values());
        let index = GroupIndex::new(objects, composites, self.owners.clone(), gates);
        let own = |pod: &Pod| GroupKey::of(pod, settings.extensions);
        let group_of = |pod: &Pod| index.group_of(pod, settings.extensions);
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
        let mut members: HashMap<GroupKey, Vec<_>> = HashMap::new();
        for pod in running {
            if let Some(key) = group_of(pod).filter(|key| positions.contains_key(key)) {
                members.entry(key).or_default().push((own(pod), pod.spec.node_name.clone()));
            }
        }
        for (key, at) in positions {
            let Pending { pods, group } = &mut pending[at];
            pods.sort_by_key(|pod| rank(pod));
            let of_members = GroupRules::of_members(&key, pods.iter().copied());
            let rules = index.rules_of(&key, of_members, None);
            let running = members.remove(&key).unwrap_or_default();
            let of_pods: Vec<_> = pods.iter().map(|pod| own(pod)).collect();
            *group = Some(cluster.remaining_group(&key, rules.as_ref(), &of_pods, &running));
        }
        pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_engine::Settings;
    use berth_rebalance::{Goal, Request, plan};
    use jiff::Timestamp;
    use serde_json::json;

    use super::super::objects::{Exceptions, Objects};
    use super::*;

    /// The pods that find no node: of two groups of two pods, each in a rack, that a CompositePodGroup has together.
    fn n_unplaced(cpus: [u32; 3], has_gate: bool) -> f64 {
        let mut settings = Settings::default();
        settings.config.feature_gates.composite_pod_group = has_gate;
        let (mut cluster, mut objects) = (Cluster::new(settings), Objects::default());
        for (i, cpu) in cpus.into_iter().enumerate() {
            let node = json!({"metadata": {"name": format!("n{i}"), "labels": {"rack": format!("r{i}")}},
                "status": {"allocatable": {"cpu": cpu, "pods": 10}}});
            let node = serde_json::from_value(node).unwrap();
            cluster.set_node(&node);
            objects.apply(&Change::NodeApplied(Box::new(node)));
        }
        let job: CompositePodGroup =
            serde_json::from_value(json!({"metadata": {"name": "job", "namespace": "d"},
            "spec": {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}}))
            .unwrap();
        objects.apply(&Change::CompositePodGroup(job.metadata.namespaced_name(), Some(job.into())));
        for group in ["a", "b"] {
            let object: PodGroup = serde_json::from_value(json!({"apiVersion": "scheduling.k8s.io/v1beta1",
                "metadata": {"name": group, "namespace": "d"},
                "spec": {"parentCompositePodGroupName": "job", "schedulingPolicy": {"gang": {"minCount": 2}},
                    "schedulingConstraints": {"topology": [{"key": "rack"}]}}}))
            .unwrap();
            objects.apply(&Change::PodGroupApplied(object.key(), Box::new(object)));
            for i in 0..2 {
                let pod: Pod = serde_json::from_value(
                    json!({"metadata": {"name": format!("{group}-{i}"), "namespace": "d"},
                    "spec": {"schedulingGroup": {"podGroupName": group},
                        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}),
                )
                .unwrap();
                objects.apply(&Change::PodApplied { pod: Arc::new(pod), is_changed: true });
            }
        }
        let request = Request::new(vec![Goal::Defragment], Timestamp::UNIX_EPOCH);
        objects.ask(cluster, &Exceptions::default(), |input| plan(input, &request)).before[&Goal::Defragment]
    }

    #[test]
    fn groups_of_a_composite_group_count_as_one_unit_each_with_its_topology() {
        assert_eq!(n_unplaced([2, 2, 0], true), 0.0);
        assert_eq!(n_unplaced([2, 1, 1], true), 4.0, "the second group has no rack");
        assert_eq!(n_unplaced([2, 1, 1], false), 2.0, "each is a unit");
    }
}
