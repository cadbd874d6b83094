//! Simulations: the objects of an inventory become the state of a cluster, and the pending pods are placed.
//!
//! Workloads are expanded to the pods that their controllers would create, and pods are admitted as in the API server.
//! Running pods keep their nodes, unless they are preempted. Pending pods are placed by priority, then in input order. Pods that fit nowhere are
//! tried again as long as other pods are placed, as in the queue of a scheduler.

mod build;
mod created_claims;
mod error;
mod groups;
mod live;
mod positions;
mod preemption;
mod rescheduling;
mod volumes;
pub(crate) mod workloads;

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use berth_api::object::{DeviceResources, GroupKey, GroupRules, NamespacedName, Node, Pod, Shared};
use berth_api::read::Inventory;
use berth_api::rules::{KnownNamespaces, PodRules};
use berth_api::simulated_nodes::SimulatedNodes;
use berth_engine::{Cluster, DisruptionBudget, Explanation, Outcome, PreparedPod, Settings};
use jiff::Timestamp;
use serde_json::Value;

use self::created_claims::CreatedClaim;
use self::positions::Positions;
pub(crate) use self::preemption::preempt;
use self::rescheduling::Vacated;
use self::workloads::Workloads;
use crate::repairs::{Repair, Trial};
use crate::{PodExplanation, PodPreemption};

pub use build::add_simulated_nodes;
pub use error::{InvalidObject, SimulationError};
pub use groups::GroupPlacement;
pub(crate) use preemption::protects;

/// The options of a simulation.
#[derive(Clone, Debug, Default)]
pub struct SimulationOptions {
    /// Settings of the cluster.
    pub settings: Settings,
    /// Nodes of the cluster if the inventory has none.
    pub simulated_nodes: Option<SimulatedNodes>,
    /// How long pending pods have been pending; for rules with `relax-after`.
    pub pending_for: PendingFor,
}

/// How long pods have been pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingFor {
    /// All pods for so long.
    All(Duration),
    /// Pods with a creation timestamp until this moment; others have just been created.
    Until(Timestamp),
}

impl Default for PendingFor {
    fn default() -> Self {
        PendingFor::All(Duration::ZERO)
    }
}

impl PendingFor {
    pub(crate) fn of(self, pod: &Pod) -> Duration {
        match self {
            PendingFor::All(duration) => duration,
            PendingFor::Until(now) => pod
                .metadata
                .creation_timestamp
                .map_or(Duration::ZERO, |created| now.duration_since(created).try_into().unwrap_or_default()),
        }
    }
}

impl SimulationOptions {
    /// Adds the simulated nodes to an inventory without nodes.
    pub(crate) fn add_simulated_nodes(&self, inventory: &mut Inventory) {
        if let Some(simulated) = &self.simulated_nodes {
            add_simulated_nodes(inventory, simulated);
        }
    }
}

/// What is decided about a pending pod.
#[derive(Clone, Debug)]
pub struct PendingDecision {
    /// The decision, without preemption.
    pub outcome: Outcome,
    /// The preemption that makes it fit.
    pub preemption: Option<PodPreemption>,
}

/// A pod of the simulation.
#[derive(Clone, Debug)]
pub struct SimulatedPod {
    /// The pod, as admitted.
    pub pod: Pod,
    /// The workload it belongs to, such as `Deployment web`; none for a pod without owner.
    pub workload: Option<String>,
    /// The pod of an earlier template in whose place its controller creates it.
    pub replaces: Option<NamespacedName>,
    /// The object as read or expanded, if the inventory keeps it.
    pub raw: Option<Box<Value>>,
    /// Whether it ran on a node before the simulation.
    pub was_running: bool,
    /// The decision, or the node on which it ran before.
    pub outcome: Outcome,
    /// Fields that decide about placement and that Berth does not support: it decided without them.
    pub unsupported: Shared<Vec<String>>,
    /// The paths of the required rules that were relaxed to place it, or in vain.
    pub relaxed: Shared<Vec<String>>,
    /// The pods that were evicted for it, the most important first.
    pub victims: Shared<Vec<NamespacedName>>,
    /// The pod that it was evicted for.
    pub preempted_by: Option<NamespacedName>,
    /// The group that it is placed with.
    pub group: Option<GroupKey>,
}

impl SimulatedPod {
    /// The node of the pod; none if it is not placed.
    pub fn node(&self) -> Option<&str> {
        self.outcome.node()
    }

    fn is_named(&self, namespace: &str, name: &str) -> bool {
        self.pod.metadata.namespace == namespace && self.pod.metadata.name == name
    }

    /// The score of the node when the pod was placed: the sum over the plugins of 0 to 100 times the weight. None for
    /// a pod that ran before, or is not placed.
    pub fn score(&self) -> Option<i64> {
        match self.outcome {
            Outcome::Placed { score, .. } => score,
            _ => None,
        }
    }

    /// The object with `spec.nodeName` set, or removed from a pod without a node, and all other fields unchanged.
    pub fn placed_object(&self) -> Option<Value> {
        let mut raw = Value::clone(self.raw.as_deref()?);
        let spec = raw.get_mut("spec")?.as_object_mut()?;
        match self.node() {
            Some(node) => _ = spec.insert("nodeName".to_owned(), node.into()),
            None => _ = spec.remove("nodeName"),
        }
        Some(raw)
    }
}

/// A cluster that exists only as text, with pods to place.
///
/// ```
/// use berth_api::read::Inventory;
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
    cluster: Cluster,
    /// Whether the proposals' fields are read.
    extensions: bool,
    /// All pods, running and pending, in input order.
    pods: Vec<SimulatedPod>,
    positions: Positions,
    /// Positions of pending pods in [`Simulation::pods`], in the order in which they are placed.
    queue: Vec<usize>,
    /// Whether unschedulable pods preempt others.
    preempts: bool,
    /// Positions of pods whose preemption made no room: they preempt no more.
    vain_preemptors: HashSet<usize>,
    pending_for: PendingFor,
    budgets: Vec<DisruptionBudget>,
    warnings: Vec<String>,
    workloads: Workloads,
    nodes: BTreeMap<String, Node>,
    namespaces: KnownNamespaces,
    device_resources: DeviceResources,
    created_claims: Vec<CreatedClaim>,
    /// The PodGroups; without rules, their pods are placed one by one.
    pod_groups: BTreeMap<GroupKey, Option<GroupRules>>,
    group_placements: BTreeMap<GroupKey, GroupPlacement>,
    /// The number of pods that got rules of a placement policy.
    policy_uses: BTreeMap<String, usize>,
    /// The workloads whose template a later input changed, and the number of their pods before.
    rolled_out: Vec<(String, usize)>,
    /// Pods that left their nodes, where that is to be undone.
    vacated: Option<Vec<Vacated>>,
}

/// What is placed at once.
enum Unit {
    Pod(usize, PreparedPod),
    Group(GroupKey, Vec<(usize, PreparedPod)>),
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

    /// Places the pending pods. After each placed pod, `progress` gets the number of placed pods and of all pending
    /// pods.
    pub fn run(&mut self, progress: impl FnMut(usize, usize)) {
        let prepare = |i: &usize| (*i, self.cluster.prepare(&self.pods[*i].pod));
        let pending = self.queue.iter().map(prepare).collect();
        self.queue = self.place_pending(pending, progress);
    }

    fn sort_queue(&mut self) {
        let pods = &self.pods;
        self.queue.sort_by_key(|i| Reverse(pods[*i].pod.spec.priority.unwrap_or(0)));
    }

    /// Places pods, which are sorted by priority, and their victims; see [`Simulation::run`]. Returns the positions of
    /// those that fit nowhere.
    fn place_pending(
        &mut self,
        mut pending: Vec<(usize, PreparedPod)>,
        mut progress: impl FnMut(usize, usize),
    ) -> Vec<usize> {
        let n_pending = pending.len();
        // Equivalent pods share a failure until another pod is placed.
        let mut failures = HashMap::new();
        let mut n_placed = 0;
        loop {
            let (n_before, mut unplaced) = (n_placed, Vec::new());
            for unit in self.units(pending) {
                let (i, pod) = match unit {
                    Unit::Pod(i, pod) => (i, pod),
                    Unit::Group(key, members) => {
                        for i in self.place_group(&key, &members) {
                            unplaced.push((i, self.cluster.prepare(&self.pods[i].pod)));
                        }
                        for (i, pod) in members {
                            if self.pods[i].node().is_some() {
                                n_placed += 1;
                                progress(n_placed.min(n_pending), n_pending);
                            } else {
                                unplaced.push((i, pod));
                            }
                        }
                        continue;
                    }
                };
                let equivalence = self.cluster.equivalence(&pod);
                let pending = self.pending_for.of(&self.pods[i].pod);
                let may_be_relaxed = !self.cluster.relaxable(&pod, pending).is_empty();
                let mut outcome = match failures.get(&equivalence) {
                    Some((at, outcome)) if *at == n_placed && !may_be_relaxed => Outcome::clone(outcome),
                    _ => {
                        let mut outcome = self.cluster.place(&pod);
                        let relaxed = self.relax(i, &pod, pending, &mut outcome);
                        let (outcome, replaced) =
                            self.preempt(i, &relaxed.unwrap_or_else(|| pod.clone()), outcome);
                        for i in replaced {
                            unplaced.push((i, self.cluster.prepare(&self.pods[i].pod)));
                        }
                        outcome
                    }
                };
                if outcome.node().is_some() {
                    n_placed += 1;
                    progress(n_placed.min(n_pending), n_pending);
                } else if !may_be_relaxed {
                    failures.insert(equivalence, (n_placed, outcome.clone()));
                }
                if let (Outcome::Unschedulable { message, .. }, Some(by)) =
                    (&mut outcome, &self.pods[i].preempted_by)
                {
                    *message = format!("preempted by {by}; {message}");
                }
                let is_placed = outcome.node().is_some();
                self.pods[i].outcome = outcome;
                if !is_placed {
                    unplaced.push((i, pod));
                }
            }
            pending = unplaced;
            if pending.is_empty() || n_placed == n_before {
                return pending.into_iter().map(|(i, _)| i).collect();
            }
            pending.sort_by_key(|(i, pod)| (Reverse(pod.priority()), *i));
        }
    }

    /// The cluster as it is: the running pods, and the pods of workloads that the inventory has without their pods, which
    /// are placed. Pending pods of the inventory stay pending.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn as_is(inventory: Inventory, options: SimulationOptions) -> Result<Simulation, SimulationError> {
        let given: HashSet<_> = inventory.pods.iter().map(|e| e.object.metadata.namespaced_name()).collect();
        let mut simulation = Simulation::new(inventory, options)?;
        simulation.run_only(|pod| !given.contains(&pod.pod.metadata.namespaced_name()));
        Ok(simulation)
    }

    /// Places the selected pending pods. The others stay pending.
    pub(crate) fn run_only(&mut self, is_selected: impl Fn(&SimulatedPod) -> bool) {
        let others = self.queue.extract_if(.., |i| !is_selected(&self.pods[*i])).collect::<Vec<_>>();
        self.run(|_, _| ());
        self.queue.extend(others);
        self.sort_queue();
    }

    /// What is decided about each of these pending pods in the current state, on its own: no pod is placed. Takes and yields
    /// positions in [`Simulation::pods`]; pods that are being deleted are left out.
    pub fn decide_pending(
        &mut self,
        pending: impl IntoIterator<Item = usize>,
    ) -> Vec<(usize, PendingDecision)> {
        let pending = pending.into_iter().filter(|i| !self.pods[*i].pod.metadata.is_deleting());
        let prepared: Vec<_> = pending.map(|i| (i, self.cluster.prepare(&self.pods[i].pod))).collect();
        let mut decided: HashMap<_, PendingDecision> = HashMap::new();
        let mut decisions = Vec::with_capacity(prepared.len());
        for (i, pod) in prepared {
            let equivalence = self.cluster.equivalence(&pod);
            let pending = self.pending_for.of(&self.pods[i].pod);
            let may_be_relaxed = !self.cluster.relaxable(&pod, pending).is_empty();
            let known = decided.get(&equivalence).filter(|_| !may_be_relaxed).cloned();
            let decision = known.unwrap_or_else(|| self.decide_alone(pod, pending));
            if !may_be_relaxed {
                decided.insert(equivalence, decision.clone());
            }
            decisions.push((i, decision));
        }
        decisions
    }

    fn decide_alone(&mut self, mut pod: PreparedPod, pending: Duration) -> PendingDecision {
        let mut outcome = self.cluster.decide(&pod);
        if matches!(outcome, Outcome::Unschedulable { .. })
            && let Some((decided, relaxed)) = self.cluster.decide_relaxed(&pod, pending)
        {
            (outcome, pod) = (decided, relaxed.pod);
        }
        let budgets = self.budgets.as_slice();
        let victims =
            self.preempts.then(|| preempt(&mut self.cluster, budgets, &pod, &mut outcome)).flatten();
        PendingDecision { outcome, preemption: victims.map(Into::into) }
    }

    /// Places the pods that come before this pod in the queue; explain the pod afterwards.
    pub fn run_before(&mut self, namespace: &str, name: &str) {
        let with = self.placed_with(namespace, name);
        if let Some(position) = self.queue.iter().position(|i| with.contains(i)) {
            self.queue.truncate(position);
            self.run(|_, _| ());
        }
    }

    /// Places all other pending pods; explain the pod afterwards.
    pub fn run_others(&mut self, namespace: &str, name: &str) {
        let with = self.placed_with(namespace, name);
        self.queue.retain(|i| !with.contains(i));
        self.run(|_, _| ());
    }

    /// All pods, in input order.
    pub fn pods(&self) -> &[SimulatedPod] {
        &self.pods
    }

    /// A pod by namespace and name.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&SimulatedPod> {
        Some(&self.pods[self.position(namespace, name)?])
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

    /// The workloads whose template a later input changed, and the number of pods that are placed again.
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

    /// Explains a pod in the current state; with `node`, the groups of nodes contain only that node. None if the
    /// pod does not exist.
    pub fn explain(&mut self, namespace: &str, name: &str, node: Option<&str>) -> Option<PodExplanation> {
        let explained = self.explain_without_repairs(namespace, name, node)?;
        let repairs = self.repairs(namespace, name, node, &explained.explanation);
        Some(PodExplanation { repairs, ..explained })
    }

    /// As [`Simulation::explain`], for many pods.
    pub fn explain_without_repairs(
        &mut self,
        namespace: &str,
        name: &str,
        node: Option<&str>,
    ) -> Option<PodExplanation> {
        let SimulatedPod { pod, unsupported, .. } = &self.pods[self.position(namespace, name)?];
        let budgets = self.preempts.then_some(&*self.budgets);
        let pods = self.pods.iter().map(|p| &p.pod);
        let explained =
            PodExplanation::of(&mut self.cluster, budgets, pod, self.pending_for.of(pod), node, pods);
        let (unsupported, group) = (unsupported.to_vec(), self.explain_group(namespace, name));
        Some(PodExplanation { unsupported, group, ..explained })
    }

    /// The cheapest repair of each kind for a pending pod that fits nowhere, or with `only` not on that node; the cheapest
    /// first. `explanation` is of the current state.
    pub fn repairs(
        &mut self,
        namespace: &str,
        name: &str,
        only: Option<&str>,
        explanation: &Explanation,
    ) -> Vec<Repair> {
        let Some(position) = self.position(namespace, name) else { return Vec::new() };
        let Simulation { cluster, nodes, pods, budgets, .. } = self;
        let pod = &pods[position];
        if explanation.running_on.is_some() {
            return Vec::new();
        }
        Trial { cluster, nodes, pods, budgets, pod, only }.repairs(explanation)
    }

    /// Places an unschedulable pod with the rules relaxed that it has been pending for. Returns the pod with these rules.
    fn relax(
        &mut self,
        position: usize,
        pod: &PreparedPod,
        pending: Duration,
        outcome: &mut Outcome,
    ) -> Option<PreparedPod> {
        self.pods[position].relaxed.clear();
        if !matches!(outcome, Outcome::Unschedulable { .. }) {
            return None;
        }
        let (decided, relaxed) = self.cluster.decide_relaxed(pod, pending)?;
        self.cluster.take(&relaxed.pod, &decided);
        *outcome = decided;
        self.pods[position].relaxed = relaxed.paths.into();
        Some(relaxed.pod)
    }
}
