//! Pods: those that the API server reports, with or without a node, and those that a scheduler assumes on one.

use std::sync::Arc;

use berth_api::object::{NamespacedName, Pod};
use berth_engine::{Cluster, PreparedPod};

use crate::cache::CacheSync;
use crate::change::Change;
use crate::pod_entries::{Placement, PodEntry};
use crate::pod_ref::PodRef;
use crate::uid::Uid;

impl CacheSync {
    /// A pod as the API server reports it. A pod without a node that is assumed on one stays assumed, since its binding
    /// is in flight. A terminated pod counts as deleted.
    pub(crate) fn apply_pod(&mut self, cluster: &mut Cluster, mut pod: Arc<Pod>, changes: &mut Vec<Change>) {
        self.workloads.join(&mut pod);
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        let key = NamespacedName::new(namespace, name);
        if pod.is_terminal() {
            return self.drop_pod(cluster, &key, changes);
        }
        let uid = Uid::from(pod.metadata.uid.as_str());
        let mut known = self.pods.entries.get(&key).cloned();
        if known.as_ref().is_some_and(|known| known.uid != uid) {
            self.drop_pod(cluster, &key, changes);
            known = None;
        }
        let fingerprint = self.fingerprints.of_pod(&pod);
        let was = known.as_ref().map(|known| known.placement);
        let node = match was {
            Some(Placement::Assumed | Placement::Assigned) => cluster.node_of(namespace, name),
            Some(Placement::Pending) | None => None,
        };
        let is_same = known.is_some_and(|known| known.fingerprint == fingerprint);
        let mut is_changed = !is_same;
        let placement = if !pod.spec.node_name.is_empty() {
            if !is_same || node != Some(&pod.spec.node_name) {
                is_changed = true;
                cluster.set_pod(&pod);
            }
            Placement::Assigned
        } else if was == Some(Placement::Assumed) {
            if let Some(node) = node.filter(|_| !is_same) {
                let mut assumed = Pod::clone(&pod);
                node.clone_into(&mut assumed.spec.node_name);
                cluster.set_pod(&assumed);
            }
            Placement::Assumed
        } else {
            if was == Some(Placement::Assigned) {
                is_changed = true;
                cluster.remove_pod(namespace, name);
            }
            Placement::Pending
        };
        self.pods.insert(key, PodEntry { uid, placement, fingerprint });
        changes.push(Change::PodApplied { pod, is_changed });
    }

    /// A pod has a node and the labels that its binding added, and is otherwise unchanged. Returns false if the state does
    /// not have it there.
    pub(crate) fn confirm_pod(&mut self, cluster: &mut Cluster, pod: &PodRef) -> bool {
        let key = NamespacedName::new(&pod.namespace, &pod.name);
        let is_there = |known: &&PodEntry| {
            known.placement != Placement::Pending
                && known.uid == Uid::from(pod.uid.as_str())
                && cluster.node_of(&pod.namespace, &pod.name) == Some(&pod.node)
        };
        let Some(known) = self.pods.entries.get(&key).filter(is_there).cloned() else { return false };
        self.confirm(cluster, key, known, pod);
        true
    }

    /// Another scheduler bound a pod, which is otherwise as the component has it.
    pub(crate) fn bind_pod(
        &mut self,
        cluster: &mut Cluster,
        pod: &Pod,
        prepared: &PreparedPod,
        bound: &PodRef,
    ) {
        self.assume(cluster, pod, prepared, &bound.node);
        let key = NamespacedName::new(&bound.namespace, &bound.name);
        if let Some(known) = self.pods.entries.get(&key).cloned() {
            self.confirm(cluster, key, known, bound);
        }
    }

    fn confirm(&mut self, cluster: &mut Cluster, key: NamespacedName, mut known: PodEntry, pod: &PodRef) {
        let labels = pod.added_labels.iter().map(|(key, value)| (key, value));
        known.fingerprint.added_labels = self.fingerprints.of_labels(labels);
        self.pods.insert(key, PodEntry { placement: Placement::Assigned, ..known });
        if !pod.added_labels.is_empty() {
            cluster.add_pod_labels(&pod.namespace, &pod.name, &pod.added_labels);
        }
    }

    /// A pod is deleted. Another pod that has its name by now stays.
    pub(crate) fn delete_pod(&mut self, cluster: &mut Cluster, pod: &PodRef, changes: &mut Vec<Change>) {
        let key = NamespacedName::new(&pod.namespace, &pod.name);
        if self.pods.entries.get(&key).is_some_and(|known| known.uid == Uid::from(pod.uid.as_str())) {
            self.drop_pod(cluster, &key, changes);
        }
    }

    /// A list of all pods is complete.
    pub(crate) fn drop_unlisted_pods(&mut self, cluster: &mut Cluster, changes: &mut Vec<Change>) {
        for key in self.pods.entries.unlisted() {
            self.drop_pod(cluster, &key, changes);
        }
    }

    pub(crate) fn drop_pod(
        &mut self,
        cluster: &mut Cluster,
        key: &NamespacedName,
        changes: &mut Vec<Change>,
    ) {
        let Some(entry) = self.pods.remove(key) else { return };
        if entry.placement != Placement::Pending {
            cluster.remove_pod(key.namespace(), key.name());
        }
        changes.push(Change::PodDeleted { pod: key.clone(), uid: entry.uid.to_string() });
    }

    /// Puts a pod on a node before the API server knows.
    pub(crate) fn assume(&mut self, cluster: &mut Cluster, pod: &Pod, prepared: &PreparedPod, node: &str) {
        cluster.assume(prepared, node);
        let key = NamespacedName::new(&pod.metadata.namespace, &pod.metadata.name);
        let fingerprint = match self.pods.entries.get(&key) {
            Some(known) => known.fingerprint,
            None => self.fingerprints.of_pod(pod),
        };
        let uid = Uid::from(pod.metadata.uid.as_str());
        self.pods.insert(key, PodEntry { uid, placement: Placement::Assumed, fingerprint });
    }

    /// Reverts an assumption. Returns false if there was none: the API server may have confirmed it meanwhile, and then
    /// the pod stays.
    pub(crate) fn forget(&mut self, cluster: &mut Cluster, pod: &Pod) -> bool {
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        let key = NamespacedName::new(namespace, name);
        let is_assumed = |known: &&PodEntry| {
            known.placement == Placement::Assumed && known.uid == Uid::from(pod.metadata.uid.as_str())
        };
        let Some(known) = self.pods.entries.get(&key).filter(is_assumed).cloned() else { return false };
        self.pods.insert(key, PodEntry { placement: Placement::Pending, ..known });
        cluster.remove_pod(namespace, name);
        true
    }
}

#[cfg(test)]
mod tests {
    use berth_api::object::TOPOLOGY_LABELS;
    use berth_client::StreamEvent;
    use berth_engine::Settings;
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, labels: Value) -> Pod {
        let metadata = json!({"name": name, "namespace": "n", "uid": name, "labels": labels});
        let term = json!({"labelSelector": {"matchLabels": {"app": "new"}}, "topologyKey": "host"});
        let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        let spec = json!({"containers": [{"name": "c"}], "affinity": affinity});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    fn bound(pod: &Pod, node: &str) -> PodRef {
        PodRef { node: node.into(), ..PodRef::of(pod) }
    }

    fn with_node() -> (CacheSync, Cluster) {
        let (mut cache, mut cluster) = (CacheSync::default(), Cluster::new(Settings::default()));
        let node = json!({"metadata": {"name": "a", "labels": {"host": "a"}},
            "status": {"allocatable": {"pods": "10"}}});
        let node = StreamEvent::Apply(serde_json::from_value(node).unwrap());
        cache.apply_node(&mut cluster, node, &mut Vec::new());
        (cache, cluster)
    }

    #[test]
    fn a_pod_that_changes_while_it_is_being_bound_counts_as_it_is_now() {
        let (mut cache, mut cluster) = with_node();
        let changes = &mut Vec::new();
        let assumed = pod("p", json!({"app": "old"}));
        cache.apply_pod(&mut cluster, Arc::new(assumed.clone()), changes);
        let prepared = cluster.prepare(&assumed);
        cache.assume(&mut cluster, &assumed, &prepared, "a");
        let other = cluster.prepare(&pod("other", json!({})));
        assert!(cluster.fits_on(&other, "a"));
        let is_changed = |changes: &[Change]| match changes.last() {
            Some(Change::PodApplied { is_changed, .. }) => *is_changed,
            _ => panic!("the pod was applied"),
        };
        cache.apply_pod(&mut cluster, Arc::new(assumed), changes);
        assert!(!is_changed(changes));

        let changed = pod("p", json!({"app": "new"}));
        cache.apply_pod(&mut cluster, Arc::new(changed.clone()), changes);
        assert!(is_changed(changes));
        assert_eq!((cache.pods.n_placed, cache.pods.n_assumed), (1, 1), "its binding is not confirmed");
        let other = cluster.prepare(&pod("other", json!({})));
        assert!(!cluster.fits_on(&other, "a"));
        assert!(!cache.confirm_pod(&mut cluster, &bound(&changed, "b")), "it was bound elsewhere");
        assert!(cache.confirm_pod(&mut cluster, &bound(&changed, "a")));
        assert!(cache.confirm_pod(&mut cluster, &bound(&changed, "a")));
        assert_eq!((cache.pods.n_placed, cache.pods.n_assumed), (1, 0));
    }

    #[test]
    fn a_pod_that_another_scheduler_binds_counts_there_and_not_where_it_is_assumed() {
        let (mut cache, mut cluster) = with_node();
        let pod = pod("p", json!({"app": "new"}));
        cache.apply_pod(&mut cluster, Arc::new(pod.clone()), &mut Vec::new());
        let prepared = cluster.prepare(&pod);
        cache.assume(&mut cluster, &pod, &prepared, "a");
        let found =
            PodRef { added_labels: vec![(TOPOLOGY_LABELS[1].into(), "z".into())], ..bound(&pod, "b") };
        assert!(!cache.confirm_pod(&mut cluster, &found));
        cache.bind_pod(&mut cluster, &pod, &prepared, &found);
        assert_eq!(cluster.node_of("n", "p"), Some("b"));
        assert_eq!((cache.pods.n_placed, cache.pods.n_assumed), (1, 0));
        assert!(!cache.forget(&mut cluster, &pod), "it is not assumed any more");
        assert!(cache.confirm_pod(&mut cluster, &found));
    }

    #[test]
    fn labels_that_a_binding_adds_count_and_are_no_drift() {
        let (mut cache, mut cluster) = with_node();
        let changes = &mut Vec::new();
        let mut other = pod("other", json!({}));
        let zone = json!({TOPOLOGY_LABELS[1]: "z"});
        other.spec.affinity = serde_json::from_value(json!({"podAntiAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution":
                [{"labelSelector": {"matchLabels": zone}, "topologyKey": "host"}]}}))
        .unwrap();
        let other = cluster.prepare(&other);
        let mut pending = pod("p", json!({}));
        cache.apply_pod(&mut cluster, Arc::new(pending.clone()), changes);
        let prepared = cluster.prepare(&pending);
        cache.assume(&mut cluster, &pending, &prepared, "a");
        assert!(cluster.fits_on(&other, "a"));
        pending.metadata.labels.insert(TOPOLOGY_LABELS[1].to_owned(), "z".to_owned());
        let bound = bound(&pending, "a");
        for _ in 0..2 {
            assert!(cache.confirm_pod(&mut cluster, &bound));
            assert!(!cluster.fits_on(&other, "a"));
            pending.spec.node_name = "a".to_owned();
            assert_eq!(cache.pod_drift(&cluster, &pending, false), None);
        }
    }

    #[test]
    fn another_pod_of_the_same_name_replaces_the_deleted_one() {
        let (mut cache, mut cluster) = (CacheSync::default(), Cluster::new(Settings::default()));
        let mut first = pod("p", json!({}));
        first.spec.node_name = "a".to_owned();
        let mut second = pod("p", json!({}));
        second.metadata.uid = "another".to_owned();
        let mut changes = Vec::new();
        cache.apply_pod(&mut cluster, Arc::new(first.clone()), &mut changes);
        cache.apply_pod(&mut cluster, Arc::new(second), &mut changes);
        let [Change::PodApplied { .. }, Change::PodDeleted { uid, .. }, Change::PodApplied { .. }] =
            &changes[..]
        else {
            panic!("{} changes", changes.len())
        };
        assert_eq!((uid.as_str(), cluster.node_of("n", "p")), ("p", None));
        changes.clear();
        // Its deletion is reported late.
        cache.delete_pod(&mut cluster, &PodRef::of(&first), &mut changes);
        assert!(changes.is_empty());
    }
}
