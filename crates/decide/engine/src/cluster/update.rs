//! Update: what the cluster is, and the changes that follow.

use berth_api::object::device::{DeviceKind, DeviceObject};
use berth_api::object::{
    GroupKey, Namespace, NamespacedName, Node, Pod, Service, VolumeDecision, VolumeKind, VolumeObject,
};
use berth_input::journal::{AssumedDevices, Entry, GroupClaims, JournaledGroup};
use berth_rules::Selector;

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

use super::{Caches, Cluster};
use crate::state::device::DeviceUsers;
use crate::state::group::GroupDisruption;
use crate::state::pod::prepared::PreparedPod;
use crate::wake::ClusterChange;

impl Cluster {
    /// Adds or changes a namespace.
    pub fn set_namespace(&mut self, namespace: &Namespace) {
        self.state.set_namespace(namespace);
        self.changed(|_| Entry::Namespace(Box::new(namespace.clone())));
    }

    /// Removes a namespace. Pods in it stay until they are removed themselves.
    pub fn remove_namespace(&mut self, name: &str) {
        self.state.remove_namespace(name);
        self.changed(|_| Entry::RemoveNamespace(name.to_owned()));
    }

    /// Adds or changes a service, whose selector default spread constraints use.
    pub fn set_service(&mut self, service: &Service) {
        self.state.set_service(service);
        self.changed(|_| Entry::Service(Box::new(service.clone())));
    }

    /// Removes a service.
    pub fn remove_service(&mut self, namespace: &str, name: &str) {
        self.state.remove_service(namespace, name);
        self.changed(|_| Entry::RemoveService(NamespacedName::new(namespace, name)));
    }

    /// Sets (or with `None` removes) the selector of a `ReplicationController`, `ReplicaSet` or
    /// `StatefulSet`, which default spread constraints of its pods use.
    pub fn set_owner_selector(
        &mut self,
        kind: &str,
        namespace: &str,
        name: &str,
        selector: Option<Selector>,
    ) {
        self.report_owner(kind, namespace, name, selector.as_ref());
        self.state.set_owner_selector(kind, namespace, name, selector);
        self.updated();
    }

    /// Adds or changes a node. Pods that are assigned to it by name begin to count.
    pub fn set_node(&mut self, node: &Node) {
        self.state.set_node(node);
        self.changed(|cluster| Entry::Node(Box::new(cluster.node_as_kept(node))));
    }

    /// The annotations and fields of a node that the state keeps, by key: by these and its other fields a caller sees
    /// whether a node has changed for placement.
    pub fn attributes_to_keep<'a>(&self, node: &'a Node) -> Vec<(Cow<'static, str>, &'a str)> {
        self.state.attributes_to_keep(node)
    }

    /// Epoch: changes when a rule mentions an annotation or a field of nodes that no rule mentioned before. Nodes set
    /// earlier do not have it, and match no rule that mentions it.
    pub fn node_attributes_epoch(&self) -> u32 {
        self.state.attributes.epoch
    }

    /// Removes a node. Its pods stay assigned to it by name, and count nowhere.
    pub fn remove_node(&mut self, name: &str) {
        self.state.remove_node(name);
        self.changed(|_| Entry::RemoveNode(name.to_owned()));
    }

    /// Adds or changes a persistent volume, a claim, a storage class, or another object that decides where pods with
    /// volumes may run.
    pub fn set_volume_object(&mut self, object: VolumeObject) {
        self.report(|_| Entry::VolumeObject(Box::new(object.clone())));
        self.state.set_volume_object(object);
        self.updated();
    }

    /// Removes such an object, if it exists; `namespace` is empty for a cluster-scoped one.
    pub fn remove_volume_object(&mut self, kind: VolumeKind, namespace: &str, name: &str) {
        self.state.remove_volume_object(kind, namespace, name);
        self.changed(|_| Entry::RemoveVolumeObject(kind, NamespacedName::new(namespace, name)));
    }

    /// Adds or changes a slice of devices, a device class, a claim, or another object that decides where pods with claims of
    /// devices may run.
    pub fn set_device_object(&mut self, object: &DeviceObject) {
        self.report(|_| Entry::DeviceObject(Box::new(object.clone())));
        self.state.set_device_object(object);
        self.updated();
    }

    /// Tells the time, in seconds since 1970: devices that are not ready for their pods in time are not waited for.
    pub fn set_now(&mut self, seconds: i64) {
        self.state.devices.now = seconds;
    }

    /// Removes such an object, if it exists; `namespace` is empty for a cluster-scoped one.
    pub fn remove_device_object(&mut self, kind: DeviceKind, namespace: &str, name: &str) {
        self.state.remove_device_object(kind, namespace, name);
        self.changed(|_| Entry::RemoveDeviceObject(kind, NamespacedName::new(namespace, name)));
    }

    /// Sets what a PodGroup says of its pods once they run. Pods that are prepared afterwards have its priority.
    pub fn set_group(&mut self, key: &GroupKey, disruption: GroupDisruption) {
        if self.state.set_group(key, disruption.clone()) {
            self.changed(|_| {
                let GroupDisruption { as_a_whole, priority, levels } = disruption;
                Entry::Group(Box::new(JournaledGroup { key: key.clone(), as_a_whole, priority, levels }))
            });
        }
    }

    /// Sets the claims of devices that the pods of a PodGroup share; none if it has none, or is gone. Without the gate
    /// `DRAWorkloadResourceClaims`, they have no effect.
    pub fn set_group_claims(&mut self, group: &NamespacedName, claims: Option<GroupClaims>) {
        if self.state.set_group_claims(group, claims.clone()) {
            self.changed(|_| Entry::GroupClaims(group.clone(), claims.map(Box::new)));
        }
    }

    /// Removes a PodGroup: its pods are disrupted one by one, with the priority of each.
    pub fn remove_group(&mut self, key: &GroupKey) {
        self.set_group(key, GroupDisruption::default());
    }

    /// Makes room for this many more pods.
    pub fn reserve_pods(&mut self, n_pods: usize) {
        self.state.pods.reserve(n_pods);
    }

    /// Adds or changes an assigned pod (one with `spec.nodeName`). A pod that is not assigned, or has
    /// ended, is removed instead.
    ///
    /// The pod is expected as admitted: defaulted, with matchLabelKeys merged. Returns whether it counts now: it
    /// does not while its node is unknown.
    pub fn set_pod(&mut self, pod: &Pod) -> bool {
        let counts = self.state.set_pod(pod);
        self.changed(|_| Entry::Pod(Arc::new(pod.clone())));
        counts
    }

    /// Adds labels to an assigned or assumed pod, if it exists; they replace those with the same keys.
    pub fn add_pod_labels(&mut self, namespace: &str, name: &str, labels: &[(String, String)]) {
        self.state.add_pod_labels(namespace, name, labels);
        self.changed(|_| {
            Entry::AddLabels(NamespacedName::new(namespace, name), labels.iter().cloned().collect())
        });
    }

    /// Removes a pod, if it exists.
    pub fn remove_pod(&mut self, namespace: &str, name: &str) {
        self.state.remove_pod(namespace, name);
        self.changed(|_| Entry::RemovePod(NamespacedName::new(namespace, name)));
    }

    /// Assigns a pod to a node before the API server knows, as if it ran there. Returns whether the node is
    /// known, so that the pod counts. A later [`Cluster::set_pod`] of the same namespace and name confirms it.
    pub fn assume(&mut self, pod: &PreparedPod, node: &str) -> bool {
        let counts = self.state.assign(pod, node);
        self.changed(|cluster| Entry::Assume(cluster.name_of(pod), node.to_owned()));
        counts
    }

    /// Assumes what a decision says of the pod's claims ([`Outcome::Placed`](crate::Outcome::Placed)): volumes belong to
    /// the claims that they will be bound to, and claims have the node that their volumes will be provisioned for.
    ///
    /// An assumption ends with [`Cluster::restore_volumes`], or when a newer version of the object is set: one with
    /// another resource version, or without any and with other content.
    pub fn assume_volumes(&mut self, pod: &PreparedPod, node: &str, decision: &VolumeDecision) {
        self.state.assume_volumes(pod.namespace, node, decision);
        self.changed(|cluster| Entry::AssumeVolumes(cluster.assumed(pod, node, decision)));
    }

    /// Takes back what [`Cluster::assume_volumes`] assumed, because the volumes could not be bound.
    pub fn restore_volumes(&mut self, pod: &PreparedPod, decision: &VolumeDecision) {
        self.state.restore_volumes(pod.namespace, decision);
        self.changed(|cluster| Entry::RestoreVolumes(cluster.assumed(pod, "", decision)));
    }

    /// Assumes what a decision says of the pod's claims of devices ([`Outcome::Placed`](crate::Outcome::Placed)): they are
    /// allocated, and reserved for the pod. While they are in flight, no other pod gets those that were not allocated before.
    ///
    /// An assumption ends with [`Cluster::restore_devices`], or when the claim is set with an allocation; that of extended
    /// resources when the claim that is made for the pod is.
    pub fn assume_devices(&mut self, assumed: &AssumedDevices) {
        self.state.assume_devices(assumed);
        self.changed(|_| Entry::AssumeDevices(Box::new(assumed.clone())));
    }

    /// Takes back what [`Cluster::assume_devices`] assumed, because it could not be written.
    pub fn restore_devices(&mut self, assumed: &AssumedDevices) {
        self.state.restore_devices(assumed);
        self.changed(|_| Entry::RestoreDevices(Box::new(assumed.clone())));
    }

    /// Removes an assumed pod, because it could not be bound.
    pub fn forget(&mut self, pod: &PreparedPod) {
        self.state.forget(pod);
        self.changed(|cluster| Entry::RemovePod(cluster.name_of(pod)));
    }

    /// Nominates a pod to a node: from now on the node admits pods of lower or equal priority only where this one
    /// would still fit. A pod has one nomination; a second one replaces the first, and keeps its victims on the same node.
    pub fn nominate(&mut self, pod: &PreparedPod, node: &str) {
        let symbol = self.state.symbols.get(node);
        let victims = symbol.map(|node| self.nominations.victims(pod.namespace, &pod.name, node));
        self.insert_nomination(pod, node, victims.unwrap_or_default());
    }

    /// As [`Cluster::nominate`], for a pod that pods are evicted for: the devices that they leave are kept for it from now on.
    pub fn nominate_for_victims(&mut self, pod: &PreparedPod, node: &str, victims: &[NamespacedName]) {
        let found = victims.iter().filter_map(|victim| {
            let id = self.state.find_pod(victim.namespace(), victim.name())?;
            self.state.pods.get(id).devices.clone()
        });
        let found = found.collect();
        self.insert_nomination(pod, node, found);
    }

    fn insert_nomination(&mut self, pod: &PreparedPod, node: &str, victims: DeviceUsers) {
        let name = self.name_of(pod);
        self.clear_nomination(name.namespace(), name.name());
        let symbol = self.state.symbols.intern(node);
        self.nominations.insert(pod, symbol, victims.clone());
        self.report(|_| Entry::Nominate(name, node.to_owned()));
        if !victims.is_empty() {
            let victims = victims.iter().map(|victim| victim.pod.clone()).collect();
            self.report(|cluster| Entry::Victims(cluster.name_of(pod), victims));
        }
    }

    /// Removes a pod's nomination; returns whether it had one.
    ///
    /// Assigning the pod does not do that by itself.
    pub fn clear_nomination(&mut self, namespace: &str, name: &str) -> bool {
        let Some(symbol) = self.state.symbols.get(namespace) else { return false };
        let node = self.nominations.remove(symbol, name);
        let Some(node) = node else { return false };
        if let Some(recorded) = &mut self.recorded {
            recorded.extend(self.state.take_changes().into_iter().map(ClusterChange::from));
            recorded.push(ClusterChange::nomination_cleared(self.state.symbols.shared_text(node)));
        }
        self.state.symbols.release(node);
        self.report(|_| Entry::ClearNomination(NamespacedName::new(namespace, name)));
        true
    }

    /// Starts recording every change for [`Cluster::take_changes`], or stops and drops those recorded. It is off at
    /// first.
    pub fn record_changes(&mut self, on: bool) {
        self.recorded = on.then(Vec::new);
        self.state.replace_recorded(on.then(Vec::new));
    }

    /// The changes recorded since the last call, in order. Take them regularly: they are kept until then.
    pub fn take_changes(&mut self) -> Vec<ClusterChange> {
        let Some(recorded) = &mut self.recorded else { return Vec::new() };
        let mut changes = std::mem::take(recorded);
        changes.extend(self.state.take_changes().into_iter().map(ClusterChange::from));
        changes
    }

    fn changed(&mut self, entry: impl FnOnce(&Cluster) -> Entry) {
        self.updated();
        self.report(entry);
    }

    /// Brings everything above the state up to date with it.
    pub(super) fn updated(&mut self) {
        if let Some(tracker) = &mut self.tracker {
            tracker.absorb(&mut self.state);
        }
        let Caches { views, rejections, .. } = self.caches.get_mut().unwrap_or_else(PoisonError::into_inner);
        for freed in self.state.collect() {
            views.drop_views(freed);
            rejections.drop_views(freed);
        }
    }
}
