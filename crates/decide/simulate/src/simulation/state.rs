//! The state of a simulation, and what it tells.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use berth_api::object::{
    DeviceResources, GroupKey, GroupRules, NamespacedName, Node, Pod, PodStatus, RuntimeClass,
};
use berth_api::policy::PlacementPolicy;
use berth_api::rules::{KnownNamespaces, PodRules};
use berth_engine::{Cluster, DisruptionBudget};
use serde_json::Value;

use super::created_claims::CreatedClaim;
use super::group_placement::GroupPlacement;
use super::options::PendingFor;
use super::pod::{SimulatedPod, Vacated};
use super::pods::Pods;
use super::rollout::Rollout;
use super::workloads::Workloads;

/// A cluster that exists only as text, with pods to place.
///
/// ```
/// use berth_api::inventory::Inventory;
/// use berth_simulate::{Simulation, SimulationOptions};
///
/// let inventory = Inventory::from_text(
///     "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 2, pods: 10}}}
/// ---
/// {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [
///   {name: web, image: web, resources: {requests: {cpu: 3}}}]}}",
/// )?;
/// let mut simulation = Simulation::new(inventory, SimulationOptions::default())?;
/// simulation.run(|_, _| ());
/// assert_eq!(simulation.pods()[0].node(), None);
/// let explained = simulation.explain("default", "web", None).expect("the pod is in the input");
/// let message = explained.explanation.outcome.message();
/// assert!(message.starts_with("0/1 nodes are available: 1 Insufficient cpu. preemption: "), "{message}");
/// assert_eq!(explained.repairs[0].changes[0].to_string(), "request 2 cpu instead of 3 in container web");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Simulation {
    pub(crate) cluster: Cluster,
    /// Whether the proposals' fields are read.
    pub(super) extensions: bool,
    /// All pods, running and pending, in input order.
    pub(crate) pods: Pods,
    /// Positions of pending pods in [`Simulation::pods`], in the order in which they are placed.
    pub(super) queue: Vec<usize>,
    /// Whether unschedulable pods preempt others.
    pub(crate) preempts: bool,
    /// Positions of pods whose preemption made no room: they preempt no more.
    pub(super) vain_preemptors: HashSet<usize>,
    pub(crate) pending_for: PendingFor,
    pub(crate) budgets: Vec<DisruptionBudget>,
    pub(super) warnings: Vec<String>,
    /// The pods of the input that have ended, apart from those that a node rejected and no controller replaces.
    pub(super) ended: BTreeMap<NamespacedName, PodStatus>,
    pub(crate) workloads: Workloads,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(super) namespaces: KnownNamespaces,
    pub(super) device_resources: DeviceResources,
    pub(super) created_claims: Vec<CreatedClaim>,
    /// The PodGroups; without rules, their pods are placed one by one.
    pub(super) pod_groups: BTreeMap<GroupKey, Option<GroupRules>>,
    /// How many pods owners have at one time.
    pub(super) group_owners: BTreeMap<GroupKey, usize>,
    pub(super) group_placements: BTreeMap<GroupKey, GroupPlacement>,
    /// The placement policies of the input.
    pub(crate) policies: Arc<[PlacementPolicy]>,
    /// Its runtime classes.
    pub(crate) runtime_classes: Arc<[RuntimeClass]>,
    /// The number of pods that got rules of a placement policy.
    pub(super) policy_uses: BTreeMap<String, usize>,
    /// The workloads whose template a later input changed, and the number of their pods before.
    pub(super) rolled_out: Vec<(String, usize)>,
    /// The rollouts to come.
    pub(crate) rollouts: Vec<Rollout>,
    /// Pods that left their nodes, where that is to be undone.
    pub(super) vacated: Option<Vec<Vacated>>,
    /// How often a pod has lost its node.
    pub(super) n_vacated: usize,
}

impl Simulation {
    /// The state: all running pods, and the pending pods that have been placed so far.
    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// The rules of a pod, as the settings read it.
    pub fn rules_of(&self, pod: &Pod) -> PodRules {
        self.cluster.rules_of(pod)
    }

    /// The position of a pod in [`Simulation::pods`]. It changes when another pod is removed: the last pod takes its position.
    pub fn position(&self, namespace: &str, name: &str) -> Option<usize> {
        self.pods.position(namespace, name)
    }

    /// All pods, in input order.
    pub fn pods(&self) -> &[SimulatedPod] {
        &self.pods
    }

    /// A pod by namespace and name.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&SimulatedPod> {
        Some(&self.pods[self.position(namespace, name)?])
    }

    /// The pods of the input that have ended and are not in [`Simulation::pods`].
    pub fn ended(&self) -> &BTreeMap<NamespacedName, PodStatus> {
        &self.ended
    }

    /// Namespace and name (such as `Deployment web`) of every workload of the input that no other workload owns. A
    /// workload may have no pods.
    pub fn workloads(&self) -> &[(String, String)] {
        &self.workloads.top_level
    }

    /// The placement policies with rules that pods got, and the number of these pods.
    pub fn policy_uses(&self) -> &BTreeMap<String, usize> {
        &self.policy_uses
    }

    /// The workloads whose template a later input changed and whose rollout is complete, and the number of pods that are placed again.
    pub fn rolled_out(&self) -> &[(String, usize)] {
        &self.rolled_out
    }

    /// Warnings about the input.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The pods with fields that decide about placement and that Berth does not support.
    pub fn unsupported_pods(&self) -> impl Iterator<Item = &SimulatedPod> {
        self.pods.iter().filter(|pod| !pod.unsupported.is_empty())
    }

    /// The nodes by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// A node by name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// The namespaces of the input.
    pub fn namespaces(&self) -> &KnownNamespaces {
        &self.namespaces
    }

    /// Number of nodes.
    pub fn n_nodes(&self) -> usize {
        self.cluster.n_nodes()
    }

    /// The value of a label of a node.
    pub fn node_label(&self, node: &str, key: &str) -> Option<&str> {
        self.nodes.get(node)?.metadata.labels.get(key).map(String::as_str)
    }

    /// What the pods of a node request of a resource: milli-CPU of `cpu`, otherwise units.
    pub fn requested(&self, node: &str, resource: &str) -> i64 {
        self.cluster.requested(node, resource)
    }

    /// The values that a label has on the nodes.
    pub fn domains(&self, key: &str) -> BTreeSet<String> {
        self.nodes.values().filter_map(|node| node.metadata.labels.get(key)).cloned().collect()
    }

    /// Whether there is a node of this name.
    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// The names of the nodes.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// The claims that controllers create for the pods, if the inventory keeps whole objects. They name the volumes and
    /// nodes that were decided for them.
    pub fn created_claims(&self) -> impl Iterator<Item = Value> {
        self.created_claims.iter().map(|claim| claim.decided(&self.pods))
    }

    /// What happened to the pod groups with pending pods, by name.
    pub fn groups(&self) -> impl Iterator<Item = &GroupPlacement> {
        self.group_placements.values()
    }
}
