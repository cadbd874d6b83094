//! Query: what is known of the cluster.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use berth_api::object::Pod;
use berth_api::object::group::{GroupKey, GroupRules, RemainingGroup};
use berth_rules::PodRules;

use super::{Caches, Cluster};
use crate::device::{self, DeviceModel, DevicesOfNode};
use crate::state::Settings;

impl Cluster {
    /// The settings it was made with.
    pub fn settings(&self) -> &Settings {
        &self.state.settings
    }

    /// Number of nodes.
    pub fn n_nodes(&self) -> usize {
        self.state.nodes.len()
    }

    /// Whether a node exists.
    pub fn has_node(&self, name: &str) -> bool {
        self.state.find_node(name).is_some()
    }

    /// The value of a label of a node.
    pub fn node_label(&self, node: &str, key: &str) -> Option<&str> {
        let node = self.state.nodes.get(self.state.find_node(node)?);
        let value = node.labels.get(self.state.symbols.get(key)?)?;
        Some(self.state.symbols.text(value))
    }

    /// The domain of a node at a level of a group: the value of its label, or that of an attribute of its devices.
    pub fn node_domain(&self, node: &str, key: &str) -> Option<Cow<'_, str>> {
        self.state.domain_value(self.state.nodes.get(self.state.find_node(node)?), key)
    }

    /// Whether devices of a class provide an extended resource.
    pub fn devices_provide(&self, resource: &str) -> bool {
        self.state.devices.class_of_resource(resource).is_some()
    }

    /// Whether decisions may search for devices.
    pub fn has_device_classes(&self) -> bool {
        self.state.devices.has_classes()
    }

    /// The devices that a node can use, and what keeps each from being allocated; none for an unknown node.
    pub fn devices_of_node(&self, node: &str) -> DevicesOfNode {
        let node = self.state.find_node(node).map(|id| self.state.nodes.get(id));
        node.map_or_else(DevicesOfNode::default, |node| device::devices_of(&self.state, node))
    }

    /// The devices of all nodes, counted by model, and how many claims for one of each fit.
    pub fn device_models(&self) -> Vec<DeviceModel> {
        device::models(&self.state)
    }

    /// Searches for devices on a node that ended at their limit of steps, since the cluster was made.
    pub fn n_cut_device_searches(&self) -> u64 {
        self.state.devices.n_cut_searches.load(Ordering::Relaxed)
    }

    /// Searches for places of a group that ended at their limit of evaluations, since the cluster was made.
    pub fn n_cut_group_searches(&self) -> u64 {
        self.state.n_cut_group_searches
    }

    /// How many nodes were evaluated to place pods, each as often as it was, since the cluster was made. A decision evaluates
    /// the nodes that changed since the last one by the same rules; that a pod fits no node is found out separately.
    pub fn n_evaluated_nodes(&self) -> u64 {
        self.caches().views.n_evaluated()
    }

    /// What the pods of a node request of a resource: milli-CPU of `cpu`, otherwise units; 0 for an unknown node.
    pub fn requested(&self, node: &str, resource: &str) -> i64 {
        let Some(node) = self.state.find_node(node).map(|id| self.state.nodes.get(id)) else { return 0 };
        let requested = &node.requested;
        match resource {
            "cpu" => requested.milli_cpu,
            "memory" => requested.memory,
            "ephemeral-storage" => requested.ephemeral_storage,
            "pods" => i64::try_from(node.pods.len()).unwrap_or(i64::MAX),
            _ => self.state.symbols.get(resource).and_then(|name| requested.scalar(name)).unwrap_or(0),
        }
    }

    /// Number of assigned pods, those on unknown nodes included.
    pub fn n_pods(&self) -> usize {
        self.state.pods.len()
    }

    /// Number of entries in each table, by name. Values that neither an object of the cluster nor a prepared pod uses
    /// are in no table.
    pub fn table_sizes(&self) -> BTreeMap<&'static str, usize> {
        let mut sizes = self.state.table_sizes();
        sizes.insert("nominations", self.nominations.len());
        let Caches { views, rejections, .. } = &*self.caches();
        sizes.insert("views", views.len() + rejections.len());
        sizes
    }

    /// Number of counter entries that are not zero; zero once all pods are removed.
    pub fn n_counted(&self) -> usize {
        self.state.n_counted()
    }

    /// Number of pods that are nominated to a node.
    pub fn n_nominations(&self) -> usize {
        self.nominations.len()
    }

    /// The node a pod is nominated to.
    pub fn nomination(&self, namespace: &str, name: &str) -> Option<&str> {
        let node = self.nominations.node(self.state.symbols.get(namespace)?, name)?;
        Some(self.state.symbols.text(node))
    }

    /// The node a pod is assigned to (or assumed on); none if the pod is not in the cluster's state.
    pub fn node_of(&self, namespace: &str, name: &str) -> Option<&str> {
        let pod = self.state.find_pod(namespace, name)?;
        Some(self.state.symbols.text(self.state.pods.get(pod).node_name))
    }

    /// Why rules between pods of an assigned pod cannot be read, with their path: they have no effect.
    pub fn rule_error(&self, namespace: &str, name: &str) -> Option<&str> {
        let pod = self.state.pods.get(self.state.find_pod(namespace, name)?);
        self.state.rule_sets.get(pod.rule_set).rules().pod_term_error.as_deref()
    }

    /// Whether an assigned pod is of a group that is disrupted as a whole.
    pub fn is_disrupted_as_group(&self, namespace: &str, name: &str) -> bool {
        let pod = self.state.find_pod(namespace, name);
        pod.is_some_and(|pod| self.state.groups.as_a_whole(self.state.pods.get(pod).group).is_some())
    }

    /// Whether the pods of a namespace are exempt from enforcement.
    pub fn is_exempt(&self, namespace: &str) -> bool {
        let settings = self.settings();
        settings.extensions && settings.exempt_namespaces.iter().any(|exempt| exempt == namespace)
    }

    /// The rules of a pod, as this cluster's settings read it.
    pub fn rules_of(&self, pod: &Pod) -> PodRules {
        self.state.rules_of(pod)
    }

    /// What is left to decide of a group; see [`GroupRules::remaining`].
    pub fn remaining_group(
        &self,
        key: &GroupKey,
        rules: Option<&GroupRules>,
        pending: &[Option<GroupKey>],
        running: &[(Option<GroupKey>, String)],
    ) -> RemainingGroup {
        let domain_of = |node: &str, key: &str| self.node_domain(node, key).map(Cow::into_owned);
        match rules {
            Some(rules) => rules.remaining(key.kind, pending, running, &domain_of),
            None => RemainingGroup {
                problem: Some("its PodGroup is not known".to_owned()),
                ..RemainingGroup::default()
            },
        }
    }

    /// Epoch: when it changes, cached [`Equivalence`](crate::Equivalence) values are stale.
    pub fn signature_epoch(&self) -> usize {
        self.state.signature_epoch()
    }
}
