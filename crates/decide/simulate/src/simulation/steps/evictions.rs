//! Evictions with the Eviction API, as `kubectl drain` makes them.

use std::collections::{HashMap, HashSet};

use berth_api::fenceposts::evicts_unready;
use berth_api::object::{NamespacedName, Pod, PodDisruptionBudget};
use berth_engine::Outcome;
use berth_input::inventory::Inventory;
use berth_rules::Selector;
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

/// A disruption budget of pods that are to be evicted.
#[derive(Clone)]
pub(crate) struct Budget {
    name: NamespacedName,
    selector: Selector,
    unhealthy_pod_eviction_policy: String,
    /// Number of its pods that must stay healthy.
    desired: i64,
    /// How many of its healthy pods may go, if no other pod becomes healthy or unhealthy. Less than 0 if pods are missing.
    spare: i64,
    /// Number of its pods that were healthy before the changes.
    n_healthy: i64,
}

impl Budget {
    /// The budgets of the pods that are to be evicted. `ran` says which pods ran before the changes.
    pub fn of(
        inventory: &Inventory,
        evictions: &[Eviction],
        ran: impl Fn(&NamespacedName) -> bool,
    ) -> Vec<Budget> {
        let evicted: HashSet<&NamespacedName> = evictions.iter().map(|eviction| &eviction.pod).collect();
        let pods = || inventory.pods.iter().map(|entry| &entry.object).filter(|pod| !pod.is_terminal());
        let evicted: Vec<&Pod> =
            pods().filter(|pod| evicted.contains(&pod.metadata.namespaced_name())).collect();
        let budgets = inventory.pod_disruption_budgets.iter().map(|entry| &entry.object);
        let budgets = budgets.filter_map(|object| {
            let selector = Selector::parse(object.spec.selector.as_ref()).unwrap_or(Selector::Nothing);
            let namespace = object.metadata.namespace.as_str();
            let covers = |pod: &&Pod| is_covered(namespace, &selector, pod);
            if !evicted.iter().any(covers) {
                return None;
            }
            let (mut n_pods, mut n_healthy) = (0, 0);
            for pod in pods().filter(covers).filter(|pod| !pod.metadata.is_deleting()) {
                n_pods += 1;
                n_healthy += i64::from(ran(&pod.metadata.namespaced_name()) && !pod.is_unready());
            }
            let desired = desired(object, n_pods);
            Some(Budget {
                name: object.metadata.namespaced_name(),
                spare: spare(object, desired, n_healthy),
                unhealthy_pod_eviction_policy: object.spec.unhealthy_pod_eviction_policy.clone(),
                desired,
                selector,
                n_healthy,
            })
        });
        budgets.collect()
    }

    fn covers(&self, pod: &Pod) -> bool {
        is_covered(self.name.namespace(), &self.selector, pod)
    }

    /// Whether a pod that is not ready may go if so many of the healthy ones may.
    fn evicts_unready(&self, spare: i64) -> bool {
        evicts_unready(&self.unhealthy_pod_eviction_policy, self.desired + spare, self.desired)
    }
}

/// As in the API server: an empty selector covers all pods of the namespace.
fn is_covered(namespace: &str, selector: &Selector, pod: &Pod) -> bool {
    let labels = &pod.metadata.labels;
    namespace == pod.metadata.namespace && selector.matches(|key| labels.get(key).map(String::as_str))
}

/// How many pods must stay healthy, as the disruption controller says in the status, or would say if it has said nothing so far.
fn desired(budget: &PodDisruptionBudget, n_pods: i32) -> i64 {
    budget.status.desired_healthy.unwrap_or_else(|| budget.spec.desired_healthy(n_pods)).into()
}

/// How many pods may go, by the status as well.
fn spare(budget: &PodDisruptionBudget, desired: i64, n_healthy: i64) -> i64 {
    let status = &budget.status;
    match (status.disruptions_allowed, status.current_healthy) {
        (Some(allowed), _) if allowed > 0 => i64::from(allowed),
        (Some(_), Some(current)) => (i64::from(current) - desired).min(0),
        (Some(_), None) => 0,
        (None, _) => n_healthy - desired,
    }
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
        let mut spare: Vec<i64> = self.budgets.iter().map(|b| b.spare - b.n_healthy).collect();
        let mut of_namespace: HashMap<&str, Vec<usize>> = HashMap::new();
        for (i, budget) in self.budgets.iter().enumerate() {
            of_namespace.entry(budget.name.namespace()).or_default().push(i);
        }
        for pod in simulation.pods().iter().filter(|pod| pod.node().is_some() && !pod.pod.is_unready()) {
            let budgets = of_namespace.get(pod.pod.metadata.namespace.as_str()).into_iter().flatten();
            let is_counted =
                |i: &&usize| !pod.pod.metadata.is_deleting() && self.budgets[**i].covers(&pod.pod);
            budgets.filter(is_counted).for_each(|i| spare[*i] += 1);
        }
        spare
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
                    "blocked by PodDisruptionBudget {}: {} disruptions allowed",
                    budgets[*budget].name.name(),
                    spare[*budget]
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
