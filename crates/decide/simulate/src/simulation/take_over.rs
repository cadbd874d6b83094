//! What a simulation takes over from the one before: its cluster, with the nodes and the running pods that have not changed.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use berth_api::object::{Node, Pod};
use berth_engine::{Cluster, Outcome};
use berth_input::inventory::Entry;

use super::pod::SimulatedPod;
use super::state::Simulation;

impl Simulation {
    /// A pod that runs as it did when this simulation was built.
    pub(super) fn unchanged(&self, pod: &Pod) -> Option<Arc<SimulatedPod>> {
        let metadata = &pod.metadata;
        let same = self.pods.shared(self.position(&metadata.namespace, &metadata.name)?);
        let is_read = metadata.creation_timestamp.is_some()
            && !pod.awaits_node_admission()
            && pod.spec.resource_claims.is_empty()
            && pod.spec.volumes.iter().all(|volume| volume.ephemeral.is_none());
        let is_as_built = same.was_running && same.replaces.is_none() && same.victims.is_empty();
        let is_on_node = same.outcome == Outcome::on(pod.spec.node_name.clone());
        (is_read && is_as_built && is_on_node && same.pod == *pod).then(|| same.clone())
    }

    /// The cluster of the engine with no pods but those that are unchanged, and without the nodes that are gone. Returns the nodes that it
    /// had as well.
    pub(super) fn into_cluster(
        mut self,
        unchanged: &[Option<Arc<SimulatedPod>>],
        nodes: &[Cow<'_, Entry<Node>>],
    ) -> (Cluster, BTreeMap<String, Node>) {
        let unchanged: HashSet<_> = unchanged.iter().flatten().map(Arc::as_ptr).collect();
        for pod in self.pods.iter().filter(|pod| !unchanged.contains(&std::ptr::from_ref(*pod))) {
            let metadata = &pod.pod.metadata;
            self.cluster.remove_pod(&metadata.namespace, &metadata.name);
            self.cluster.clear_nomination(&metadata.namespace, &metadata.name);
        }
        let left: HashSet<&str> = nodes.iter().map(|entry| entry.object.metadata.name.as_str()).collect();
        for node in self.nodes.keys().filter(|node| !left.contains(node.as_str())) {
            self.cluster.remove_node(node);
        }
        (self.cluster, self.nodes)
    }
}
