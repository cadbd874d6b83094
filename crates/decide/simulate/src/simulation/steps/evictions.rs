//! Evictions with the Eviction API, as `kubectl drain` makes them.

use std::collections::{HashMap, HashSet};

use berth_api::object::{NamespacedName, Pod};
use berth_control::budget::{Budget, Scales};
use berth_engine::Outcome;
use berth_input::inventory::Inventory;
use serde::Serialize;

use super::Steps;
use crate::simulation::departure::Fate;
use crate::simulation::state::Simulation;

/// The eviction of a pod from a node.
#[derive(Clone, Debug)]
pub(crate) struct Eviction {
    pub pod: NamespacedName,
    pub node: String,
    /// The message for a pod without a controller.
    pub why: String,
}

/// An eviction that a budget refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockedEviction {
    /// Namespace.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// Name of the PodDisruptionBudget; with several, the API server refuses every eviction.
    pub budget: String,
    /// The node on which the pod stays.
    #[serde(skip)]
    pub node: String,
    /// Why it is refused.
    #[serde(skip)]
    pub message: String,
}

/// The budgets of the pods that are to be evicted. `ran` says which pods ran before the changes.
pub(crate) fn budgets_of(
    inventory: &Inventory,
    evictions: &[Eviction],
    ran: impl Fn(&NamespacedName) -> bool,
) -> Vec<Budget> {
    let evicted: HashSet<&NamespacedName> = evictions.iter().map(|eviction| &eviction.pod).collect();
    let pods = || inventory.pods.iter().map(|entry| &entry.object);
    let evicted: Vec<&Pod> = pods().filter(|pod| evicted.contains(&pod.metadata.namespaced_name())).collect();
    if evicted.is_empty() {
        return Vec::new();
    }
    let scales = Scales::new(inventory);
    let budgets =
        inventory.pod_disruption_budgets.iter().map(|entry| (&entry.object, Budget::new(&entry.object)));
    let budgets = budgets.filter(|(_, budget)| evicted.iter().any(|pod| budget.covers(pod)));
    let counted = budgets.map(|(object, mut budget)| {
        let covered: Vec<&Pod> = pods().filter(|pod| budget.covers(pod)).collect();
        let is_healthy = |pod: &Pod| ran(&pod.metadata.namespaced_name()) && !pod.is_unready();
        budget.count(object, &scales, covered.iter().map(|pod| (*pod, is_healthy(pod))));
        budget
    });
    counted.collect()
}

/// The evictions that are still to be made.
pub(super) struct Evictions {
    open: Vec<Eviction>,
    budgets: Vec<Budget>,
}

impl Evictions {
    /// Without those that are requested twice, or that concern pods that are not there.
    pub fn new(evictions: Vec<Eviction>, budgets: Vec<Budget>, simulation: &Simulation) -> Evictions {
        let mut seen = HashSet::new();
        let mut open = evictions;
        open.retain(|eviction| {
            let pod = simulation.pod(eviction.pod.namespace(), eviction.pod.name());
            let is_there = pod.is_some_and(|pod| pod.node() == Some(&eviction.node));
            is_there && seen.insert(eviction.pod.clone())
        });
        Evictions { open, budgets }
    }

    /// Evicts the pods that no budget protects, and as many of the others as the budgets allow now. Returns whether there are any.
    pub fn evict_allowed(&mut self, steps: &mut Steps<'_>, lost: &mut Vec<(NamespacedName, String)>) -> bool {
        if self.open.is_empty() {
            return false;
        }
        let mut spare = self.spare(steps.simulation);
        let n_open = self.open.len();
        let Evictions { open, budgets } = self;
        open.retain(|eviction| {
            let name = &eviction.pod;
            // A rollout, or a pod of higher priority, may have removed it from its node.
            let position = steps.simulation.position(name.namespace(), name.name());
            let is_there = |at: &usize| steps.simulation.pods[*at].node() == Some(&eviction.node);
            let Some(at) = position.filter(is_there) else { return false };
            let pod = &steps.simulation.pods[at].pod;
            let of_pod: Vec<usize> = (0..budgets.len()).filter(|i| budgets[*i].covers(pod)).collect();
            match of_pod.as_slice() {
                [] => {}
                [budget] if pod.is_unready() && budgets[*budget].evicts_unready(spare[*budget]) => {}
                [budget] if spare[*budget] > 0 => spare[*budget] -= 1,
                _ => return true,
            }
            steps.evict(at, eviction, lost);
            false
        });
        open.len() < n_open
    }

    /// How many pods of each budget may be evicted now.
    fn spare(&self, simulation: &Simulation) -> Vec<i64> {
        let mut healthy = vec![0; self.budgets.len()];
        let mut of_namespace: HashMap<&str, Vec<usize>> = HashMap::new();
        for (i, budget) in self.budgets.iter().enumerate() {
            of_namespace.entry(budget.name.namespace()).or_default().push(i);
        }
        for pod in simulation.pods().iter().filter(|pod| pod.node().is_some() && !pod.pod.is_unready()) {
            let budgets = of_namespace.get(pod.pod.metadata.namespace.as_str()).into_iter().flatten();
            let is_counted =
                |i: &&usize| !pod.pod.metadata.is_deleting() && self.budgets[**i].covers(&pod.pod);
            budgets.filter(is_counted).for_each(|i| healthy[*i] += 1);
        }
        self.budgets.iter().zip(healthy).map(|(budget, n_healthy)| budget.allowed(n_healthy)).collect()
    }

    /// The evictions that are refused to the end.
    pub fn blocked(self, simulation: &Simulation) -> Vec<BlockedEviction> {
        let mut spare = self.spare(simulation);
        spare.iter_mut().for_each(|spare| *spare = (*spare).max(0));
        let Evictions { open, budgets } = &self;
        let blocked = open.iter().filter_map(|Eviction { pod: name, node, .. }| {
            let pod = &simulation.pod(name.namespace(), name.name())?.pod;
            let of_pod: Vec<usize> = (0..budgets.len()).filter(|i| budgets[*i].covers(pod)).collect();
            let names: Vec<&str> = of_pod.iter().map(|i| budgets[*i].name.name()).collect();
            let budget = names.join(", ");
            let message = match of_pod.as_slice() {
                [budget] => format!(
                    "blocked by PodDisruptionBudget {}: {} disruptions allowed{}",
                    budgets[*budget].name.name(),
                    spare[*budget],
                    budgets[*budget].failure().map_or_else(String::new, |why| format!(", because {why}"))
                ),
                _ => format!(
                    "blocked: the API server evicts no pod that several PodDisruptionBudgets select ({budget})"
                ),
            };
            let (namespace, name) = (name.namespace().to_owned(), name.name().to_owned());
            Some(BlockedEviction { namespace, name, budget, node: node.clone(), message })
        });
        let mut blocked: Vec<_> = blocked.collect();
        blocked.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        blocked
    }
}

impl Steps<'_> {
    /// Takes a pod off its node. Its controller creates it again.
    fn evict(&mut self, position: usize, eviction: &Eviction, lost: &mut Vec<(NamespacedName, String)>) {
        match Fate::of(&self.simulation.pods[position].pod) {
            Fate::Recreated => {
                let simulation = &mut *self.simulation;
                simulation.remove_from_node(position);
                simulation.creation.release(&simulation.pods[position].pod);
                let node = simulation.nodes.get(&eviction.node);
                let evicted = &mut simulation.pods[position];
                simulation.workloads.recreate(&mut evicted.pod, node);
                evicted.was_running = false;
                simulation.n_vacated += 1;
                evicted.outcome = Outcome::Unschedulable { message: String::new(), plugins: Vec::new() };
                self.arrive_or_wait(position);
            }
            fate => {
                if fate == Fate::Lost {
                    lost.push((eviction.pod.clone(), eviction.why.clone()));
                }
                self.delete(position);
            }
        }
    }
}
