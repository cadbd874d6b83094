//! What-if: the effect of changes of a cluster on its pods, before they are made.
//!
//! [`WhatIf`] is a cluster whose changes ([`Change`]) are played in their order. In between it settles: pods are evicted as far as
//! disruption budgets allow, rollouts are played step by step, the pods that have lost their nodes and the
//! pending pods are placed as in a simulation. The enforcer's evictions follow at the end. The
//! difference to the state before is the [`WhatIfOutcome`]. [`DomainLosses`] removes every domain of a topology in turn.
//!
//! Changes of nodes, devices and pods are made in the state. Those of other objects are made in the inventory, and the cluster is built
//! again.

mod before;
mod change;
mod departures;
mod domain_loss;
mod error;
mod evicted;
mod outcome;
mod request;
mod roll;
mod rollouts;
pub(crate) mod scale;
mod step;
mod volumes;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem::{self, Discriminant};

use berth_api::object::device::ResourceClaim;
use berth_api::object::{DeviceObject, NamespacedName, Pod, VolumeObject};
use berth_api::read::{Kind, SourceLocation};
use berth_control::budget::Budget;
use berth_control::expand::{expand, find_earlier_templates, keeps_old_pods, workload_names};
use berth_engine::Settings;
use berth_input::inventory::{Entry, Inventory, Workload};
use berth_rules::unmerge_label_keys;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use self::before::Before;
use self::departures::Departures;
use self::volumes::bind_volumes;
use crate::simulation::creation::count_used;
use crate::simulation::{
    Leaving, SimulatedPod, Simulation, SimulationError, SimulationOptions, UnadmittedState, counted_budgets,
    exhausted,
};

pub use crate::simulation::BlockedEviction;
pub use crate::simulation::evicted_by_drain;
pub use change::Change;
pub(crate) use change::find_node;
pub use domain_loss::{DomainLoss, DomainLosses, WorkloadLoss};
pub use error::ChangeError;
pub use evicted::{EvictedPod, Evictor};
pub use outcome::{BrokenRule, Counts, MovedPod, Summary, UnplacedPod, WhatIfOutcome};
pub use request::{
    ChangeRequest, key_value, named_workload, node_labels, node_name, refusal, taint, topology_key, valid,
    workload_replicas,
};
pub use roll::RollNodes;
pub use rollouts::StuckRollout;
pub use step::StepOutcome;

/// The phase of pods that their nodes have admitted.
const RUNNING: &str = "Running";

/// Namespace and name of the pods that the enforcer evicts, sooner or later, also if no node is feasible for them.
type WithoutTarget = Box<dyn Fn(&Simulation) -> Vec<(String, String)> + Send>;

/// The most steps of a plan of moves. A pod that moves again begins a step, after all pods of the cluster have been looked at.
const MAX_STEPS: usize = 1000;

/// A cluster that is changed.
pub struct WhatIf {
    /// The objects. Where the state is a simulation that is ahead of them, all but the pods are up to date.
    inventory: Inventory,
    options: SimulationOptions,
    now: Timestamp,
    departures: Departures,
    without_target: WithoutTarget,
    /// The state before the changes, once there is one.
    before: Option<Before>,
    /// The pods of the inventory that run.
    running: HashSet<NamespacedName>,
    /// The budgets, once they are counted with the pods of the inventory.
    budgets: Option<Vec<Budget>>,
    state: State,
    step: Step,
    steps: Vec<StepOutcome>,
    /// Whether they are shown if there is only one.
    shows_steps: bool,
}

enum State {
    /// The inventory, from which the cluster is built. What has not changed since the simulation before is taken over.
    Objects(Option<Box<Simulation>>),
    /// The simulation. Whether it is ahead: the pods of the inventory are those of an earlier time.
    Live { simulation: Box<Simulation>, is_ahead: bool },
}

/// The changes since the cluster has settled. They are made together.
#[derive(Default)]
struct Step {
    /// What the last of them does.
    kind: Option<StepKind>,
    /// The objects that they change.
    objects: HashSet<String>,
    /// The changes in words.
    changes: Vec<String>,
}

/// What the changes of a step do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepKind {
    Change(Discriminant<Change>),
    Objects,
}

/// A rollout that has not completed, as the last step found it.
struct Retry {
    start: Simulation,
    leaving: Leaving,
}

impl WhatIf {
    /// The state before the changes: the running pods, and the pods of workloads that the input has without their pods,
    /// which are placed first. Pending pods of the input stay pending. `now` is the time by which a controller selects pods to
    /// delete.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn new(
        inventory: Inventory,
        options: SimulationOptions,
        now: Timestamp,
    ) -> Result<WhatIf, SimulationError> {
        let mut inventory = inventory;
        options.add_simulated_nodes(&mut inventory);
        count_used(&mut inventory);
        let (mut simulation, rolls_out) = place_new(&mut inventory, &options, now)?;
        let (before, state) = match rolls_out {
            true => (Some(Before::of(&mut simulation)), State::Objects(Some(Box::new(simulation)))),
            false => (None, State::Live { simulation: Box::new(simulation), is_ahead: false }),
        };
        Ok(WhatIf {
            running: running(&inventory),
            budgets: None,
            inventory,
            options,
            now,
            departures: Departures::default(),
            without_target: Box::new(|_| Vec::new()),
            before,
            state,
            step: Step::default(),
            steps: Vec::new(),
            shows_steps: false,
        })
    }

    /// Says which pods the enforcer evicts, sooner or later, also if no node is feasible for them: namespace and name. Without this, they
    /// stay.
    pub fn evict_without_target(
        &mut self,
        which: impl Fn(&Simulation) -> Vec<(String, String)> + Send + 'static,
    ) {
        self.without_target = Box::new(which);
    }

    /// Makes a change. It belongs to the step of the changes before it if it is of the same kind and about another object; else the cluster
    /// settles first.
    ///
    /// # Errors
    /// The changed object does not exist, or cannot be changed in this way. No other change is lost.
    pub fn apply(&mut self, change: &Change) -> Result<(), ChangeError> {
        if matches!(change, Change::Move { .. }) && self.steps.len() >= MAX_STEPS {
            return Err(ChangeError::TooManySteps);
        }
        self.begin(StepKind::Change(mem::discriminant(change)), Some(change.object()))?;
        self.apply_together(change)
    }

    /// Makes a change in the present step.
    fn apply_together(&mut self, change: &Change) -> Result<(), ChangeError> {
        let kind = StepKind::Change(mem::discriminant(change));
        if change.is_live() {
            self.settle_objects()?;
            let State::Live { simulation, .. } = &mut self.state else { return Ok(()) };
            change.make(&mut self.inventory, simulation, &mut self.departures)?;
        } else {
            self.write_back()?;
            let ran = pods_with_claims(&self.inventory);
            change.apply(&mut self.inventory, self.now)?;
            release_claims(&mut self.inventory, &ran);
        }
        self.step.add(kind, change.object(), change.to_string());
        Ok(())
    }

    /// The next change begins a step of its own.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn then(&mut self) -> Result<(), SimulationError> {
        self.end_step()?;
        // What comes next is not awaited by a drain.
        self.departures.note_delayed();
        Ok(())
    }

    fn end_step(&mut self) -> Result<(), SimulationError> {
        if self.step.kind.is_some() {
            self.settle(true, |_, _| ())?;
            // What the next step creates is younger.
            self.now = self.now.checked_add(SignedDuration::from_secs(1)).unwrap_or(self.now);
        }
        Ok(())
    }

    /// Lets the cluster settle if a change does not belong to the step.
    fn begin(&mut self, kind: StepKind, object: Option<String>) -> Result<(), SimulationError> {
        let is_again = object.is_some_and(|object| self.step.objects.contains(&object));
        match self.step.kind {
            Some(last) if last != kind || is_again => self.then(),
            _ => Ok(()),
        }
    }

    /// Adds objects, or replaces existing ones. A replaced workload with fewer replicas deletes the surplus, and a Deployment with
    /// another template first scales the pods that it has; one with another template replaces its pods when the cluster is built.
    ///
    /// # Errors
    /// As [`Simulation::new`], about the changes before this one. Inside, those of `overlay`.
    pub fn overlay<E>(
        &mut self,
        overlay: impl FnOnce(&mut Inventory) -> Result<(), E>,
    ) -> Result<Result<(), E>, SimulationError> {
        self.begin(StepKind::Objects, None)?;
        self.write_back()?;
        let ran = pods_with_claims(&self.inventory);
        let known = workload_names(&self.inventory);
        let specs = scale::specs(&self.inventory);
        let budgets: Vec<_> =
            self.inventory.pod_disruption_budgets.iter().map(|e| e.object.clone()).collect();
        if let Err(error) = overlay(&mut self.inventory) {
            return Ok(Err(error));
        }
        find_earlier_templates(&mut self.inventory, &known);
        // The status of a budget with another specification is not about it.
        for budget in self.inventory.pod_disruption_budgets.iter_mut().map(|entry| &mut entry.object) {
            let name = budget.metadata.namespaced_name();
            let earlier = budgets.iter().find(|earlier| earlier.metadata.namespaced_name() == name);
            if earlier.is_some_and(|earlier| earlier.spec != budget.spec) {
                budget.status = Default::default();
            }
        }
        scale::scale_changed(&mut self.inventory, &specs, self.now);
        release_claims(&mut self.inventory, &ran);
        self.step.add(StepKind::Objects, String::new(), "objects of files".to_owned());
        Ok(Ok(()))
    }

    /// The state with the changes so far. Pending pods are not placed.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn simulation(&self) -> Result<Simulation, SimulationError> {
        match &self.state {
            State::Live { simulation, .. } => Ok(Simulation::clone(simulation)),
            State::Objects(before) => self.build(before.as_deref().cloned()),
        }
    }

    fn build(&self, before: Option<Simulation>) -> Result<Simulation, SimulationError> {
        Simulation::of(Cow::Borrowed(&self.inventory), self.options.clone(), before, true)
    }

    /// Replaces the scheduling rules. Returns whether they are others than before.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn set_settings(&mut self, settings: Settings) -> Result<bool, SimulationError> {
        let has_changed = self.options.settings != settings;
        if has_changed {
            self.then()?;
            self.write_back()?;
            self.options.settings = settings;
        }
        Ok(has_changed)
    }

    /// The objects, with the changes so far. The pods are those at the last change that was not about nodes or evictions.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The pods of the inventory are up to date, and the cluster is built from the objects.
    fn write_back(&mut self) -> Result<(), SimulationError> {
        let State::Live { simulation, is_ahead } = &mut self.state else { return Ok(()) };
        let before = self.before.get_or_insert_with(|| Before::of(simulation));
        if *is_ahead {
            before.keep_names(simulation);
            write_back(&mut self.inventory, simulation, &mut self.departures.lost, self.now)?;
            self.running = running(&self.inventory);
        }
        if let State::Live { simulation, .. } = mem::replace(&mut self.state, State::Objects(None)) {
            self.state = State::Objects(Some(simulation));
        }
        self.budgets = None;
        Ok(())
    }

    /// The state is a simulation.
    fn settle_objects(&mut self) -> Result<(), SimulationError> {
        if let State::Objects(before) = &mut self.state {
            let before = before.take().map(|before| *before);
            let simulation = self.build(before)?;
            self.state = State::Live { simulation: Box::new(simulation), is_ahead: false };
        }
        if let State::Live { simulation, is_ahead } = &mut self.state {
            self.before.get_or_insert_with(|| Before::of(simulation));
            *is_ahead = true;
        }
        Ok(())
    }

    /// Evicts the pods of the changes as far as disruption budgets allow, plays the rollouts, and places the pods that have no node.
    /// `is_shown`: the step is in a table.
    fn settle(
        &mut self,
        is_shown: bool,
        progress: impl FnMut(usize, usize),
    ) -> Result<Option<Retry>, SimulationError> {
        self.settle_objects()?;
        let (State::Live { simulation, .. }, Some(before)) = (&mut self.state, &self.before) else {
            return Ok(None);
        };
        let evictions = mem::take(&mut self.departures.evictions);
        let mut budgets = Vec::new();
        if is_shown || !evictions.is_empty() {
            let ran = |pod: &NamespacedName| self.running.contains(pod);
            budgets.clone_from(self.budgets.get_or_insert_with(|| counted_budgets(&self.inventory, ran)));
        }
        let nodes = mem::take(&mut self.departures.nodes);
        let unreachable = mem::take(&mut self.departures.unreachable);
        let (leaving, moves) =
            (mem::take(&mut self.departures.leaving), mem::take(&mut self.departures.moves));
        let leaving = Leaving { nodes, unreachable, leaving, moves, evictions, budgets };
        let has_open = simulation.rollouts.iter().any(|rollout| !rollout.is_complete(simulation));
        let retry =
            has_open.then(|| Retry { start: Simulation::clone(simulation), leaving: leaving.clone() });
        let left = simulation.advance(leaving, self.now, progress);
        set_volumes(&mut self.inventory, simulation);
        self.departures.lost.extend(left.lost);
        (self.departures.evictions, self.departures.refused) = (left.open, left.blocked);
        let Step { changes, .. } = mem::take(&mut self.step);
        if changes.is_empty() && !self.steps.is_empty() {
            return Ok(retry);
        }
        let budgets = self.budgets.as_deref().filter(|_| is_shown).unwrap_or_default();
        let exhausted = exhausted(budgets, simulation);
        self.steps.push(StepOutcome::of(changes, simulation, before, &self.departures, exhausted));
        Ok(retry)
    }

    /// Lets the cluster settle after the last changes, and lets the enforcer evict. `progress` is that of [`Simulation::run`].
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn run(mut self, progress: impl FnMut(usize, usize)) -> Result<Changed, SimulationError> {
        let is_shown = self.shows_steps || !self.steps.is_empty();
        let retry = self.settle(is_shown, progress)?;
        let WhatIf { now, departures, without_target, before, state, steps, shows_steps, .. } = self;
        let (State::Live { simulation, .. }, Some(before)) = (state, before) else {
            return Err(SimulationError::Invalid(Vec::new()));
        };
        let mut simulation = *simulation;
        let stuck = StuckRollout::all(&mut simulation, &before, |at, remedy| {
            let Some(Retry { start, leaving }) = &retry else { return false };
            let mut trial = start.clone();
            if remedy.apply(&mut trial, at).is_none() {
                return false;
            }
            trial.advance(leaving.clone(), now, |_, _| ());
            trial.rollouts[at].is_complete(&trial)
        });
        let mut outcome = WhatIfOutcome::of(&mut simulation, &before, departures, stuck, &without_target);
        if steps.len() > 1 || shows_steps {
            outcome.steps = steps;
        }
        Ok(Changed { outcome, simulation })
    }
}

impl Step {
    fn add(&mut self, kind: StepKind, object: String, change: String) {
        self.kind = Some(kind);
        self.objects.insert(object);
        self.changes.push(change);
    }
}

/// The pods of an inventory that have a node and have not ended.
fn running(inventory: &Inventory) -> HashSet<NamespacedName> {
    let pods = inventory.pods.iter().map(|entry| &entry.object);
    let runs =
        |pod: &&Pod| !pod.spec.node_name.is_empty() && !pod.is_terminal() && !pod.awaits_node_admission();
    pods.filter(runs).map(|pod| pod.metadata.namespaced_name()).collect()
}

/// A cluster after the changes.
pub struct Changed {
    /// The effect of the changes.
    pub outcome: WhatIfOutcome,
    /// The state.
    pub simulation: Simulation,
}

/// What is lost with each domain of a topology, after the changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LossesAfterChanges {
    #[serde(flatten)]
    pub losses: DomainLosses,
    /// The effect of the changes, before a domain is lost.
    pub changes: WhatIfOutcome,
}

impl LossesAfterChanges {
    /// Whether every pod that ran before, or is new, has a node whichever domain is lost, and the changes are carried out.
    pub fn is_harmless(&self) -> bool {
        let WhatIfOutcome { summary, blocked, delayed, stuck_rollouts, .. } = &self.changes;
        let is_done = blocked.is_empty() && delayed.is_empty() && stuck_rollouts.is_empty();
        is_done && self.survives_each() && summary.unplaced.new + summary.not_running.new == 0
    }

    /// As [`LossesAfterChanges::is_harmless`], and no pod that was unplaced before is unplaced.
    pub fn is_perfect(&self) -> bool {
        let Summary { unplaced, not_running, .. } = self.changes.summary;
        self.is_harmless() && unplaced.after + not_running.after == 0
    }

    fn survives_each(&self) -> bool {
        self.losses.domains.iter().all(|loss| loss.survives)
    }
}

impl Changed {
    /// Removes every domain of a topology in turn; see [`Simulation::lose_each_domain`].
    pub fn lose_each_domain(&mut self, key: &str, progress: impl FnMut(usize, usize)) -> LossesAfterChanges {
        let losses = self.simulation.lose_each_domain(key, progress);
        LossesAfterChanges { losses, changes: self.outcome.clone() }
    }

    /// Looks for what would make unplaced pods fit: for the first pod with each reason in each workload, for `most` pods.
    pub fn find_repairs(&mut self, most: usize) {
        let mut seen = HashSet::new();
        for pod in &mut self.outcome.unplaced {
            if seen.len() < most && seen.insert((pod.workload.clone(), pod.message.clone())) {
                let explained = self.simulation.explain(&pod.namespace, &pod.name, None);
                pod.repairs = explained.map(|explained| explained.repairs).unwrap_or_default();
            }
        }
    }
}

/// Creates and places the pods that workloads of the input do not have so far, as pods of the input. Returns the
/// simulation, and whether workloads replace or remove pods: then it is not what the input is built to.
pub(crate) fn place_new(
    inventory: &mut Inventory,
    options: &SimulationOptions,
    now: Timestamp,
) -> Result<(Simulation, bool), SimulationError> {
    let given = inventory.pods.iter().map(|entry| &entry.object).filter(|pod| !pod.is_terminal());
    let given: HashSet<_> = given.map(|pod| pod.metadata.namespaced_name()).collect();
    let mut simulation = Simulation::as_is(Cow::Borrowed(inventory), options.clone())?;
    let rolls_out = keep_placed(inventory, &mut simulation, &given, now)?;
    Ok((simulation, rolls_out))
}

/// The uids of the pods that run with claims of devices.
fn pods_with_claims(inventory: &Inventory) -> BTreeSet<String> {
    let pods = inventory.pods.iter().map(|entry| &entry.object);
    let has_devices = |pod: &&Pod| {
        let has_claims =
            !pod.spec.resource_claims.is_empty() || pod.status.extended_resource_claim_status.is_some();
        has_claims && !pod.spec.node_name.is_empty() && !pod.is_terminal()
    };
    pods.filter(has_devices).map(|pod| pod.metadata.uid.clone()).collect()
}

/// Releases the claims of the pods that ran and do not any more.
fn release_claims(inventory: &mut Inventory, ran: &BTreeSet<String>) {
    let running = pods_with_claims(inventory);
    for uid in ran.difference(&running) {
        for entry in &mut inventory.device_objects {
            if let DeviceObject::ResourceClaim(claim) = &mut entry.object {
                claim.status.release(uid);
            }
        }
    }
}

/// Adds the pods that were created to the input, with the claims that were created with them; those that were placed run. Returns
/// whether workloads replace or remove pods. Pods of the input that their nodes admit run from now on.
fn keep_placed(
    inventory: &mut Inventory,
    simulation: &mut Simulation,
    given: &HashSet<NamespacedName>,
    now: Timestamp,
) -> Result<bool, SimulationError> {
    // What runs before the changes stays on its node, whatever changes.
    simulation.run_admitted();
    for pod in inventory.pods.iter_mut().map(|entry| &mut entry.object) {
        let metadata = &pod.metadata;
        let runs = || simulation.pod(&metadata.namespace, &metadata.name).is_some_and(|p| p.node().is_some());
        if pod.awaits_node_admission() && runs() {
            RUNNING.clone_into(&mut pod.status.phase);
        }
    }
    let mut created = simulation.pods().iter().filter(|pod| is_created(pod));
    let is_given = |pod: &SimulatedPod| given.contains(&pod.pod.metadata.namespaced_name());
    if simulation.rolled_out().is_empty() && created.all(is_given) {
        return Ok(false);
    }
    let rolls_out = add_created(inventory, simulation, is_created, now)?;
    set_volumes(inventory, simulation);
    simulation.run_placed(|pod| as_object(pod, now));
    Ok(rolls_out)
}

/// Binds the claims of pods that were placed, in the inventory and in the simulation.
fn set_volumes(inventory: &mut Inventory, simulation: &mut Simulation) {
    for object in bind_volumes(inventory, simulation) {
        simulation.cluster.set_volume_object(object);
    }
}

/// Makes the pods of the input those of the simulation. Pods that nothing creates again are lost.
fn write_back(
    inventory: &mut Inventory,
    simulation: &Simulation,
    lost: &mut Vec<(NamespacedName, String)>,
    now: Timestamp,
) -> Result<(), SimulationError> {
    let is_lost = |pod: &SimulatedPod| {
        pod.preempted_by.is_some() && pod.is_unplaced() && pod.pod.metadata.controller().is_none()
    };
    for pod in simulation.pods().iter().filter(|pod| is_lost(pod)) {
        lost.push((pod.pod.metadata.namespaced_name(), pod.outcome.message().into_owned()));
    }
    let is_there = |pod: &SimulatedPod| !is_lost(pod) && is_created(pod);
    add_created(inventory, simulation, is_there, now)?;
    bind_volumes(inventory, simulation);
    inventory.pods.retain_mut(|entry| {
        let metadata = &entry.object.metadata;
        match simulation.pod(&metadata.namespace, &metadata.name).filter(|pod| is_there(pod)) {
            Some(pod)
                if pod.node() != Some(&entry.object.spec.node_name)
                    || entry.object.is_terminal()
                    || pod.pod.is_unready() != entry.object.is_unready()
                    || pod.pod.metadata.is_deleting() != metadata.is_deleting() =>
            {
                entry.object = as_object(pod, now);
                true
            }
            Some(_) => true,
            None => entry.object.is_terminal(),
        }
    });
    // They are those of before the changes.
    inventory.pod_disruption_budgets.iter_mut().for_each(|entry| entry.object.status = Default::default());
    Ok(())
}

/// Whether the pod is there, or counts as if it were. A controller creates later what it could not create so far.
fn is_created(pod: &SimulatedPod) -> bool {
    !pod.is_unadmitted(UnadmittedState::NotCreated) || is_refused_replica(pod)
}

/// Whether a quota keeps a ReplicaSet from creating the pod: it counts in the size of that ReplicaSet.
fn is_refused_replica(pod: &SimulatedPod) -> bool {
    let by = pod.unadmitted.as_deref().and_then(|why| why.reason.as_deref()).unwrap_or_default();
    let owner = pod.pod.metadata.controller();
    by.starts_with("ResourceQuota") && owner.is_some_and(|owner| owner.kind == Kind::ReplicaSet.name())
}

/// The object of a pod of a simulation.
fn as_object(pod: &SimulatedPod, now: Timestamp) -> Pod {
    let mut object = pod.pod.clone();
    if is_refused_replica(pod) {
        unmerge_label_keys(&mut object);
        return object;
    }
    if let Some(node) = pod.node() {
        node.clone_into(&mut object.spec.node_name);
        RUNNING.clone_into(&mut object.status.phase);
    }
    // The API server has admitted it.
    object.metadata.creation_timestamp.get_or_insert(now);
    object
}

/// Adds the selected pods that controllers have created, with the claims that were created with them. What is rolled out is so for the
/// input, too. Returns whether there is anything to roll out.
fn add_created(
    inventory: &mut Inventory,
    simulation: &Simulation,
    is_selected: impl Fn(&SimulatedPod) -> bool,
    now: Timestamp,
) -> Result<bool, SimulationError> {
    let expansion = expand(inventory)?;
    let rolls_out = !expansion.rolled_out.is_empty();
    let deleted =
        |entry: &mut Entry<Pod>| expansion.deleted.contains(&entry.object.metadata.namespaced_name());
    let deleted = inventory.pods.extract_if(.., deleted);
    let mut sources: HashMap<_, _> =
        deleted.map(|entry| (entry.object.metadata.namespaced_name(), entry.source)).collect();
    for created in expansion.pods {
        let name = created.pod.metadata.namespaced_name();
        if simulation.pod(name.namespace(), name.name()).is_none_or(|pod| !is_selected(pod)) {
            continue;
        }
        let source = &inventory.workloads[created.workload].source;
        let claims = created.claims.into_iter().map(|claim| Entry {
            object: VolumeObject::PersistentVolumeClaim(Box::new(claim)),
            raw: None,
            source: source.clone(),
            order: usize::MAX,
        });
        inventory.volume_objects.extend(claims);
        sources.insert(name, source.clone());
    }
    let there = inventory.pods.iter().map(|entry| entry.object.metadata.namespaced_name());
    let there: HashSet<_> = there.collect();
    for pod in simulation.pods().iter().filter(|pod| is_selected(pod)) {
        let name = pod.pod.metadata.namespaced_name();
        if !there.contains(&name) {
            let source = sources.remove(&name).unwrap_or_else(|| SourceLocation::file("made by a change"));
            inventory.pods.push(Entry { object: as_object(pod, now), raw: None, source, order: usize::MAX });
        }
    }
    keep_claims(inventory, simulation.device_claims());
    let incomplete = simulation.rollouts.iter().filter(|rollout| !rollout.is_complete(simulation));
    let incomplete: HashSet<_> = incomplete.map(|rollout| (rollout.kind, rollout.name.clone())).collect();
    let is_incomplete =
        |workload: &Workload| incomplete.contains(&(workload.kind(), workload.metadata().namespaced_name()));
    // They are rolled out already: the ReplicaSets of earlier templates are not the newest any more.
    let rolled_out = expansion.rolled_out.iter().map(|of| &inventory.workloads[of.workload].object);
    let rolled_out = rolled_out.filter(|workload| !is_incomplete(workload));
    let rolled_out: HashSet<_> = rolled_out.map(|workload| workload.metadata().namespaced_name()).collect();
    inventory.workloads.retain(|entry| {
        let metadata = entry.object.metadata();
        let deployment = metadata.controller().filter(|owner| owner.kind == Kind::Deployment.name());
        deployment
            .is_none_or(|owner| !rolled_out.contains(&NamespacedName::new(&metadata.namespace, &owner.name)))
    });
    for workload in inventory.workloads.iter_mut().map(|entry| &mut entry.object) {
        if !is_incomplete(workload) && !keeps_old_pods(workload) {
            workload.replaced = None;
        }
    }
    Ok(rolls_out)
}

/// Replaces claims of devices by what was decided about them, or adds them.
fn keep_claims<'c>(inventory: &mut Inventory, claims: impl Iterator<Item = &'c ResourceClaim>) {
    for claim in claims {
        let object = DeviceObject::ResourceClaim(Box::new(claim.clone()));
        let is_it = |entry: &&mut Entry<DeviceObject>| {
            entry.object.kind() == object.kind()
                && entry.object.metadata().namespaced_name() == claim.metadata.namespaced_name()
        };
        match inventory.device_objects.iter_mut().find(is_it) {
            Some(entry) => entry.object = object,
            None => {
                let source = SourceLocation::file("made for a pod");
                inventory.device_objects.push(Entry { object, raw: None, source, order: usize::MAX });
            }
        }
    }
}
