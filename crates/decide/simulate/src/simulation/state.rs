//! The state of a simulation, and what it tells.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use berth_api::object::device::ResourceClaim;
use berth_api::object::group::GroupIndex;
use berth_api::object::{
    GroupKey, NamespacedName, Node, Pod, PodDisruptionBudget, PodStatus, RuntimeClass, Shared,
};
use berth_control::budget::Scales;
use berth_control::pod_gc::{PodNode, is_garbage};
use berth_control::taints::is_unreachable;
use berth_engine::{Cluster, DevicesOfNode, DisruptionBudget, GroupDisruption, Outcome, PreparedPod};
use berth_input::policy::PlacementPolicy;
use berth_rules::{KnownNamespaces, PodRules};
use serde_json::Value;

use super::created_claims::CreatedClaim;
use super::creation::Creation;
use super::devices::{Devices, PodClaim, claims_of};
use super::group_placement::GroupPlacement;
use super::options::PendingFor;
use super::pod::{SimulatedPod, Vacated};
use super::pods::Pods;
use super::rollout::Rollout;
use super::workloads::Workloads;

/// A cluster that exists only as text, with pods to place.
///
/// ```
/// use berth_input::inventory::Inventory;
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
    /// All pods, running and pending, in input order.
    pub(crate) pods: Pods,
    /// Positions of pending pods in [`Simulation::pods`], in the order in which they are placed.
    pub(crate) queue: Vec<usize>,
    /// Whether unschedulable pods preempt others.
    pub(crate) preempts: bool,
    /// Positions of pods whose preemption made no room: they preempt no more.
    pub(super) vain_preemptors: HashSet<usize>,
    pub(crate) pending_for: PendingFor,
    pub(crate) budgets: Vec<DisruptionBudget>,
    /// The same as they were read.
    pub(crate) budget_objects: Arc<[PodDisruptionBudget]>,
    /// Those of the controllers of pods, for budgets.
    pub(crate) scales: Arc<Scales>,
    pub(super) warnings: Vec<String>,
    /// The pods of the input that have ended, apart from those that a node rejected and no controller replaces.
    pub(super) ended: BTreeMap<NamespacedName, Shared<PodStatus>>,
    pub(crate) workloads: Workloads,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) namespaces: KnownNamespaces,
    pub(crate) devices: Devices,
    pub(super) created_claims: Vec<CreatedClaim>,
    /// The claims of volumes for which no scheduler selects a node, though they wait for it.
    pub(super) waiting_claims: HashSet<NamespacedName>,
    /// The claims of volumes of pods with a node that are not bound and never will be, and why.
    pub(super) lost_claims: HashMap<NamespacedName, String>,
    pub(super) groups: GroupIndex,
    /// What PodGroups say of running pods.
    pub(crate) group_disruptions: BTreeMap<GroupKey, GroupDisruption>,
    pub(super) group_placements: BTreeMap<GroupKey, GroupPlacement>,
    /// The placement policies of the input.
    pub(crate) policies: Arc<[PlacementPolicy]>,
    pub(crate) runtime_classes: Arc<[RuntimeClass]>,
    /// The number of pods that got rules of a placement policy.
    pub(super) policy_uses: BTreeMap<String, usize>,
    /// The workloads whose template a later input changed, and the number of their pods before.
    pub(super) rolled_out: Vec<(String, usize)>,
    pub(crate) rollouts: Vec<Rollout>,
    pub(crate) creation: Creation,
    /// Pods that left their nodes, where that is to be undone.
    pub(super) vacated: Option<Vec<Vacated>>,
    /// Members of groups that are being ended while their controllers have created others, with their groups and own groups.
    pub(super) ending_members: Vec<(Option<GroupKey>, Option<GroupKey>, Pod)>,
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
    pub fn pods(&self) -> &Pods {
        &self.pods
    }

    pub fn pod(&self, namespace: &str, name: &str) -> Option<&SimulatedPod> {
        Some(&self.pods[self.position(namespace, name)?])
    }

    /// The pods of the input that have ended and are not in [`Simulation::pods`].
    pub fn ended(&self) -> &BTreeMap<NamespacedName, Shared<PodStatus>> {
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

    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    pub fn namespaces(&self) -> &KnownNamespaces {
        &self.namespaces
    }

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

    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// Whether nothing ends the pods that are being deleted on a node: it cannot be reached, and no taint says that nothing runs there.
    pub(crate) fn keeps_terminating(&self, node: &str) -> bool {
        self.node(node).is_some_and(|node| {
            is_unreachable(&node.spec) && !is_garbage(true, PodNode::of(false, node.spec.taints.iter()))
        })
    }

    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// The claims that controllers create for the pods, if the inventory keeps whole objects. They name the volumes and
    /// nodes that were decided for them. Claims of devices are among them if devices were allocated to them.
    pub fn created_claims(&self) -> impl Iterator<Item = Value> {
        let device_claims = self.devices.changed().filter_map(|claim| {
            let mut object = serde_json::to_value(claim).ok()?;
            object["apiVersion"] = "resource.k8s.io/v1".into();
            object["kind"] = "ResourceClaim".into();
            Some(object)
        });
        self.created_claims.iter().map(|claim| claim.decided(&self.pods)).chain(device_claims)
    }

    /// The claims of devices that the input does not have, or has otherwise.
    pub(crate) fn device_claims(&self) -> impl Iterator<Item = &ResourceClaim> {
        self.devices.changed()
    }

    /// Whether devices may be allocated for a pod when it is placed.
    pub(crate) fn may_need_devices(&self, pod: &Pod) -> bool {
        self.devices.may_be_for(pod)
    }

    /// Makes the claims of devices of a pod, as the controller does.
    pub(crate) fn make_claims(&mut self, pod: &mut Pod) {
        self.devices.make_claims(&mut self.cluster, pod, None);
    }

    /// Writes what was decided about the claims of devices of a pod.
    pub(crate) fn write_claims(&mut self, pod: &mut Pod, outcome: &Outcome) {
        self.devices.decided(&mut self.cluster, pod, outcome);
    }

    /// Releases the claims of devices of a pod.
    pub(crate) fn release_claims(&mut self, pod: &Pod) {
        self.devices.release(&mut self.cluster, pod);
    }

    /// Why the claims of a pod cannot be satisfied on any node: the input lacks what they are made from.
    pub(crate) fn missing_devices(&self, pod: &Pod) -> Option<String> {
        self.devices.missing(pod)
    }

    /// Whether a pod fits on a node once another one has left.
    pub(crate) fn fits_without(&mut self, pod: &PreparedPod, other: &Pod) -> bool {
        let claims = self.devices.claims();
        self.cluster.remove_pod(&other.metadata.namespace, &other.metadata.name);
        self.devices.release(&mut self.cluster, other);
        let fits = self.cluster.fits_anywhere(pod);
        self.devices.restore(&mut self.cluster, claims);
        self.cluster.set_pod(other);
        fits
    }

    /// All claims of devices, by name, as the cluster would have them.
    pub fn claims(&self) -> impl Iterator<Item = &ResourceClaim> {
        self.devices.all()
    }

    pub fn claim(&self, name: &NamespacedName) -> Option<&ResourceClaim> {
        self.devices.claim(name)
    }

    /// The names of the claims of a pod, in its order; that for extended resources is the last.
    pub fn claim_names(pod: &Pod) -> Vec<NamespacedName> {
        claims_of(pod)
    }

    /// The devices of a node, and what keeps each from being allocated.
    pub fn devices_of_node(&self, node: &str) -> DevicesOfNode {
        self.cluster.devices_of_node(node)
    }

    /// The claims of a pod, with the devices that are allocated to them.
    pub fn claims_of(&self, pod: &Pod) -> Vec<PodClaim> {
        self.devices.of(pod)
    }

    /// What happened to the pod groups with pending pods, by name.
    pub fn groups(&self) -> impl Iterator<Item = &GroupPlacement> {
        self.group_placements.values()
    }
}
