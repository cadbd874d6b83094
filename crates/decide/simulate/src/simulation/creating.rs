//! Controllers create pods in a simulation, as far as they can: LimitRanges and ResourceQuotas may refuse them, and a StatefulSet with
//! the policy `OrderedReady` creates a pod when those before it are available.
//!
//! A pod that is not created stays in the list of pods, with the reason. It is created once the reason is gone.

use berth_api::object::{NamespacedName, Pod};
use berth_engine::Outcome;

use super::creation::{Creation, Key};
use super::pod::SimulatedPod;
use super::rollout::ordinal;
use super::state::Simulation;
use super::unadmitted::{Unadmitted, UnadmittedState};

impl Simulation {
    /// The workload of a pod that a controller creates.
    fn workload_key(&self, position: usize) -> Option<Key> {
        let pod = &self.pods[position];
        Some((pod.pod.metadata.namespace.clone(), pod.workload.clone()?))
    }

    /// Makes a pod that leaves a node the one that its controller creates in its place.
    pub(super) fn recreate_at(&mut self, position: usize, node: &str) {
        let SimulatedPod { pod, workload, .. } = &mut self.pods[position];
        self.workloads.recreate(pod, self.nodes.get(node));
        self.creation.apply_template(pod, workload.as_deref());
    }

    /// The same for one that has left its node. It has no node so far.
    pub(super) fn take_again(&mut self, position: usize) {
        self.creation.release(&self.pods[position].pod);
        let node = self.pods[position].node().map(str::to_owned);
        self.recreate_at(position, node.as_deref().unwrap_or_default());
        let pod = &mut self.pods[position];
        pod.was_running = false;
        pod.outcome = Outcome::Unschedulable { message: String::new(), plugins: Vec::new() };
        self.n_vacated += 1;
        self.pods[position].queued = self.n_vacated;
    }

    /// The pod that is not available and that the next pod of a StatefulSet waits for, if its ordinal is this one.
    fn predecessor(&mut self, key: &Key, ordinal: i64) -> Option<String> {
        let mut ordered = self.creation.ordered.get(key)?.clone();
        if ordered.n_vacated != self.n_vacated {
            (ordered.available_to, ordered.n_vacated) = (ordered.start, self.n_vacated);
        }
        let name = |ordinal: i64| Some(format!("{}-{ordinal}", key.1.split_once(' ')?.1));
        let mut waits_for = None;
        for lower in ordered.available_to..ordinal {
            let lower_name = name(lower)?;
            let pod = self.pod(&key.0, &lower_name);
            if pod.is_none_or(|pod| !pod.is_available() || pod.pod.metadata.is_deleting()) {
                waits_for = Some(lower_name);
                break;
            }
            ordered.available_to = lower + 1;
        }
        self.creation.ordered.insert(key.clone(), ordered);
        waits_for
    }

    /// Whether a pod arrives at the node that it names when those before it are available.
    pub(super) fn arrives_in_order(&self, position: usize) -> bool {
        self.pods[position].pod.awaits_node_admission()
            && self.workload_key(position).is_some_and(|key| self.creation.ordered.contains_key(&key))
    }

    /// A controller creates the pod at this position, or waits: then the pod is not created so far. Returns whether it is created.
    pub(super) fn create_at(&mut self, position: usize) -> bool {
        let Creation { quotas, limits, ordered, .. } = &self.creation;
        if quotas.is_empty() && limits.is_empty() && ordered.is_empty() {
            return true;
        }
        let key = self.workload_key(position);
        match self.refusal(position, key.as_ref()) {
            Ok(()) => true,
            Err(why) => {
                self.pods[position].refuse(why);
                let name = self.pods[position].pod.metadata.namespaced_name();
                // The creation of a pod without a controller is not tried again.
                if let Some(key) = key {
                    let waiting = self.creation.waiting.entry(key.clone()).or_default();
                    let next = waiting.last_key_value().map_or(0, |(at, _)| at + 1);
                    let at = match self.creation.ordered.contains_key(&key) {
                        true => ordinal(name.name()).unwrap_or(next),
                        false => next,
                    };
                    waiting.insert(at, name);
                }
                false
            }
        }
    }

    /// A DaemonSet creates a pod for a new node. Other pods come later: they do not tolerate that the node is not ready.
    pub(crate) fn create_daemon(&mut self, pod: Pod) {
        let workload = self.workloads.owner(&pod);
        let pod = self.simulated(pod, None, workload);
        let position = self.pods.len();
        self.pods.push(pod);
        if self.create_at(position) {
            let prepared = self.cluster.prepare(&self.pods[position].pod);
            let unplaced = self.place_pending(vec![(position, prepared)], |_, _| ());
            self.queue.extend(unplaced.into_iter().map(|(position, _)| position));
            self.sort_queue();
        }
    }

    fn refusal(&mut self, position: usize, key: Option<&Key>) -> Result<(), Unadmitted> {
        if let Some(why) = key.and_then(|key| self.creation.refused.get(key)) {
            return Err(why.clone());
        }
        let name = &self.pods[position].pod.metadata.name;
        if let Some((key, ordinal)) = key.zip(ordinal(name))
            && let Some(predecessor) = self.predecessor(key, ordinal)
        {
            return Err(Unadmitted::not_created_yet(&predecessor));
        }
        let pod = &self.pods[position].pod;
        self.creation.charge(pod)
    }

    /// Why no controller can create this pod now.
    pub(crate) fn refusal_of(&self, pod: &Pod) -> Option<Unadmitted> {
        self.creation.check(pod).err()
    }

    /// Controllers try again to create pods where something has changed. Returns the positions of those that wait for a scheduler.
    pub(super) fn create_waiting(&mut self) -> Vec<usize> {
        let mut created = Vec::new();
        for key in std::mem::take(&mut self.creation.changed) {
            let Some(mut waiting) = self.creation.waiting.remove(&key) else { continue };
            while let Some((at, name)) = waiting.pop_first() {
                let is_refused = |at: &usize| self.pods[*at].is_unadmitted(UnadmittedState::NotCreated);
                let position = self.position(name.namespace(), name.name()).filter(is_refused);
                // It is deleted.
                let Some(position) = position else { continue };
                if let Err(why) = self.refusal(position, Some(&key)) {
                    self.pods[position].refuse(why);
                    waiting.insert(at, name);
                    break;
                }
                let is_held = self.creation.held.as_ref() == Some(&name);
                let pod = &mut self.pods[position];
                pod.unadmitted = None;
                pod.outcome = Outcome::Unschedulable { message: String::new(), plugins: Vec::new() };
                match pod.pod.awaits_node_admission() {
                    _ if is_held => {}
                    true => self.arrive_alone(position),
                    false => created.push(position),
                }
            }
            if !waiting.is_empty() {
                self.creation.waiting.insert(key, waiting);
            }
        }
        created
    }

    /// A pod of this workload has a node: the next one may be created.
    pub(super) fn note_placed(&mut self, position: usize) {
        if !self.creation.waiting.is_empty()
            && let Some(key) = self.workload_key(position)
            && self.creation.ordered.contains_key(&key)
        {
            self.creation.changed.insert(key);
        }
    }

    /// All pods of a StatefulSet that are not created so far wait for the same pod.
    pub(super) fn name_predecessors(&mut self) {
        for waiting in self.creation.waiting.clone().into_values() {
            let mut names = waiting.into_values();
            let first = names.next().and_then(|name| self.position(name.namespace(), name.name()));
            let Some(why) = first.and_then(|at| self.pods[at].unadmitted.as_deref().cloned()) else {
                continue;
            };
            for name in names {
                if let Some(at) = self.position(name.namespace(), name.name()) {
                    self.pods[at].refuse(why.clone());
                }
            }
        }
    }

    /// Takes replicas back that were to be created: nothing is charged for them, and nothing holds them up.
    pub(crate) fn take_back_creation(&mut self, positions: &[usize]) {
        for &position in positions {
            let pod = &mut self.pods[position];
            if pod.is_unadmitted(UnadmittedState::NotCreated) {
                pod.unadmitted = None;
                pod.outcome = Outcome::Unschedulable { message: String::new(), plugins: Vec::new() };
            } else {
                let pod = pod.pod.clone();
                self.creation.release(&pod);
            }
            if let Some(key) = self.workload_key(position) {
                self.creation.waiting.remove(&key);
            }
        }
    }

    pub(super) fn is_not_created(&self, namespace: &str, name: &str) -> bool {
        self.pod(namespace, name).is_some_and(|pod| pod.is_unadmitted(UnadmittedState::NotCreated))
    }

    /// The pod is not placed when it is created.
    pub(super) fn hold(&mut self, namespace: &str, name: &str) {
        self.creation.held = Some(NamespacedName::new(namespace, name));
    }
}
