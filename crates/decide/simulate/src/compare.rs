//! Comparison: the same pods under two configurations, in two dumps or with two sets of manifests.
//!
//! Each side is a simulation in which the pending pods have been placed; [`Side::new`] can place all pods again before.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use berth_api::object::{NamespacedName, Node};
use berth_engine::{FeasibleNodes, Outcome};
use berth_input::inventory::Inventory;
use berth_rules::pod_requests;
use serde::Serialize;

use crate::simulation::workloads::Workloads;
use crate::simulation::{Fate, Simulation, SimulationError, SimulationOptions, UnadmittedState};

/// Number of pods whose scores are compared: each costs a look at every node.
const MAX_SCORED: usize = 20;

pub struct Side {
    simulation: Simulation,
    nodes: Vec<Node>,
}

impl Side {
    /// Places the pending pods. With `replace_all`, all pods are placed again, except those that belong to their nodes, are
    /// being deleted, or wait for a node that does not exist: by priority, then new pods of workloads in input order, then the others by namespace and name.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn new(
        mut inventory: Inventory,
        options: SimulationOptions,
        replace_all: bool,
        progress: impl FnMut(usize, usize),
    ) -> Result<Side, SimulationError> {
        options.add_simulated_nodes(&mut inventory);
        let nodes: Vec<Node> = inventory.nodes.iter().map(|entry| entry.object.clone()).collect();
        if replace_all {
            let on: BTreeMap<&str, &Node> = nodes.iter().map(|n| (n.metadata.name.as_str(), n)).collect();
            let workloads = Workloads::new(&inventory);
            for entry in &mut inventory.pods {
                entry.order = usize::MAX;
                let pod = &mut entry.object;
                let node = on.get(pod.spec.node_name.as_str()).copied();
                // No scheduler has named a node that does not exist.
                let names_node = node.is_none() && pod.awaits_node_admission();
                if Fate::of(pod) != Fate::Gone && !pod.is_terminal() && !names_node {
                    workloads.recreate(pod, node);
                }
            }
            inventory.pods.sort_by_cached_key(|entry| entry.object.metadata.namespaced_name());
        }
        let mut simulation = Simulation::new(inventory, options)?;
        simulation.run(progress);
        Ok(Side { simulation, nodes })
    }

    /// The placed pods.
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    /// Why a pod has no node, if it was decided.
    fn message(&self, pod: &NamespacedName) -> Option<String> {
        match &self.simulation.pod(pod.namespace(), pod.name())?.outcome {
            Outcome::Unschedulable { message, .. } => Some(message.clone()).filter(|m| !m.is_empty()),
            _ => None,
        }
    }

    /// The scores of the node of a pod, by plugin, in the final state.
    fn scores(&mut self, pod: &NamespacedName) -> BTreeMap<&'static str, i64> {
        let node = self.simulation.pod(pod.namespace(), pod.name()).and_then(|pod| pod.node());
        let Some(node) = node.map(str::to_owned) else { return BTreeMap::new() };
        let explained = self.simulation.explain(pod.namespace(), pod.name(), Some(&node));
        let feasible = explained.map(|explained| explained.explanation.feasible).unwrap_or_default();
        let is_it = |group: &&FeasibleNodes| group.nodes.contains(&node);
        let scores = feasible.iter().find(is_it).map(|group| &group.scores);
        scores.into_iter().flatten().map(|score| (score.plugin.name(), score.score)).collect()
    }

    /// Pods of each workload by domain.
    fn spread(&self, key: &str) -> BTreeMap<(String, Option<String>), BTreeMap<String, usize>> {
        let mut spread: BTreeMap<_, BTreeMap<String, usize>> = BTreeMap::new();
        for pod in self.simulation.pods() {
            let workload = (pod.pod.metadata.namespace.clone(), pod.workload.clone());
            let domains = spread.entry(workload).or_default();
            if let Some(node) = pod.node() {
                let domain = self.simulation.node_label(node, key).unwrap_or("<none>");
                *domains.entry(domain.to_owned()).or_default() += 1;
            }
        }
        spread
    }

    /// By resource: what the pods request, what the nodes offer, and the largest fraction of a node.
    fn utilization(&self) -> BTreeMap<String, Utilization> {
        let mut by_node: BTreeMap<&str, BTreeMap<String, i64>> = BTreeMap::new();
        for pod in self.simulation.pods() {
            let Some(node) = pod.node() else { continue };
            let requested = by_node.entry(node).or_default();
            *requested.entry("pods".to_owned()).or_default() += 1;
            for (resource, quantity) in pod_requests(&pod.pod.spec) {
                let amount = amount(&resource, quantity);
                *requested.entry(resource).or_default() += amount;
            }
        }
        let mut utilization: BTreeMap<String, Utilization> = BTreeMap::new();
        for node in &self.nodes {
            let requested = by_node.get(node.metadata.name.as_str());
            for (resource, quantity) in node.status.allocatable.iter().flatten() {
                let allocatable = amount(resource, *quantity);
                let requested = requested.and_then(|r| r.get(resource)).copied().unwrap_or(0);
                let total = utilization.entry(resource.clone()).or_default();
                total.requested = total.requested.saturating_add(requested);
                total.allocatable = total.allocatable.saturating_add(allocatable);
                if allocatable > 0 {
                    let percent = i128::from(requested) * 100 / i128::from(allocatable);
                    total.fullest_node_percent = total.fullest_node_percent.max(percent as i64);
                }
            }
        }
        utilization.retain(|_, total| total.requested > 0);
        utilization
    }
}

fn amount(resource: &str, quantity: berth_api::syntax::quantity::Quantity) -> i64 {
    if resource == "cpu" { quantity.millis() } else { quantity.units() }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// Pods with different nodes, and pods that only one side has or places, by namespace and name.
    pub moved: Vec<MovedPod>,
    /// Number of pods with the same node on both sides.
    pub unmoved: usize,
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// Workloads with different numbers of pods in a domain.
    pub spread: Vec<SpreadChange>,
    /// Resources that pods request.
    pub utilization: Vec<UtilizationChange>,
    /// Counts of both sides.
    pub summary: Pair<Summary>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pair<T> {
    pub from: T,
    pub to: T,
}

/// A pod with different nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MovedPod {
    pub namespace: String,
    pub name: String,
    /// The name on the second side, if it is another one: the pod of the same workload with the same node or ordinal.
    #[serde(rename = "newName", skip_serializing_if = "Option::is_none")]
    pub new_name: Option<String>,
    /// The node on the first side, if any.
    pub from: Option<String>,
    /// The node on the second side, if any.
    pub to: Option<String>,
    /// Why it has no node on the side without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The scores of both nodes, each on its side, when all pods are placed; for the first pods only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<ScorePair>,
}

/// The score of a plugin: 0 to 100 times its weight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScorePair {
    pub plugin: &'static str,
    /// On the first side; none if the plugin does not score there.
    pub from: Option<i64>,
    pub to: Option<i64>,
}

/// The pods of a workload by domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpreadChange {
    pub namespace: String,
    /// Kind and name; none for the pods without a workload.
    pub workload: Option<String>,
    /// Number of pods by domain.
    #[serde(flatten)]
    pub pods: Pair<BTreeMap<String, usize>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UtilizationChange {
    pub resource: String,
    /// Its use.
    #[serde(flatten)]
    pub utilization: Pair<Utilization>,
}

/// The use of a resource: milli-CPU for `cpu`, otherwise bytes or whole units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Utilization {
    /// What the pods request.
    pub requested: i64,
    /// What the nodes offer.
    pub allocatable: i64,
    /// The largest use of a node, in percent.
    pub fullest_node_percent: i64,
}

/// Counts of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub nodes: usize,
    /// Number of nodes with pods.
    pub used_nodes: usize,
    /// Number of pods with a node.
    pub placed: usize,
    /// Number of pods that a scheduler found no node for.
    pub unplaced: usize,
    /// Number of pods that are rejected by the node that they name.
    pub rejected: usize,
    /// Number of pods that wait for a node that does not exist.
    pub waiting: usize,
    /// Number of pods that their controllers cannot create so far.
    pub not_created: usize,
}

impl Summary {
    fn of(side: &Side) -> Summary {
        let pods = side.simulation.pods();
        let placed: Vec<_> = pods.iter().filter_map(|pod| pod.node()).collect();
        let n_unadmitted = |state| pods.iter().filter(|pod| pod.is_unadmitted(state)).count();
        Summary {
            nodes: side.nodes.len(),
            used_nodes: placed.iter().collect::<BTreeSet<_>>().len(),
            placed: placed.len(),
            unplaced: pods.iter().filter(|pod| pod.is_unplaced()).count(),
            rejected: n_unadmitted(UnadmittedState::Rejected),
            waiting: n_unadmitted(UnadmittedState::Waiting),
            not_created: n_unadmitted(UnadmittedState::NotCreated),
        }
    }
}

pub fn compare(from: &mut Side, to: &mut Side, topology_key: &str) -> Comparison {
    let nodes = |side: &Side| -> BTreeMap<NamespacedName, Option<String>> {
        let pods = side.simulation.pods().iter();
        pods.map(|pod| (pod.pod.metadata.namespaced_name(), pod.node().map(str::to_owned))).collect()
    };
    let (mut nodes_from, mut nodes_to) = (nodes(from), nodes(to));
    let mut renamed = renamed(&from.simulation, &to.simulation);
    let new_names: BTreeSet<NamespacedName> = renamed.values().cloned().collect();
    let names: BTreeSet<NamespacedName> = nodes_from.keys().chain(nodes_to.keys()).cloned().collect();
    let (mut moved, mut unmoved) = (Vec::new(), 0);
    for name in names.into_iter().filter(|name| !new_names.contains(name)) {
        let new_name = renamed.remove(&name);
        let after = nodes_to.remove(new_name.as_ref().unwrap_or(&name));
        let before = nodes_from.remove(&name);
        if before == after {
            unmoved += usize::from(before.flatten().is_some());
            continue;
        }
        let scored = [&name, new_name.as_ref().unwrap_or(&name)];
        let (before, after) = (before.flatten(), after.flatten());
        let message = match (&before, &after) {
            (_, None) => to.message(scored[1]),
            (None, _) => from.message(scored[0]),
            (Some(_), Some(_)) => None,
        };
        let is_scored = before.is_some() && after.is_some() && moved.len() < MAX_SCORED;
        let scores = if is_scored { scores(from, to, scored) } else { Vec::new() };
        let new_name = new_name.map(|name| name.name().to_owned());
        let (namespace, name) = (name.namespace().to_owned(), name.name().to_owned());
        moved.push(MovedPod { namespace, name, new_name, from: before, to: after, message, scores });
    }
    let (mut before, mut after) = (from.spread(topology_key), to.spread(topology_key));
    let workloads: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    let spread = workloads.into_iter().filter_map(|key| {
        let pods = Pair {
            from: before.remove(&key).unwrap_or_default(),
            to: after.remove(&key).unwrap_or_default(),
        };
        let (namespace, workload) = key;
        (pods.from != pods.to).then_some(SpreadChange { namespace, workload, pods })
    });
    let spread = spread.collect();
    let (mut before, mut after) = (from.utilization(), to.utilization());
    let resources: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    let utilization = resources.into_iter().map(|resource| {
        let utilization = Pair {
            from: before.remove(&resource).unwrap_or_default(),
            to: after.remove(&resource).unwrap_or_default(),
        };
        UtilizationChange { resource, utilization }
    });
    Comparison {
        moved,
        unmoved,
        topology_key: topology_key.to_owned(),
        spread,
        utilization: utilization.collect(),
        summary: Pair { from: Summary::of(from), to: Summary::of(to) },
    }
}

/// The pods of a workload that have other names on the second side, with these names: those with the same node first, then the others
/// by ordinal and name.
fn renamed(from: &Simulation, to: &Simulation) -> BTreeMap<NamespacedName, NamespacedName> {
    let of_one_side = |side: &Simulation, other: &Simulation| {
        let mut by_workload: BTreeMap<_, Vec<(Option<u64>, NamespacedName)>> = BTreeMap::new();
        for pod in side.pods() {
            let name = pod.pod.metadata.namespaced_name();
            let Some(workload) = pod.workload.clone() else { continue };
            if other.pod(name.namespace(), name.name()).is_none() {
                let ordinal = name.name().rsplit('-').next().and_then(|ordinal| ordinal.parse().ok());
                let key = (name.namespace().to_owned(), workload);
                by_workload.entry(key).or_default().push((ordinal, name));
            }
        }
        by_workload.values_mut().for_each(|pods| pods.sort_unstable());
        by_workload
    };
    let mut renamed = BTreeMap::new();
    let mut of_to = of_one_side(to, from);
    for (workload, pods) in of_one_side(from, to) {
        let Some(others) = of_to.remove(&workload) else { continue };
        let node = |side: &Simulation, name: &NamespacedName| {
            side.pod(name.namespace(), name.name()).and_then(|pod| pod.node()).map(str::to_owned)
        };
        let mut by_node: BTreeMap<Option<String>, VecDeque<NamespacedName>> = BTreeMap::new();
        for (_, name) in &others {
            by_node.entry(node(to, name)).or_default().push_back(name.clone());
        }
        let (mut rest, mut taken) = (Vec::new(), BTreeSet::new());
        for (_, name) in pods {
            match by_node.get_mut(&node(from, &name)).and_then(VecDeque::pop_front) {
                Some(other) => {
                    taken.insert(other.clone());
                    renamed.insert(name, other);
                }
                None => rest.push(name),
            }
        }
        let others = others.into_iter().map(|(_, name)| name).filter(|name| !taken.contains(name));
        renamed.extend(rest.into_iter().zip(others));
    }
    renamed
}

fn scores(from: &mut Side, to: &mut Side, [before, after]: [&NamespacedName; 2]) -> Vec<ScorePair> {
    let (from, to) = (from.scores(before), to.scores(after));
    let plugins: BTreeSet<&str> = from.keys().chain(to.keys()).copied().collect();
    let pair = |plugin| ScorePair { plugin, from: from.get(plugin).copied(), to: to.get(plugin).copied() };
    plugins.into_iter().map(pair).collect()
}
