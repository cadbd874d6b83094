//! Placing pending pods.

use core::time::Duration;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use berth_engine::{Outcome, PreparedPod};
use berth_input::inventory::Inventory;

use super::error::SimulationError;
use super::groups::Unit;
use super::options::SimulationOptions;
use super::pod::SimulatedPod;
use super::state::Simulation;

impl Simulation {
    /// Places the pending pods. After each placed pod, `progress` gets the number of placed pods and of all pending
    /// pods.
    pub fn run(&mut self, progress: impl FnMut(usize, usize)) {
        let pending = self.take_queue();
        let unplaced = self.place_pending(pending, progress);
        self.queue = unplaced.into_iter().map(|(i, _)| i).collect();
        self.name_predecessors();
    }

    /// The pending pods, in the order in which they are placed.
    pub(super) fn take_queue(&mut self) -> Vec<(usize, PreparedPod)> {
        let queue = std::mem::take(&mut self.queue);
        queue.into_iter().map(|i| (i, self.cluster.prepare(&self.pods[i].pod))).collect()
    }

    pub(super) fn sort_queue(&mut self) {
        let mut queue = std::mem::take(&mut self.queue);
        queue.sort_by_cached_key(|i| (Reverse(self.priority(*i)), self.pods[*i].queued));
        self.queue = queue;
    }

    /// When a pod is placed: by priority, then those first that have waited for longer.
    pub(super) fn turn(&self, position: usize, pod: &PreparedPod) -> (Reverse<i32>, usize, usize) {
        (Reverse(pod.priority()), self.pods[position].queued, position)
    }

    /// The priority of a pod, or of its group.
    pub(super) fn priority(&self, position: usize) -> i32 {
        let group = self.own_group(position).and_then(|key| self.group_disruptions.get(&key)?.priority);
        group.or(self.pods[position].pod.spec.priority).unwrap_or(0)
    }

    /// Places pods, which are sorted by priority, and their victims; see [`Simulation::run`]. Returns the
    /// unschedulable ones.
    pub(super) fn place_pending(
        &mut self,
        mut pending: Vec<(usize, PreparedPod)>,
        mut progress: impl FnMut(usize, usize),
    ) -> Vec<(usize, PreparedPod)> {
        let n_pending = pending.len();
        // Equivalent pods share a failure until another pod is placed.
        let mut failures = HashMap::new();
        let mut n_placed = 0;
        loop {
            let (n_before, mut unplaced) = (n_placed, Vec::new());
            let mut units = self.units(pending);
            while !units.is_empty() {
                for unit in units {
                    let (i, pod) = match unit {
                        Unit::Pod(i, pod) => (i, pod),
                        Unit::Group(key, members) => {
                            for i in self.place_group(&key, &members) {
                                unplaced.extend(self.created_again(i));
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
                                unplaced.extend(self.created_again(i));
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
                    self.decided(i, outcome);
                    if !is_placed {
                        unplaced.push((i, pod));
                    }
                }
                // What controllers create now is placed before the others are tried again.
                let created = self.create_waiting().into_iter();
                let created: Vec<_> = created.map(|i| (i, self.cluster.prepare(&self.pods[i].pod))).collect();
                units = self.units(created);
            }
            pending = unplaced;
            if pending.is_empty() || n_placed == n_before {
                return pending;
            }
            pending.sort_by_key(|(i, pod)| self.turn(*i, pod));
        }
    }

    /// Notes what was decided about a pod, which the cluster assumes.
    pub(crate) fn decided(&mut self, position: usize, mut outcome: Outcome) {
        let pod = &mut self.pods[position].pod;
        if let Outcome::Unschedulable { message, .. } = &mut outcome
            && let Some(missing) = self.devices.missing(pod)
        {
            *message = format!("{missing}; {message}");
        }
        self.devices.decided(&mut self.cluster, pod, &outcome);
        let is_placed = outcome.node().is_some();
        self.pods[position].outcome = outcome;
        if is_placed {
            self.note_placed(position);
        }
    }

    /// A pod leaves its node, in the state of the cluster.
    pub(crate) fn remove_from_node(&mut self, position: usize) {
        let pod = &self.pods[position].pod;
        self.cluster.remove_pod(&pod.metadata.namespace, &pod.metadata.name);
        self.devices.release(&mut self.cluster, pod);
    }

    /// A victim that its controller creates again, if a scheduler is to place it.
    fn created_again(&mut self, position: usize) -> Option<(usize, PreparedPod)> {
        let is_pending = self.create_at(position) && !self.arrive_again(position);
        is_pending.then(|| (position, self.cluster.prepare(&self.pods[position].pod)))
    }

    /// The cluster as it is: the running pods, and the pods of workloads that the inventory has without their pods, which
    /// are placed. Pending pods of the inventory stay pending. An inventory that the caller keeps is borrowed.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn as_is(
        inventory: Cow<'_, Inventory>,
        options: SimulationOptions,
    ) -> Result<Simulation, SimulationError> {
        let given: HashSet<_> = inventory.pods.iter().map(|e| e.object.metadata.namespaced_name()).collect();
        let mut simulation = Simulation::of(inventory, options, None, false)?;
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

    /// Places the pods that come before this pod in the queue; explain the pod afterwards.
    pub fn run_before(&mut self, namespace: &str, name: &str) {
        let with = self.placed_with(namespace, name);
        if self.is_not_created(namespace, name) {
            self.hold(namespace, name);
            self.run(|_, _| ());
        } else if let Some(position) = self.queue.iter().position(|i| with.contains(i)) {
            self.queue.truncate(position);
            self.run(|_, _| ());
        }
    }

    /// Places all other pending pods; explain the pod afterwards.
    pub fn run_others(&mut self, namespace: &str, name: &str) {
        let with = self.placed_with(namespace, name);
        self.hold(namespace, name);
        self.queue.retain(|i| !with.contains(i));
        self.run(|_, _| ());
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
