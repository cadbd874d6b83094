//! Simulations that follow a cluster: its objects are set and removed one by one, and no pod is placed. Its kubelets admit or
//! reject pods: a pod with a node runs until its status says otherwise.

use std::sync::Arc;

use berth_api::object::{DeviceObject, LabelSelector, NamespacedName, Node, Pod, VolumeObject};
use berth_api::read::Kind;
use berth_control::budget::Scales;
use berth_engine::DisruptionBudget;
use berth_input::inventory::{Inventory, Workload, WorkloadSpec};
use berth_rules::{KnownNamespaces, Selector};

use super::groups::group_owners;
use super::options::PendingFor;
use super::state::Simulation;
use super::volumes;
use super::workloads::Workloads;

impl Simulation {
    /// Sets how long pods have been pending.
    pub fn set_pending_for(&mut self, pending_for: PendingFor) {
        self.pending_for = pending_for;
    }

    /// Adds or changes a node. Returns whether that changed anything.
    pub fn set_node(&mut self, node: Node) -> bool {
        let is_new = self.nodes.get(&node.metadata.name) != Some(&node);
        if is_new {
            self.cluster.set_node(&node);
            self.nodes.insert(node.metadata.name.clone(), node);
        }
        is_new
    }

    /// Adds or changes an object of devices.
    pub(crate) fn set_device(&mut self, object: &DeviceObject) {
        self.devices.set(&mut self.cluster, object);
    }

    /// Removes a node. Returns whether it was there.
    pub fn remove_node(&mut self, name: &str) -> bool {
        self.cluster.remove_node(name);
        self.nodes.remove(name).is_some()
    }

    /// Adds or changes a pod of the API server, with or without a node; one that has ended is removed, unless its node rejected it
    /// and no controller replaces it. Returns whether that changed anything.
    pub fn set_pod(&mut self, pod: Pod) -> bool {
        let pod = self.groups.join_workload(&pod).unwrap_or(pod);
        let metadata = &pod.metadata;
        if pod.is_terminal() && pod.lasting_rejection().is_none() {
            return self.remove_pod(&metadata.namespace, &metadata.name);
        }
        let position = self.position(&metadata.namespace, &metadata.name);
        let workload = match position {
            Some(at) if self.pods[at].pod == pod => return false,
            Some(at) if pod.metadata.owner_references == self.pods[at].pod.metadata.owner_references => {
                self.pods[at].workload.take()
            }
            _ => self.workloads.owner(&pod),
        };
        let epoch = self.cluster.node_attributes_epoch();
        if pod.spec.node_name.is_empty() {
            self.cluster.remove_pod(&pod.metadata.namespace, &pod.metadata.name);
        } else {
            self.cluster.set_pod(&pod);
        }
        let pod = self.simulated(pod, None, workload);
        match position {
            Some(at) => self.pods[at] = pod,
            None => self.pods.push(pod),
        }
        // A rule mentions an annotation or a field of nodes that no rule has mentioned before.
        if self.cluster.node_attributes_epoch() != epoch {
            self.nodes.values().for_each(|node| self.cluster.set_node(node));
        }
        true
    }

    /// Removes a pod. Returns whether it was there.
    pub fn remove_pod(&mut self, namespace: &str, name: &str) -> bool {
        let Some(position) = self.position(namespace, name) else { return false };
        self.cluster.remove_pod(namespace, name);
        self.pods.swap_remove(position);
        true
    }

    /// Takes over what has changed in an inventory, apart from nodes and pods: the objects of these kinds and names were set
    /// or removed. Returns whether pods belong to other workloads now.
    pub fn refresh(&mut self, inventory: &Inventory, changed: &[(Kind, NamespacedName)]) -> bool {
        for (kind, key) in changed {
            let (namespace, name) = (key.namespace(), key.name());
            match kind {
                Kind::Namespace => match inventory.find(*kind, key, &inventory.namespaces) {
                    Some(object) => self.cluster.set_namespace(object),
                    None => self.cluster.remove_namespace(name),
                },
                Kind::Service => match inventory.find(*kind, key, &inventory.services) {
                    Some(service) => self.cluster.set_service(service),
                    None => self.cluster.remove_service(namespace, name),
                },
                Kind::ReplicaSet | Kind::StatefulSet | Kind::ReplicationController => {
                    let owner = inventory.find(*kind, key, &inventory.workloads);
                    let selector = owner.and_then(selector);
                    self.cluster.set_owner_selector(kind.name(), namespace, name, selector);
                }
                Kind::Volume(volume) => match inventory.find(*kind, key, &inventory.volume_objects) {
                    Some(VolumeObject::StorageClass(class)) => {
                        let mut class = class.clone();
                        volumes::wait_for_first_consumer(&mut class);
                        self.cluster.set_volume_object(VolumeObject::StorageClass(class));
                    }
                    Some(object) => self.cluster.set_volume_object(object.clone()),
                    None => self.cluster.remove_volume_object(*volume, namespace, name),
                },
                Kind::Device(device) => match inventory.find(*kind, key, &inventory.device_objects) {
                    Some(object) => self.devices.set(&mut self.cluster, object),
                    None => self.devices.remove(&mut self.cluster, *device, key),
                },
                _ => {}
            }
        }
        let is_changed = |kinds: &[Kind]| changed.iter().any(|(kind, _)| kinds.contains(kind));
        if is_changed(&[Kind::Namespace]) {
            self.namespaces = KnownNamespaces::new(inventory.namespaces.iter().map(|e| &e.object));
        }
        if is_changed(&[Kind::PodDisruptionBudget]) {
            let budgets = inventory.pod_disruption_budgets.iter();
            self.budgets = budgets.clone().map(|budget| DisruptionBudget::from(&budget.object)).collect();
            self.budget_objects = budgets.map(|budget| budget.object.clone()).collect();
        }
        if is_changed(&[
            Kind::PodGroup,
            Kind::CoschedulingPodGroup,
            Kind::CompositePodGroup,
            Kind::GroupWorkload,
        ]) {
            self.set_pod_groups(inventory);
            self.set_group_disruptions(inventory);
            for i in 0..self.pods.len() {
                if let Some(pod) = self.groups.join_workload(&self.pods[i].pod) {
                    if self.cluster.node_of(&pod.metadata.namespace, &pod.metadata.name).is_some() {
                        self.cluster.set_pod(&pod);
                    }
                    self.pods[i].pod = pod;
                }
                self.pods[i].group = self.group_of(&self.pods[i].pod);
            }
        }
        let workloads = [
            Kind::Deployment,
            Kind::ReplicaSet,
            Kind::StatefulSet,
            Kind::DaemonSet,
            Kind::ReplicationController,
            Kind::Job,
            Kind::CronJob,
            Kind::HorizontalPodAutoscaler,
        ];
        if !is_changed(&workloads) {
            return false;
        }
        self.groups.owners = group_owners(inventory);
        self.scales = Arc::new(Scales::new(inventory));
        let workloads = Workloads::new(inventory);
        let are_others = workloads != self.workloads;
        self.workloads = workloads;
        for pod in self.pods.iter_mut().filter(|_| are_others) {
            pod.workload = self.workloads.owner(&pod.pod);
        }
        are_others
    }
}

/// The pods that a workload selects.
fn selector(workload: &Workload) -> Option<Selector> {
    match &workload.spec {
        WorkloadSpec::ReplicaSet(w) | WorkloadSpec::StatefulSet(w) => {
            Selector::parse(w.spec.selector.as_ref()).ok()
        }
        WorkloadSpec::ReplicationController(controller) => {
            let labels = controller.spec.selector.clone();
            Selector::parse(Some(&LabelSelector { match_labels: labels, ..LabelSelector::default() })).ok()
        }
        _ => None,
    }
}
