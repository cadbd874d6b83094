//! Pods that leave their nodes in the middle of a simulation and are placed again, and nodes that are lost for a while.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;

use berth_api::object::{NamespacedName, Node};
use berth_api::syntax::annotations::{AFFINITY_ANNOTATION, RELAXED_ANNOTATION};
use berth_control::taints::taint_unreachable;
use berth_engine::{Cluster, Outcome, PreparedPod};
use berth_rules::PodRequests;

use super::departure::{Contact, Fate, NAMES_UNREACHABLE, labels_of_binding, recreate};
use super::pod::{SimulatedPod, Vacated};
use super::state::Simulation;

/// How nodes are lost.
#[derive(Clone, Copy)]
pub(crate) enum Loss<'a> {
    /// They cannot be reached: their objects are there, tainted.
    Unreachable(&'a LostContact<'a>),
    Removed,
}

pub(crate) struct LostContact<'a> {
    /// What happens to the pods on the nodes, by position.
    pub contacts: BTreeMap<usize, Contact>,
    /// Whether a node gets the taint that evicts pods.
    pub evicts: &'a dyn Fn(&str) -> bool,
}

fn pending(message: String) -> Outcome {
    Outcome::Unschedulable { message, plugins: Vec::new() }
}

fn restore_volumes(cluster: &mut Cluster, pod: &PreparedPod, outcome: &Outcome) {
    if let Outcome::Placed { volumes: Some(volumes), .. } = outcome {
        cluster.restore_volumes(pod, volumes);
    }
}

impl Simulation {
    /// The pod as the state has it, for decisions about its replacement.
    fn as_pending(&mut self, position: usize) -> Option<PreparedPod> {
        let pod = &self.pods[position].pod;
        let preempts = pod.spec.preemption_policy.as_deref() != Some("Never");
        self.cluster.as_pending(&pod.metadata.namespace, &pod.metadata.name, preempts)
    }

    /// What a controller makes in place of a pod that leaves its node; `prepared` is the pod as the state has it.
    fn replacement(&mut self, position: usize, prepared: &PreparedPod, node: Option<&Node>) -> PreparedPod {
        let SimulatedPod { pod, workload, .. } = &self.pods[position];
        let mut profiles = self.cluster.settings().config.profiles.iter();
        // Where the state has rules that a pending pod does not have, the pod is prepared again.
        let labels = labels_of_binding(pod, node);
        let may_read_labels = pod.spec.affinity.is_some()
            || !pod.spec.topology_spread_constraints.is_empty()
            || pod.metadata.annotations.contains_key(AFFINITY_ANNOTATION);
        if !self.creation.has_template(pod, workload.as_deref())
            && pod.spec.scheduling_gates.is_empty()
            && (labels.is_empty() || !may_read_labels)
            && !pod.metadata.annotations.contains_key(RELAXED_ANNOTATION)
            && !PodRequests::depend_on_status(pod)
            && profiles.any(|profile| profile.scheduler_name == pod.spec.scheduler_name)
        {
            return self.cluster.replacement(prepared, &labels);
        }
        let workload = workload.clone();
        let mut pod = pod.clone();
        recreate(&mut pod, node);
        self.creation.apply_template(&mut pod, workload.as_deref());
        self.cluster.prepare(&pod)
    }

    /// Takes a pod off its node: it is pending, with this message.
    pub(super) fn vacate(&mut self, position: usize, message: String) {
        if self.vacated.is_some() {
            let prepared = self.as_pending(position);
            let vacated = Vacated { position, pod: self.pods[position].clone(), prepared };
            self.vacated.get_or_insert_default().push(vacated);
        }
        self.remove_from_node(position);
        self.n_vacated += 1;
        self.creation.release(&self.pods[position].pod);
        let queued = self.n_vacated;
        let pod = &mut self.pods[position];
        pod.queued = queued;
        pod.was_running = false;
        pod.pod.spec.node_name.clear();
        pod.pod.status.start_time = None;
        pod.outcome = pending(message);
        let SimulatedPod { pod, workload, .. } = pod;
        self.creation.apply_template(pod, workload.as_deref());
    }

    /// Evicts pods for the enforcer, and places them and the other pending pods.
    pub(crate) fn reschedule(&mut self, evicted: &[NamespacedName]) {
        let evicted: HashSet<&NamespacedName> = evicted.iter().collect();
        let mut recreated = Vec::new();
        for i in 0..self.pods.len() {
            let pod = &self.pods[i].pod;
            if evicted.contains(&pod.metadata.namespaced_name()) {
                let is_recreated = Fate::of(pod) == Fate::Recreated;
                self.vacate(i, "evicted by the enforcer; it has no controller".to_owned());
                recreated.extend(is_recreated.then_some(i));
            }
        }
        recreated.retain(|i| self.create_at(*i) && !self.arrive_again(*i));
        self.queue.extend(recreated);
        self.sort_queue();
        self.run(|_, _| ());
    }

    /// Nodes are lost with the pods on them (`positions`), and those are placed again that a controller creates again.
    /// Restores the state after `look`.
    pub(crate) fn without_nodes<T>(
        &mut self,
        nodes: &[&Node],
        loss: Loss<'_>,
        positions: &[usize],
        look: impl FnOnce(&mut Simulation) -> T,
    ) -> T {
        let (budgets, groups) = (self.budgets.clone(), self.group_placements.clone());
        let vain_preemptors = self.vain_preemptors.clone();
        let claims = self.devices.claims();
        // Pods are replaced one for one.
        let creation = mem::take(&mut self.creation);
        self.creation = creation.only_templates();
        self.vacated = Some(Vec::new());
        let by_name: HashMap<&str, &Node> = nodes.iter().map(|n| (n.metadata.name.as_str(), *n)).collect();
        let (mut left, mut replacements, mut arriving) = (Vec::new(), Vec::new(), Vec::new());
        for &position in positions {
            let is_recreated = Fate::of(&self.pods[position].pod) == Fate::Recreated;
            let (is_recreated, message) = match loss {
                Loss::Unreachable(lost) => match lost.contacts.get(&position) {
                    Some(Contact::Lost(why)) => (false, *why),
                    Some(Contact::Recreated) => (true, ""),
                    _ => continue,
                },
                Loss::Removed if is_recreated => (true, ""),
                Loss::Removed => (false, "has no controller: it is lost with its node"),
            };
            let Some(prepared) = self.as_pending(position) else { continue };
            self.remove_from_node(position);
            let SimulatedPod { outcome, .. } = &mut self.pods[position];
            let outcome = mem::replace(outcome, pending(message.to_owned()));
            if is_recreated {
                let SimulatedPod { pod, workload, .. } = &self.pods[position];
                let named = self.workloads.template_node(&pod.metadata.namespace, workload.as_deref());
                let named = named.map(str::to_owned);
                let node = outcome.node().and_then(|node| by_name.get(node)).copied();
                let replacement = self.replacement(position, &prepared, node);
                match named {
                    Some(named) => arriving.push((position, replacement, named)),
                    None => replacements.push((position, replacement)),
                }
            }
            left.push((position, prepared, outcome));
        }
        for node in nodes {
            match loss {
                Loss::Removed => self.cluster.remove_node(&node.metadata.name),
                Loss::Unreachable(lost) => {
                    let mut node = Node::clone(node);
                    taint_unreachable(&mut node.spec, (lost.evicts)(&node.metadata.name));
                    self.cluster.set_node(&node);
                }
            }
        }
        for (position, pod, node) in arriving {
            let is_silent = matches!(loss, Loss::Unreachable(_)) && by_name.contains_key(node.as_str());
            let unadmitted = match is_silent {
                true => Some(NAMES_UNREACHABLE.to_owned()),
                false => self.unadmitted(&self.pods[position].pod, &pod, &node).map(|why| why.to_string()),
            };
            self.pods[position].outcome = match unadmitted {
                Some(error) => Outcome::Failed { error },
                None => {
                    self.cluster.assume(&pod, &node);
                    Outcome::on(node)
                }
            };
        }
        replacements.sort_by_key(|(position, pod)| (Reverse(pod.priority()), *position));
        self.place_pending(replacements, |_, _| ());

        let result = look(self);

        let vacated = self.vacated.take().unwrap_or_default();
        self.take_back(&left, &vacated);
        for node in nodes {
            self.cluster.set_node(node);
        }
        self.devices.restore(&mut self.cluster, claims);
        // A pod that was preempted more than once gets its first state back.
        for Vacated { position, pod, prepared } in vacated.into_iter().rev() {
            self.pods[position] = pod;
            self.restore(position, prepared.as_ref());
        }
        for (position, prepared, outcome) in left {
            self.pods[position].outcome = outcome;
            self.restore(position, Some(&prepared));
        }
        (self.budgets, self.group_placements) = (budgets, groups);
        (self.vain_preemptors, self.creation) = (vain_preemptors, creation);
        result
    }

    /// Removes the pods that were placed while nodes were lost, with what was assumed about their claims.
    fn take_back(&mut self, left: &[(usize, PreparedPod, Outcome)], vacated: &[Vacated]) {
        let mut prepared: HashMap<usize, &PreparedPod> = left.iter().map(|(i, pod, _)| (*i, pod)).collect();
        for Vacated { position, pod, prepared: before } in vacated {
            match (prepared.get(position), before) {
                (Some(prepared), _) => restore_volumes(&mut self.cluster, prepared, &pod.outcome),
                // Its first node is that before the loss.
                (None, Some(before)) => _ = prepared.insert(*position, before),
                (None, None) => {}
            }
        }
        for (position, prepared) in prepared {
            self.remove_from_node(position);
            restore_volumes(&mut self.cluster, prepared, &self.pods[position].outcome);
        }
    }

    fn restore(&mut self, position: usize, prepared: Option<&PreparedPod>) {
        if let (Some(node), Some(prepared)) = (self.pods[position].outcome.node(), prepared) {
            self.cluster.assume(prepared, node);
        }
    }

    /// The pods that have been preempted since the nodes were lost, by position.
    pub(crate) fn preempted(&self) -> impl Iterator<Item = usize> {
        self.vacated.iter().flatten().map(|vacated| vacated.position)
    }
}
