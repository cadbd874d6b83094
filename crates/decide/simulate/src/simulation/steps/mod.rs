//! What happens after changes, step by step: evictions that disruption budgets allow, rollouts, and the placement of pods.
//!
//! A pod that has a node is available at once, unless its status says that it is not ready.

mod daemon_set;
mod deployment;
mod evictions;
mod stateful_set;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;

use berth_api::object::NamespacedName;
use berth_control::budget::Budget;
use berth_engine::{Equivalence, Outcome, PreparedPod};
use jiff::Timestamp;

use super::SimulatedPod;
use super::rollout::{Rollout, Strategy};
use super::state::Simulation;
use super::unadmitted::UnadmittedState;

pub use evictions::BlockedEviction;
pub(crate) use evictions::{Eviction, counted_budgets, exhausted};

/// Pods that the steps of all rollouts look at, at most: each step of a StatefulSet or DaemonSet looks at all of its pods.
const MAX_LOOKS: usize = 1_000_000_000;

/// What the steps left behind.
#[derive(Default)]
pub(crate) struct Left {
    /// Evicted pods that no controller creates again, and why they are gone.
    pub lost: Vec<(NamespacedName, String)>,
    /// Evictions that budgets refused to the end.
    pub blocked: Vec<BlockedEviction>,
    /// The same, as they were requested.
    pub open: Vec<Eviction>,
}

/// What leaves the cluster.
#[derive(Clone, Default)]
pub(crate) struct Leaving {
    /// Nodes that are removed with their pods.
    pub nodes: Vec<String>,
    /// Nodes that cannot be reached, for so many seconds; for ever without a number.
    pub unreachable: Vec<(String, Option<i64>)>,
    /// Pods that leave their nodes, whatever budgets say.
    pub leaving: Vec<Eviction>,
    /// Pods that are moved, and where to.
    pub moves: Vec<(NamespacedName, String)>,
    /// Evictions, and the budgets of these pods.
    pub evictions: Vec<Eviction>,
    pub budgets: Vec<Budget>,
}

/// The steps, and what is kept between them.
struct Steps<'a> {
    simulation: &'a mut Simulation,
    waiting: Waiting,
    /// Positions of pods that are gone. They stay until the end, so that positions do not change.
    gone: HashSet<usize>,
    /// The pods of StatefulSets that a rollout replaces.
    replaced: HashSet<NamespacedName>,
    /// How many pods the steps of rollouts have looked at.
    n_looks: usize,
    now: Timestamp,
}

/// The pending pods, by their positions.
#[derive(Default)]
struct Waiting {
    /// Pods that are tried in the next step.
    pending: Vec<(usize, PreparedPod)>,
    /// Pods that found no node, with those that are like them: of these, one is tried in a step, and the next if it fits.
    unschedulable: HashMap<Equivalence, BTreeMap<usize, PreparedPod>>,
    /// Whether all of them were tried the last time.
    were_all_tried: bool,
}

impl Waiting {
    /// Takes the pods that are tried next: all of them, or one of those that are alike.
    fn next(&mut self, are_all_tried: bool, gone: &HashSet<usize>) -> Vec<(usize, PreparedPod)> {
        let mut next = mem::take(&mut self.pending);
        if are_all_tried {
            next.extend(self.unschedulable.drain().flat_map(|(_, pods)| pods));
        }
        next.extend(self.unschedulable.values_mut().filter_map(|pods| first(pods, gone)));
        next.retain(|(i, _)| !gone.contains(i));
        next
    }

    /// Takes the next of the pods that are alike.
    fn next_alike(&mut self, alike: &Equivalence, gone: &HashSet<usize>) -> Option<(usize, PreparedPod)> {
        first(self.unschedulable.get_mut(alike)?, gone)
    }
}

/// Takes the first pod that is not gone.
fn first(pods: &mut BTreeMap<usize, PreparedPod>, gone: &HashSet<usize>) -> Option<(usize, PreparedPod)> {
    loop {
        let pod = pods.pop_first()?;
        if !gone.contains(&pod.0) {
            return Some(pod);
        }
    }
}

impl Simulation {
    /// Removes nodes with their pods, and evicts pods as `kubectl drain` does: refused evictions are tried again when other pods run. Plays
    /// the rollouts, and places the pending pods, until nothing changes any more. `now` is the time by which controllers select pods to
    /// delete; `progress` is that of [`Simulation::run`].
    pub(crate) fn advance(
        &mut self,
        Leaving { nodes, unreachable, leaving, moves, evictions, budgets }: Leaving,
        now: Timestamp,
        mut progress: impl FnMut(usize, usize),
    ) -> Left {
        let mut rollouts = mem::take(&mut self.rollouts);
        let mut left = Left::default();
        let waiting = Waiting { pending: self.take_queue(), ..Waiting::default() };
        let of_sets = rollouts.iter().filter(|rollout| matches!(rollout.strategy, Strategy::StatefulSet(..)));
        let replaced = of_sets.flat_map(|rollout| rollout.old.iter().map(|old| old.name.clone())).collect();
        let mut steps = Steps { simulation: self, waiting, gone: HashSet::new(), replaced, n_looks: 0, now };
        steps.lose(&nodes, &mut left.lost);
        if !nodes.is_empty() {
            rollouts.iter_mut().for_each(|rollout| rollout.lose(&nodes, &steps.simulation.pods));
        }
        steps.lose_contact(&unreachable, &mut left.lost);
        steps.depart(&leaving, &mut left.lost);
        steps.move_pods(&moves);
        let mut evictions = evictions::Evictions::new(evictions, budgets, steps.simulation);
        let mut is_first = true;
        loop {
            let mut has_changed = evictions.evict_allowed(&mut steps, &mut left.lost);
            for rollout in &mut rollouts {
                has_changed |= steps.step(rollout);
            }
            let is_end = !has_changed && !is_first;
            if is_end && steps.waiting.were_all_tried {
                break;
            }
            let has_placed = steps.place(is_first || is_end, &mut progress);
            if steps.simulation.end_members() {
                steps.waiting.were_all_tried = false;
            }
            if is_end && !has_placed {
                break;
            }
            is_first = false;
        }
        left.blocked = evictions.blocked(steps.simulation);
        left.open = evictions.open;
        for rollout in &mut rollouts {
            steps.name_replaced(rollout);
            // Positions change now.
            if let Strategy::Deployment(_, progress) = &mut rollout.strategy {
                *progress = None;
            }
        }
        steps.finish();
        // A StatefulSet that is scaled down has no new pods.
        let has_new = |rollout: &&Rollout| rollout.created.len() > rollout.n_present;
        let complete = rollouts.iter().filter(|rollout| has_new(rollout) && rollout.is_complete(self));
        self.rolled_out = complete
            .map(|rollout| (format!("{} {}", rollout.kind.name(), rollout.name), rollout.deleted.len()))
            .collect();
        self.rollouts = rollouts;
        left
    }
}

impl Rollout {
    /// Whether all pods have the new template and run.
    pub(crate) fn is_complete(&self, simulation: &Simulation) -> bool {
        let runs = |name: &NamespacedName| simulation.is_available(name);
        self.old.is_empty() && self.to_create.is_empty() && self.created.iter().all(runs)
    }
}

impl Simulation {
    /// Whether a pod runs, and is not known to be unready.
    pub(crate) fn is_available(&self, name: &NamespacedName) -> bool {
        self.pod(name.namespace(), name.name()).is_some_and(SimulatedPod::is_available)
    }
}

impl Steps<'_> {
    /// The next step of a rollout. Returns whether there is one.
    fn step(&mut self, rollout: &mut Rollout) -> bool {
        self.n_looks += match rollout.strategy {
            Strategy::Deployment(..) => 1,
            _ => rollout.n_pods(),
        };
        rollout.is_cut |= self.n_looks > MAX_LOOKS;
        if rollout.is_cut {
            return false;
        }
        let deleted_first = mem::take(&mut rollout.deleted_first);
        deleted_first.iter().for_each(|name| _ = self.delete_old(rollout, name));
        match &rollout.strategy {
            Strategy::Deployment(spec, _) => self.update_deployment(rollout, *spec),
            Strategy::StatefulSet(..) => self.update_stateful_set(rollout),
            Strategy::DaemonSet(..) => self.update_daemon_set(rollout),
        }
    }

    /// Places pending pods: all of them, or without those that are like one that finds no node. Returns whether a pod was placed.
    fn place(&mut self, are_all_tried: bool, progress: &mut impl FnMut(usize, usize)) -> bool {
        for position in self.simulation.create_waiting() {
            self.add_pending(position);
        }
        let pods = &self.simulation.pods;
        let has_groups = self.waiting.pending.iter().any(|(i, _)| pods[*i].group.is_some());
        self.waiting.were_all_tried = are_all_tried || has_groups;
        if self.waiting.were_all_tried {
            let mut tried = self.waiting.next(true, &self.gone);
            tried.sort_by_key(|(i, pod)| self.simulation.turn(*i, pod));
            let positions: Vec<usize> = tried.iter().map(|(i, _)| *i).collect();
            let unplaced = self.simulation.place_pending(tried, progress);
            let has_placed = positions.iter().any(|i| self.simulation.pods[*i].node().is_some());
            unplaced.into_iter().for_each(|(i, pod)| self.keep(i, pod));
            return has_placed;
        }
        let mut has_placed = false;
        while self.place_one_of_each() {
            has_placed = true;
        }
        has_placed
    }

    /// Tries one of the pods that are alike, and the next of them if it fits, in the order in which all would be placed. Returns whether a
    /// pod was placed.
    fn place_one_of_each(&mut self) -> bool {
        let mut has_placed = false;
        let next = self.waiting.next(false, &self.gone).into_iter();
        let mut queue: BTreeMap<_, _> = next.map(|(i, pod)| (self.simulation.turn(i, &pod), pod)).collect();
        while let Some(((.., i), pod)) = queue.pop_first() {
            let alike = self.simulation.cluster.equivalence(&pod);
            let mut unplaced = self.simulation.place_pending(vec![(i, pod)], |_, _| ());
            match unplaced.iter().position(|(at, _)| *at == i) {
                Some(at) => {
                    let (i, pod) = unplaced.swap_remove(at);
                    self.keep(i, pod);
                }
                None => {
                    has_placed = true;
                    unplaced.extend(self.waiting.next_alike(&alike, &self.gone));
                }
            }
            // The others were preempted.
            queue.extend(unplaced.into_iter().map(|(i, pod)| (self.simulation.turn(i, &pod), pod)));
        }
        has_placed
    }

    /// Keeps a pod that found no node.
    fn keep(&mut self, i: usize, pod: PreparedPod) {
        let simulation = &mut *self.simulation;
        let pending = simulation.pending_for.of(&simulation.pods[i].pod);
        // Such pods fail each for itself.
        let is_single =
            simulation.pods[i].group.is_some() || !simulation.cluster.relaxable(&pod, pending).is_empty();
        if is_single {
            self.waiting.pending.push((i, pod));
        } else {
            let alike = simulation.cluster.equivalence(&pod);
            self.waiting.unschedulable.entry(alike).or_default().insert(i, pod);
        }
    }

    fn add_pending(&mut self, position: usize) {
        let pod = self.simulation.cluster.prepare(&self.simulation.pods[position].pod);
        self.waiting.pending.push((position, pod));
    }

    /// A controller creates the pod at this position: it is pending, or arrives at the node that it names.
    fn arrive_or_wait(&mut self, position: usize) {
        if !self.simulation.create_at(position) {
            return;
        }
        match self.simulation.pods[position].pod.awaits_node_admission() {
            true => self.simulation.arrive_alone(position),
            false => self.add_pending(position),
        }
    }

    /// Creates a pod of the new template. Returns whether it was still to be created.
    fn create(&mut self, rollout: &mut Rollout, at: i64) -> bool {
        let Some(pod) = rollout.to_create.remove(&at) else { return false };
        // It has left its node.
        if let Some(old) = rollout.old.remove(&pod.pod.metadata.namespaced_name()) {
            rollout.deleted.push(old.name);
        }
        rollout.created.push(pod.pod.metadata.namespaced_name());
        let queued = self.simulation.n_vacated;
        self.simulation.pods.push(SimulatedPod { queued, ..pod });
        self.arrive_or_wait(self.simulation.pods.len() - 1);
        true
    }

    /// Creates the next `n` pods of the new template.
    fn create_next(&mut self, rollout: &mut Rollout, n: usize) {
        let next: Vec<i64> = rollout.to_create.keys().copied().take(n).collect();
        next.into_iter().for_each(|at| _ = self.create(rollout, at));
    }

    /// Whether a rollout of a StatefulSet creates another pod of this name.
    fn is_replaced(&self, position: usize) -> bool {
        !self.replaced.is_empty()
            && self.replaced.contains(&self.simulation.pods[position].pod.metadata.namespaced_name())
    }

    /// Deletes a pod of the earlier template. Returns whether there is one of this name.
    fn delete_old(&mut self, rollout: &mut Rollout, name: &NamespacedName) -> bool {
        let Some(old) = rollout.old.remove(name) else { return false };
        rollout.deleted.push(old.name);
        if let Some(position) = self.simulation.position(name.namespace(), name.name()) {
            self.delete(position);
        }
        true
    }

    /// A pod is gone. Its name is free.
    fn delete(&mut self, position: usize) {
        self.simulation.remove_from_node(position);
        let pod = &self.simulation.pods[position];
        if !pod.is_unadmitted(UnadmittedState::NotCreated) {
            self.simulation.creation.release(&pod.pod);
        }
        self.simulation.pods.forget_name(position);
        let gone = &mut self.simulation.pods[position];
        (gone.group, gone.was_running) = (None, false);
        gone.outcome = Outcome::Failed { error: "it is deleted".to_owned() };
        self.gone.insert(position);
    }

    /// New pods have the names of those that they replace in the outcome.
    fn name_replaced(&mut self, rollout: &Rollout) {
        let is_there = |name: &NamespacedName| rollout.old.contains(name);
        let is_of_deployment = matches!(rollout.strategy, Strategy::Deployment(..));
        for (i, name) in rollout.created.iter().skip(rollout.n_present).enumerate() {
            let Some(at) = self.simulation.position(name.namespace(), name.name()) else { continue };
            let pod = &mut self.simulation.pods[at];
            match is_of_deployment {
                true => pod.replaces = rollout.deleted.get(i).cloned(),
                false => pod.replaces = pod.replaces.take().filter(|old| !is_there(old)),
            }
        }
    }

    /// Removes the pods that are gone.
    fn finish(self) {
        let Steps { simulation, mut waiting, gone, .. } = self;
        let mut pending = waiting.next(true, &gone);
        pending.sort_by_key(|(i, pod)| simulation.turn(*i, pod));
        let mut positions: Vec<usize> = gone.into_iter().collect();
        positions.sort_unstable();
        let names = pending.iter().map(|(i, _)| simulation.pods[*i].pod.metadata.namespaced_name());
        let names: Vec<_> = names.collect();
        for position in positions.into_iter().rev() {
            simulation.pods.swap_remove(position);
        }
        let position = |name: &NamespacedName| simulation.position(name.namespace(), name.name());
        simulation.queue = names.iter().filter_map(position).collect();
        simulation.vain_preemptors.clear();
        simulation.name_predecessors();
    }
}
