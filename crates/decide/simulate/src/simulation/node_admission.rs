//! Pods with `spec.nodeName`. No scheduler decides about them: the named node admits or rejects them when they arrive.
//!
//! Pods that a kubelet has admitted already stay on their nodes. The others arrive in the order of their creation
//! timestamps, then pods without one in input order. A pod that does not run uses nothing of its node, and no rule counts it.

use std::collections::HashMap;

use berth_api::object::{NamespacedName, Pod};
use berth_engine::{Equivalence, Outcome, PreparedPod};
use berth_input::config::Plugin;

use super::pod::SimulatedPod;
use super::rollout::{Rollout, Strategy};
use super::state::Simulation;
use super::unadmitted::{NotRunning, Unadmitted, UnadmittedState};
use super::volumes::volume_claims;

/// Whether a kubelet has admitted a pod and has not started it.
pub(super) fn is_starting(pod: &Pod) -> bool {
    !pod.spec.node_name.is_empty()
        && pod.status.phase == "Pending"
        && !pod.awaits_node_admission()
        && !pod.metadata.is_deleting()
}

impl Simulation {
    /// The pods that do not run on the nodes that they name, or are not created, by workload, node and reason, in input order.
    pub fn not_running(&self) -> Vec<NotRunning> {
        let of_pods = self.pods.iter().filter_map(|pod| {
            let why = pod.unadmitted.as_deref()?.clone();
            Some((pod.pod.metadata.namespaced_name(), pod.workload.clone(), why))
        });
        let of_rollouts = self.rollouts.iter().flat_map(|rollout| self.not_created(rollout));
        let mut groups = NotRunning::group(of_pods.chain(of_rollouts));
        for group in groups.iter_mut().filter(|group| group.why.state == UnadmittedState::NotCreated) {
            let is_of = |pod: &&SimulatedPod| {
                pod.workload == group.workload && pod.pod.metadata.namespace == group.namespace
            };
            let n_later = group.pods.iter().filter(|name| !self.has_pod(name)).count();
            group.of = group.workload.as_ref().map(|_| self.pods.iter().filter(is_of).count() + n_later);
        }
        groups
    }

    /// The pods of a StatefulSet that are not created, and are no pods of the simulation, as one before them is not available.
    fn not_created(&self, rollout: &Rollout) -> Vec<(NamespacedName, Option<String>, Unadmitted)> {
        let Strategy::StatefulSet(spec, _) = &rollout.strategy else { return Vec::new() };
        let is_there = |name: &NamespacedName| self.pod(name.namespace(), name.name()).is_some();
        let mut before = spec.ordinals.clone().map(|ordinal| rollout.pod_name(ordinal));
        let Some(first) = before.find(|name| !self.is_available(name)) else { return Vec::new() };
        let to_create = rollout.to_create.values();
        let names = to_create.map(|pod| (pod.pod.metadata.namespaced_name(), pod.workload.clone()));
        let missing = names.filter(|(name, _)| !is_there(name) && *name != first);
        missing.map(|(name, of)| (name, of, Unadmitted::not_created_yet(first.name()))).collect()
    }

    /// Whether there is a pod with this `namespace/name`.
    fn has_pod(&self, key: &str) -> bool {
        key.split_once('/').is_some_and(|(namespace, name)| self.position(namespace, name).is_some())
    }

    /// Why a pod that names this node would not run there now.
    pub(crate) fn unadmitted(&self, pod: &Pod, prepared: &PreparedPod, node: &str) -> Option<Unadmitted> {
        if !self.cluster.has_node(node) {
            return Some(Unadmitted::waiting(node));
        }
        if let Err(rejection) = self.cluster.node_admission(prepared, node) {
            return Some(Unadmitted::rejected(node, rejection));
        }
        self.unmounted(pod, prepared, node)
    }

    /// Why the kubelet of a node waits for the volumes of a pod that no scheduler has decided about, for ever.
    fn unmounted(&self, pod: &Pod, prepared: &PreparedPod, node: &str) -> Option<Unadmitted> {
        let mut claims = volume_claims(pod).peekable();
        claims.peek()?;
        for claim in claims {
            if self.waiting_claims.contains(&claim) {
                return Some(Unadmitted::unbound(node, &claim));
            }
            if let Some(why) = self.lost_claims.get(&claim) {
                return Some(Unadmitted::unmounted(node, why));
            }
        }
        let verdicts = self.cluster.verdicts_on(prepared, node);
        let verdict = verdicts.iter().find(|verdict| verdict.plugin == Plugin::VolumeBinding)?;
        Some(Unadmitted::unmounted(node, &verdict.detail))
    }

    /// Pods whose kubelets have admitted them and wait for volumes do not run. They use their part of the node.
    pub(super) fn refuse_unmounted(&mut self) {
        for i in 0..self.pods.len() {
            let pod = &self.pods[i].pod;
            if !is_starting(pod) || volume_claims(pod).next().is_none() {
                continue;
            }
            let prepared = self.cluster.prepare(&self.pods[i].pod);
            let pod = &self.pods[i].pod;
            if let Some(why) = self.unmounted(pod, &prepared, &pod.spec.node_name) {
                self.pods[i].refuse(why);
            }
        }
    }

    /// Whether a DaemonSet creates this pod on a node: its taints, labels and name are considered, its room is not.
    pub(crate) fn is_eligible(&mut self, pod: &Pod, node: &str) -> bool {
        let prepared = self.cluster.prepare(pod);
        let verdicts = self.cluster.verdicts_on(&prepared, node);
        !verdicts.iter().any(|v| matches!(v.plugin, Plugin::TaintToleration | Plugin::NodeAffinity))
    }

    /// The pod at a position arrives at the node that it names.
    pub(super) fn arrive_alone(&mut self, position: usize) {
        let prepared = self.cluster.prepare(&self.pods[position].pod);
        self.arrive(vec![(position, prepared)]);
    }

    /// The pods at these positions arrive at the nodes that they name.
    pub(super) fn arrive(&mut self, mut arriving: Vec<(usize, PreparedPod)>) {
        arriving.sort_by_key(|(i, _)| {
            let created = self.pods[*i].pod.metadata.creation_timestamp;
            (created.is_none(), created, *i)
        });
        // Equivalent pods share an answer until another pod is admitted. The pods are kept: what they are equivalent by stays theirs.
        let mut refused: HashMap<(Equivalence, String), (usize, Unadmitted, PreparedPod)> = HashMap::new();
        let mut n_admitted = 0;
        for (i, pod) in arriving {
            let node = self.pods[i].pod.spec.node_name.clone();
            let key = (self.cluster.equivalence(&pod), node);
            let unadmitted = match refused.get(&key) {
                Some((at, why, _)) if *at == n_admitted => Some(why.clone()),
                _ => self.unadmitted(&self.pods[i].pod, &pod, &key.1),
            };
            if let Some(why) = unadmitted {
                self.pods[i].refuse(why.clone());
                refused.insert(key, (n_admitted, why, pod));
            } else {
                self.cluster.assume(&pod, &key.1);
                self.pods[i].outcome = Outcome::on(key.1);
                n_admitted += 1;
            }
        }
    }

    /// The controller of a pod that left its node creates it again: if the template names a node, it arrives there. Returns
    /// whether that is so.
    pub(super) fn arrive_again(&mut self, position: usize) -> bool {
        let SimulatedPod { pod, workload, .. } = &mut self.pods[position];
        let named = self.workloads.template_node(&pod.metadata.namespace, workload.as_deref());
        let Some(node) = named else { return false };
        node.clone_into(&mut pod.spec.node_name);
        self.arrive_alone(position);
        true
    }

    /// A node comes or changes: the pods arrive that have waited for it, and those that controllers create again as it rejects them.
    pub(crate) fn arrive_waiting(&mut self, node: &str) {
        let waits = |pod: &SimulatedPod| {
            let state = pod.unadmitted.as_ref().map(|why| why.state);
            pod.pod.spec.node_name == node
                && match state {
                    Some(UnadmittedState::Waiting) => true,
                    Some(UnadmittedState::Rejected) => {
                        pod.pod.metadata.controller().is_some() && !pod.pod.is_terminal()
                    }
                    _ => false,
                }
        };
        let waiting: Vec<usize> = (0..self.pods.len()).filter(|i| waits(&self.pods[*i])).collect();
        for i in waiting {
            self.pods[i].unadmitted = None;
            self.arrive_alone(i);
        }
    }

    /// The kubelets have admitted the pods that have arrived.
    pub(crate) fn run_admitted(&mut self) {
        for i in 0..self.pods.len() {
            if self.pods[i].pod.awaits_node_admission() && self.pods[i].node().is_some() {
                "Running".clone_into(&mut self.pods[i].pod.status.phase);
            }
        }
    }

    /// The pods that were placed have run before.
    pub(crate) fn run_placed(&mut self, as_object: impl Fn(&SimulatedPod) -> Pod) {
        for i in 0..self.pods.len() {
            let pod = &self.pods[i];
            let Some(node) = pod.node().filter(|_| !pod.was_running).map(str::to_owned) else { continue };
            self.pods[i] = SimulatedPod {
                outcome: Outcome::on(node),
                was_running: true,
                replaces: None,
                victims: Vec::new().into(),
                pod: as_object(pod),
                ..pod.clone()
            };
        }
    }

    /// Takes a pod back that has arrived: it is pending, and keeps the name of its node.
    pub(crate) fn take_back_arrival(&mut self, position: usize) {
        self.remove_from_node(position);
        let pod = &mut self.pods[position];
        pod.was_running = false;
        pod.unadmitted = None;
        pod.outcome = Outcome::Unschedulable { message: String::new(), plugins: Vec::new() };
    }
}
