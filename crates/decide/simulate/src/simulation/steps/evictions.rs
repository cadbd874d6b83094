//! Evictions with the Eviction API, as `kubectl drain` makes them.

use std::collections::{HashMap, HashSet};

use berth_api::object::{Condition, NamespacedName, Pod};
use berth_api::syntax::format::{abbreviated, counted};
use berth_control::budget::{Budget, Scales};
use berth_control::expand::target_node;
use berth_control::taints::is_eviction;
use berth_input::inventory::{Entry, Inventory};
use serde::Serialize;

use super::Steps;
use crate::simulation::SimulatedPod;
use crate::simulation::departure::{Contact, Fate, unreachable};
use crate::simulation::state::Simulation;
use crate::simulation::unadmitted::Unadmitted;

/// Pods that a message names.
const MAX_NAMED: usize = 3;

const LOST_WITH_NODE: &str = "has no controller: it is lost with its node";

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

/// The budgets of an inventory, counted with its pods; `ran` says which of them run.
pub(crate) fn counted_budgets(inventory: &Inventory, ran: impl Fn(&NamespacedName) -> bool) -> Vec<Budget> {
    if inventory.pod_disruption_budgets.is_empty() {
        return Vec::new();
    }
    let scales = Scales::new(inventory);
    let mut of_namespace: HashMap<&str, Vec<&Pod>> = HashMap::new();
    for pod in inventory.pods.iter().map(|entry| &entry.object) {
        of_namespace.entry(&pod.metadata.namespace).or_default().push(pod);
    }
    let counted = inventory.pod_disruption_budgets.iter().map(|Entry { object, .. }| {
        let mut budget = Budget::new(object);
        let pods = of_namespace.get(budget.name.namespace()).into_iter().flatten().copied();
        let covered: Vec<&Pod> = pods.filter(|pod| budget.covers(pod)).collect();
        let is_healthy = |pod: &Pod| ran(&pod.metadata.namespaced_name()) && !pod.is_unready();
        budget.count(object, &scales, covered.iter().map(|pod| (*pod, is_healthy(pod))));
        budget
    });
    counted.collect()
}

/// The evictions that are still to be made.
pub(super) struct Evictions {
    pub open: Vec<Eviction>,
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
        let mut spare = spare(&self.budgets, steps.simulation);
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
                // The API server does not ask the budgets.
                _ if pod.metadata.is_deleting() => {}
                [budget] if pod.is_unready() && budgets[*budget].evicts_unready(spare[*budget]) => {}
                [budget] if spare[*budget] > 0 => spare[*budget] -= 1,
                _ => return true,
            }
            steps.leave_or_return(at, eviction, lost);
            false
        });
        open.len() < n_open
    }

    /// The evictions that are refused to the end.
    pub fn blocked(&self, simulation: &Simulation) -> Vec<BlockedEviction> {
        let Evictions { open, budgets } = self;
        if open.is_empty() {
            return Vec::new();
        }
        let spare = spare(budgets, simulation);
        let blocked = open.iter().filter_map(|Eviction { pod: name, node, .. }| {
            let pod = &simulation.pod(name.namespace(), name.name())?.pod;
            let of_pod: Vec<usize> = (0..budgets.len()).filter(|i| budgets[*i].covers(pod)).collect();
            let names: Vec<&str> = of_pod.iter().map(|i| budgets[*i].name.name()).collect();
            let budget = names.join(", ");
            let message = match of_pod.as_slice() {
                [budget] => format!(
                    "blocked by PodDisruptionBudget {}: {} disruptions allowed{}",
                    budgets[*budget].name.name(),
                    spare[*budget].max(0),
                    match budgets[*budget].failure() {
                        Some(why) => format!(", because {why}"),
                        None => unready(&budgets[*budget], pod, simulation),
                    }
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

/// How many pods of each budget may be evicted now; less than 0 if pods are missing.
fn spare(budgets: &[Budget], simulation: &Simulation) -> Vec<i64> {
    let mut healthy = vec![0; budgets.len()];
    let mut of_namespace: HashMap<&str, Vec<usize>> = HashMap::new();
    for (i, budget) in budgets.iter().enumerate() {
        of_namespace.entry(budget.name.namespace()).or_default().push(i);
    }
    for pod in simulation.pods().iter().filter(|pod| pod.is_available()) {
        let of_pod = of_namespace.get(pod.pod.metadata.namespace.as_str()).into_iter().flatten();
        let is_counted = |i: &&usize| !pod.pod.metadata.is_deleting() && budgets[**i].covers(&pod.pod);
        of_pod.filter(is_counted).for_each(|i| healthy[*i] += 1);
    }
    budgets.iter().zip(healthy).map(|(budget, n_healthy)| budget.allowed(n_healthy)).collect()
}

/// The budgets with pods that allow no disruption.
pub(crate) fn exhausted(budgets: &[Budget], simulation: &Simulation) -> Vec<NamespacedName> {
    let has_pods = |budget: &Budget| simulation.pods().iter().any(|pod| budget.covers(&pod.pod));
    let spare = budgets.iter().zip(spare(budgets, simulation));
    let exhausted = spare.filter(|(budget, spare)| *spare <= 0 && has_pods(budget));
    exhausted.map(|(budget, _)| budget.name.clone()).collect()
}

/// Which pods of a budget count as disrupted because they are not ready, and what that means for an evicted one.
fn unready(budget: &Budget, evicted: &Pod, simulation: &Simulation) -> String {
    let covered = simulation.pods().iter().filter(|pod| budget.covers(&pod.pod));
    let unready = covered.filter(|pod| pod.node().is_some() && pod.pod.is_unready());
    let unready: Vec<&str> = unready.map(|pod| pod.pod.metadata.name.as_str()).collect();
    if unready.is_empty() {
        return String::new();
    }
    let hint = match evicted.is_unready() {
        true => "; with unhealthyPodEvictionPolicy: AlwaysAllow, pods that are not ready may be evicted",
        false => "",
    };
    format!(", {} not ready: {}{hint}", counted(unready.len(), "pod"), abbreviated(&unready, MAX_NAMED))
}

impl Steps<'_> {
    /// Nodes are removed with their pods. Controllers create them again, but those of DaemonSets, also if they have not been there yet.
    pub(super) fn lose(&mut self, nodes: &[String], lost: &mut Vec<(NamespacedName, String)>) {
        if nodes.is_empty() {
            return;
        }
        let names: HashSet<&str> = nodes.iter().map(String::as_str).collect();
        // Pods that do not run there are garbage, too.
        let is_there = |at: usize, pod: &SimulatedPod| {
            pod.unadmitted.is_some()
                && names.contains(pod.pod.spec.node_name.as_str())
                && !self.gone.contains(&at)
        };
        let pods = self.simulation.pods.iter().enumerate();
        let unadmitted: Vec<usize> = pods.filter(|(at, pod)| is_there(*at, pod)).map(|(at, _)| at).collect();
        for at in unadmitted {
            let pod = &mut self.simulation.pods[at];
            if Fate::of(&pod.pod) == Fate::Recreated {
                let why = Unadmitted::waiting(&pod.pod.spec.node_name);
                pod.refuse(why);
            } else {
                self.leave(at, LOST_WITH_NODE, lost);
            }
        }
        let on_nodes = self.on_nodes(|node| names.contains(node));
        // At once: what is created again arrives when all of it is gone.
        on_nodes.iter().for_each(|(position, _)| self.simulation.remove_from_node(*position));
        nodes.iter().for_each(|node| self.simulation.cluster.remove_node(node));
        for (position, _) in on_nodes {
            self.leave(position, LOST_WITH_NODE, lost);
        }
        nodes.iter().for_each(|node| _ = self.simulation.nodes.remove(node));
        let is_daemon = |pod: &SimulatedPod| {
            pod.node().is_none()
                && pod.pod.metadata.controller().is_some_and(|owner| owner.kind == "DaemonSet")
                && target_node(&pod.pod).is_some_and(|node| names.contains(node))
        };
        let daemons = self.simulation.pods.iter().enumerate().filter(|(_, pod)| is_daemon(pod));
        let daemons: Vec<usize> = daemons.map(|(at, _)| at).filter(|at| !self.gone.contains(at)).collect();
        daemons.into_iter().for_each(|position| self.delete(position));
    }

    /// Nodes cannot be reached. Pods that do not tolerate that for so long are created again elsewhere, if their controllers do that: those
    /// of StatefulSets have names that are free when a kubelet has ended them. The others stay, and are not ready.
    pub(super) fn lose_contact(
        &mut self,
        nodes: &[(String, Option<i64>)],
        lost: &mut Vec<(NamespacedName, String)>,
    ) {
        if nodes.is_empty() {
            return;
        }
        let seconds: HashMap<&str, Option<i64>> =
            nodes.iter().map(|(node, seconds)| (node.as_str(), *seconds)).collect();
        let gates = self.simulation.cluster.settings().config.feature_gates;
        let on_nodes = self.on_nodes(|node| seconds.contains_key(node)).into_iter().map(|(at, node)| {
            let spec = self.simulation.node(&node).map(|node| &node.spec);
            let evicts = spec.is_some_and(|spec| spec.taints.iter().any(is_eviction));
            let contact = unreachable(&self.simulation.pods[at].pod, seconds[node.as_str()], evicts, gates);
            (at, node, contact)
        });
        let (mut leaving, staying): (Vec<_>, Vec<_>) =
            on_nodes.partition(|(_, _, contact)| *contact == Contact::Recreated);
        // The controller evicts from one node after the other, which matters to groups: the scheduler looks at those that are left.
        let has_groups = leaving.iter().any(|(position, ..)| self.simulation.pods[*position].group.is_some());
        if has_groups {
            leaving.sort_by(|(_, a, _), (_, b, _)| a.cmp(b));
        }
        for of_node in leaving.chunk_by(|(_, a, _), (_, b, _)| !has_groups || a == b) {
            of_node.iter().for_each(|(position, ..)| self.simulation.remove_from_node(*position));
            for (position, ..) in of_node {
                self.leave(*position, "has no controller: the unreachable node evicts it", lost);
            }
            if has_groups {
                self.place(true, &mut |_, _| ());
            }
        }
        // Those that wait for them look again.
        self.simulation.n_vacated += usize::from(!staying.is_empty());
        for (position, _, contact) in staying {
            let pod = &mut self.simulation.pods[position].pod;
            if let Contact::Lost(_) = contact {
                self.simulation.creation.expire(pod);
            }
            pod.status.conditions.retain(|condition| condition.condition_type != "Ready");
            pod.status.conditions.push(Condition {
                condition_type: "Ready".to_owned(),
                status: "False".to_owned(),
                ..Condition::default()
            });
        }
    }

    /// Pods leave their nodes.
    pub(super) fn depart(&mut self, leaving: &[Eviction], lost: &mut Vec<(NamespacedName, String)>) {
        let there = leaving.iter().filter_map(|leaving| {
            let at = self.simulation.position(leaving.pod.namespace(), leaving.pod.name())?;
            let pod = &self.simulation.pods[at];
            let is_there =
                pod.node() == Some(&leaving.node) || pod.node().is_none() && pod.pod.belongs_to_node();
            is_there.then_some((at, leaving))
        });
        let mut there: Vec<_> = there.collect();
        let mut seen = HashSet::new();
        there.retain(|(at, _)| seen.insert(*at));
        for (at, leaving) in there {
            self.leave_or_return(at, leaving, lost);
        }
    }

    /// A pod leaves its node. The DaemonSet creates its pod on the same node again, and a kubelet the mirror of its own.
    fn leave_or_return(&mut self, at: usize, eviction: &Eviction, lost: &mut Vec<(NamespacedName, String)>) {
        let pod = &self.simulation.pods[at].pod;
        if !pod.belongs_to_node() {
            if !self.stays_terminating(at) {
                self.simulation.note_ending(at);
                self.leave(at, &eviction.why, lost);
            }
        } else if pod.metadata.controller().is_some_and(|owner| owner.kind == "DaemonSet") {
            let pod = pod.clone();
            if !self.simulation.is_eligible(&pod, &eviction.node) && !self.stays_terminating(at) {
                self.delete(at);
            }
        }
    }

    /// Pods are evicted, and those that their controllers create in their place are bound to these nodes, which admit them or not.
    pub(super) fn move_pods(&mut self, moves: &[(NamespacedName, String)]) {
        let position = |name: &NamespacedName| self.simulation.position(name.namespace(), name.name());
        let moves: Vec<_> = moves.iter().filter_map(|(pod, to)| Some((position(pod)?, to))).collect();
        moves.iter().for_each(|(at, _)| self.simulation.remove_from_node(*at));
        let mut arriving = Vec::new();
        for (at, to) in moves {
            let simulation = &mut *self.simulation;
            simulation.take_again(at);
            if simulation.may_need_devices(&simulation.pods[at].pod) {
                simulation.move_to(at, to);
            } else if simulation.create_at(at) {
                simulation.pods[at].pod.spec.node_name.clone_from(to);
                arriving.push((at, simulation.cluster.prepare(&simulation.pods[at].pod)));
            }
        }
        self.simulation.arrive(arriving);
    }

    /// The pods on nodes, by position.
    fn on_nodes(&self, is_meant: impl Fn(&str) -> bool) -> Vec<(usize, String)> {
        let pods = self.simulation.pods().iter().enumerate();
        let on_nodes =
            pods.filter_map(|(i, pod)| Some((i, pod.node().filter(|node| is_meant(node))?.to_owned())));
        on_nodes.collect()
    }

    /// Takes a pod off its node. Its controller creates it again; `why` is the message for a pod without one.
    fn leave(&mut self, position: usize, why: &str, lost: &mut Vec<(NamespacedName, String)>) {
        match Fate::of(&self.simulation.pods[position].pod) {
            // The rollout creates it from the new template.
            Fate::Recreated if self.is_replaced(position) => {
                self.simulation.n_vacated += 1;
                self.delete(position);
            }
            Fate::Recreated => {
                self.simulation.remove_from_node(position);
                self.simulation.take_again(position);
                self.arrive_or_wait(position);
            }
            fate => {
                if fate == Fate::Lost {
                    lost.push((
                        self.simulation.pods[position].pod.metadata.namespaced_name(),
                        why.to_owned(),
                    ));
                }
                self.delete(position);
            }
        }
    }
}
