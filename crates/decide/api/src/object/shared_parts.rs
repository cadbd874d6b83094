//! The parts of pods that equal pods share, so that the many pods of a workload keep them once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use super::{
    Affinity, Container, ContainerStatus, Node, NodeStatus, OwnerReference, Pod, PodSpec, PodStatus, Shared,
    StringMap, Toleration, TopologySpreadConstraint, volume::Volume,
};

/// The parts of pods that are in use, each once.
#[derive(Debug, Default)]
pub struct SharedParts {
    maps: Parts<StringMap>,
    owners: Parts<Vec<OwnerReference>>,
    affinity: Parts<Affinity>,
    tolerations: Parts<Vec<Toleration>>,
    constraints: Parts<Vec<TopologySpreadConstraint>>,
    volumes: Parts<Vec<Volume>>,
    containers: Parts<Vec<Container>>,
    container_statuses: Parts<Vec<ContainerStatus>>,
    /// Of pods without a node: it is different in each of the others.
    specs: Parts<PodSpec>,
    statuses: Parts<PodStatus>,
    node_statuses: Parts<NodeStatus>,
}

impl SharedParts {
    /// Makes the pod share the parts that equal those of other pods. Quantities of equal amounts are equal, however they are written.
    pub fn share(&mut self, pod: &mut Pod) {
        self.share_spec(&mut pod.spec);
        self.share_others(pod);
    }

    /// Makes the node share its status with those of the same size.
    pub fn share_node(&mut self, node: &mut Node) {
        let is_shared = node.status.0.as_ref().is_some_and(|status| Arc::strong_count(status) > 1);
        if !is_shared {
            self.node_statuses.share(&mut node.status);
        }
    }

    /// The same for the specification alone.
    pub fn share_spec(&mut self, shared: &mut Shared<PodSpec>) {
        let is_pending = shared.node_name.is_empty();
        if is_pending && self.specs.replace(shared) {
            return;
        }
        let spec = &mut **shared;
        self.maps.share(&mut spec.node_selector);
        if let Some(affinity) = &mut spec.affinity {
            self.affinity.share(affinity);
        }
        self.tolerations.share(&mut spec.tolerations);
        self.constraints.share(&mut spec.topology_spread_constraints);
        self.volumes.share(&mut spec.volumes);
        self.containers.share(&mut spec.init_containers);
        self.containers.share(&mut spec.containers);
        if is_pending {
            self.specs.share(shared);
        }
    }

    /// The same for all but the specification.
    pub fn share_others(&mut self, pod: &mut Pod) {
        self.maps.share(&mut pod.metadata.labels);
        self.maps.share(&mut pod.metadata.annotations);
        self.owners.share(&mut pod.metadata.owner_references);
        if pod.spec.node_name.is_empty() {
            return self.statuses.share(&mut pod.status);
        }
        let lists = [&pod.status.container_statuses, &pod.status.init_container_statuses];
        if lists.iter().any(|list| !list.is_empty()) {
            let status = &mut *pod.status;
            self.container_statuses.share(&mut status.container_statuses);
            self.container_statuses.share(&mut status.init_container_statuses);
        }
    }
}

/// The values of one type that are in use.
#[derive(Debug)]
struct Parts<T> {
    values: HashSet<Arc<T>>,
    /// At this number of values, the unused ones are removed.
    sweep_at: usize,
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Parts { values: HashSet::new(), sweep_at: 64 }
    }
}

impl<T: Eq + Hash> Parts<T> {
    /// Puts the known value in place of an equal one. False if there is none.
    fn replace(&self, Shared(part): &mut Shared<T>) -> bool {
        let Some(part) = part else { return true };
        let Some(known) = self.values.get(&**part) else { return false };
        *part = Arc::clone(known);
        true
    }

    fn share(&mut self, shared: &mut Shared<T>) {
        if self.replace(shared) {
            return;
        }
        let Shared(Some(part)) = shared else { return };
        if self.values.len() >= self.sweep_at {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.sweep_at = 64.max(self.values.len() * 2);
        }
        self.values.insert(Arc::clone(part));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;

    fn pod(name: &str, app: &str) -> Pod {
        from_value(json!({
            "metadata": {"name": name, "labels": {"app": app}, "annotations": {}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
        }))
        .unwrap()
    }

    #[test]
    fn equal_parts_are_one_until_a_pod_changes_its_own() {
        let mut parts = SharedParts::default();
        let (mut a, mut b, mut c) = (pod("a", "web"), pod("b", "web"), pod("c", "db"));
        [&mut a, &mut b, &mut c].into_iter().for_each(|pod| parts.share(pod));
        assert!(std::ptr::eq(&*a.metadata.labels, &*b.metadata.labels));
        assert!(std::ptr::eq(&*a.spec, &*c.spec));
        c.spec.node_name = "n".to_owned();
        assert!(std::ptr::eq(&*a.spec.containers, &*c.spec.containers));
        assert_ne!(a.metadata.labels, c.metadata.labels);
        b.metadata.labels.insert("app".to_owned(), "cache".to_owned());
        assert_eq!((a.metadata.label("app"), b.metadata.label("app")), (Some("web"), Some("cache")));
        assert!(a.metadata.annotations.0.is_none(), "empty parts take no memory");
    }

    #[test]
    fn a_shared_value_reads_and_writes_like_its_own() {
        let pod = pod("a", "web");
        let read: Pod = from_value(to_value(&pod).unwrap()).unwrap();
        assert_eq!(read, pod);
        let labels: Vec<_> = read.metadata.labels.into_iter().collect();
        assert_eq!(labels, [("app".to_owned(), "web".to_owned())]);
    }

    #[test]
    fn parts_that_no_pod_uses_are_removed() {
        let mut parts = SharedParts::default();
        for i in 0..10_000 {
            parts.share(&mut pod("a", &i.to_string()));
        }
        assert!(parts.maps.values.len() <= 65, "{}", parts.maps.values.len());
    }
}
