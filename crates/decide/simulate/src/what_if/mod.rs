//! What-if: the effect of changes of a cluster on its pods, before they are made.
//!
//! [`WhatIf`] holds the objects of a cluster. Changes edit the objects in the given order ([`Change`]), then the
//! pods are evicted as far as disruption budgets allow, rollouts are played step by step, the pods that have lost their nodes and the
//! pending pods are placed as in a simulation, and the enforcer's evictions follow. The
//! difference to the state before is the [`WhatIfOutcome`]. [`DomainLosses`] removes every domain of a topology in turn.

mod before;
mod change;
mod departures;
mod domain_loss;
mod error;
mod evicted;
mod outcome;
mod request;
mod rollouts;
pub(crate) mod scale;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use berth_api::object::device::ResourceClaim;
use berth_api::object::{DeviceObject, NamespacedName, ObjectMeta, Pod, VolumeObject};
use berth_api::read::{Kind, SourceLocation};
use berth_engine::Settings;
use berth_input::expand::expand;
use berth_input::inventory::{Entry, Inventory};
use jiff::Timestamp;
use serde::Serialize;

use self::before::Before;
use self::departures::Departures;
use crate::simulation::creation::count_used;
use crate::simulation::{Simulation, SimulationError, SimulationOptions, budgets_of};

pub use crate::simulation::BlockedEviction;
pub use crate::simulation::evicted_by_drain;
pub use change::Change;
pub(crate) use change::find_node;
pub use domain_loss::{DomainLoss, DomainLosses, WorkloadLoss};
pub use error::ChangeError;
pub use evicted::{EvictedPod, Evictor};
pub use outcome::{BrokenRule, Counts, MovedPod, Summary, UnplacedPod, WhatIfOutcome};
pub use request::{
    ChangeRequest, key_value, named_workload, refusal, taint, topology_key, valid, workload_replicas,
};
pub use rollouts::StuckRollout;

/// The phase of pods that their nodes have admitted.
const RUNNING: &str = "Running";

/// Namespace and name of the pods that the enforcer evicts, sooner or later, also if no node is feasible for them.
type WithoutTarget = Box<dyn Fn(&Simulation) -> Vec<(String, String)>>;

/// A cluster whose objects are changed.
pub struct WhatIf {
    inventory: Inventory,
    options: SimulationOptions,
    now: Timestamp,
    departures: Departures,
    without_target: WithoutTarget,
    state: State,
}

enum State {
    /// The objects have not changed: this is their state.
    Unchanged(Box<Simulation>),
    /// They have: this is the state before.
    Changed(Before),
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
        let (mut simulation, has_new) = place_new(&mut inventory, &options, now)?;
        let state = match has_new {
            true => State::Changed(Before::of(&mut simulation)),
            false => State::Unchanged(Box::new(simulation)),
        };
        let without_target: WithoutTarget = Box::new(|_| Vec::new());
        Ok(WhatIf { inventory, options, now, departures: Departures::default(), without_target, state })
    }

    /// Says which pods the enforcer evicts, sooner or later, also if no node is feasible for them: namespace and name. Without this, they
    /// stay.
    pub fn evict_without_target(&mut self, which: impl Fn(&Simulation) -> Vec<(String, String)> + 'static) {
        self.without_target = Box::new(which);
    }

    /// The objects change.
    fn changes(&mut self) {
        if let State::Unchanged(simulation) = &mut self.state {
            self.state = State::Changed(Before::of(simulation));
        }
    }

    /// Makes a change.
    ///
    /// # Errors
    /// The changed object does not exist, or cannot be changed in this way. No other change is lost.
    pub fn apply(&mut self, change: &Change) -> Result<(), ChangeError> {
        self.changes();
        let gates = self.options.settings.config.feature_gates;
        let ran = pods_with_claims(&self.inventory);
        let moved = self.moved_with_devices(change);
        let applied = change.apply(&mut self.inventory, &mut self.departures, self.now, gates);
        release_claims(&mut self.inventory, &ran);
        if let (Ok(()), Some((simulation, uid))) = (&applied, moved) {
            let is_of_pod = |claim: &&ResourceClaim| claim.status.is_reserved_for(&uid);
            keep_claims(&mut self.inventory, simulation.device_claims().filter(is_of_pod));
        }
        applied
    }

    /// The cluster after a move of a pod with claims of devices, and the uid of the pod.
    fn moved_with_devices(&self, change: &Change) -> Option<(Simulation, String)> {
        let Change::Move { pod: name, to, .. } = change else { return None };
        let mut pods = self.inventory.pods.iter().map(|entry| &entry.object);
        let pod = pods.find(|pod| pod.metadata.namespaced_name() == *name)?;
        if pod.spec.resource_claims.is_empty() {
            return None;
        }
        let mut simulation = Simulation::as_is(self.inventory.clone(), self.options.clone()).ok()?;
        simulation.move_pod(name.namespace(), name.name(), to);
        Some((simulation, pod.metadata.uid.clone()))
    }

    /// Adds objects, or replaces existing ones. A replaced workload with fewer replicas deletes the surplus, and a Deployment with
    /// another template first scales the pods that it has; one with another template replaces its pods when the cluster is built.
    ///
    /// # Errors
    /// Those of `overlay`.
    pub fn overlay<E>(&mut self, overlay: impl FnOnce(&mut Inventory) -> Result<(), E>) -> Result<(), E> {
        self.changes();
        let ran = pods_with_claims(&self.inventory);
        overlay(&mut self.inventory)?;
        let workloads = self.inventory.workloads.iter().map(|entry| &entry.object);
        let replaced = workloads.filter(|workload| workload.replaced.is_some());
        let replaced: Vec<_> =
            replaced.map(|workload| (workload.kind(), workload.metadata().namespaced_name())).collect();
        for (kind, name) in replaced {
            scale::scale_replaced(&mut self.inventory, &mut self.departures, kind, &name, self.now);
        }
        release_claims(&mut self.inventory, &ran);
        Ok(())
    }

    /// The state with the changes so far. Pending pods are not placed.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn simulation(&self) -> Result<Simulation, SimulationError> {
        match &self.state {
            State::Unchanged(simulation) => Ok(Simulation::clone(simulation)),
            State::Changed(_) => Simulation::before_rollouts(self.inventory.clone(), self.options.clone()),
        }
    }

    /// Replaces the scheduling rules. Returns whether they are others than before.
    pub fn set_settings(&mut self, settings: Settings) -> bool {
        let has_changed = self.options.settings != settings;
        if has_changed {
            self.changes();
            self.options.settings = settings;
        }
        has_changed
    }

    /// The objects, with the changes so far.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// Evicts the pods of the changes as far as disruption budgets allow, plays the rollouts, places the pods that have no node, and lets
    /// the enforcer evict. `progress` is that of [`Simulation::run`].
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn run(self, progress: impl FnMut(usize, usize)) -> Result<Changed, SimulationError> {
        let WhatIf { inventory, options, now, mut departures, without_target, state } = self;
        let (mut simulation, before, evictions, budgets) = match state {
            State::Unchanged(mut simulation) => {
                let before = Before::of(&mut simulation);
                (*simulation, before, Vec::new(), Vec::new())
            }
            State::Changed(before) => {
                let evictions = std::mem::take(&mut departures.evictions);
                let ran = |pod: &NamespacedName| before.nodes.contains_key(pod);
                let budgets = budgets_of(&inventory, &evictions, ran);
                (Simulation::before_rollouts(inventory, options)?, before, evictions, budgets)
            }
        };
        let start = (!simulation.rollouts.is_empty()).then(|| simulation.clone());
        let left = simulation.advance(evictions.clone(), budgets.clone(), now, progress);
        departures.lost.extend(left.lost);
        departures.scaled_down.extend(without_successor(&simulation));
        let stuck = StuckRollout::all(&mut simulation, &before, |at, strategy| {
            let Some(mut trial) = start.clone() else { return false };
            trial.rollouts[at].set_strategy(strategy);
            trial.advance(evictions.clone(), budgets.clone(), now, |_, _| ());
            trial.rollouts[at].is_complete(&trial)
        });
        let outcome =
            WhatIfOutcome::of(&mut simulation, &before, departures, left.blocked, stuck, &without_target);
        Ok(Changed { outcome, simulation })
    }
}

/// The pods of DaemonSets that their controllers deleted on nodes where the new template runs no pod.
fn without_successor(simulation: &Simulation) -> Vec<NamespacedName> {
    let replaced: HashSet<&NamespacedName> =
        simulation.pods().iter().filter_map(|pod| pod.replaces.as_ref()).collect();
    let daemon_sets = simulation.rollouts.iter().filter(|rollout| rollout.kind == Kind::DaemonSet);
    let deleted = daemon_sets.flat_map(|rollout| &rollout.deleted);
    deleted.filter(|pod| !replaced.contains(pod)).cloned().collect()
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
    /// The losses.
    #[serde(flatten)]
    pub losses: DomainLosses,
    /// The effect of the changes, before a domain is lost.
    pub changes: WhatIfOutcome,
}

impl LossesAfterChanges {
    /// Whether every pod that ran before, or is new, has a node whichever domain is lost, and the changes are carried out.
    pub fn is_harmless(&self) -> bool {
        let WhatIfOutcome { summary, blocked, stuck_rollouts, .. } = &self.changes;
        self.survives_each() && summary.unplaced.new == 0 && blocked.is_empty() && stuck_rollouts.is_empty()
    }

    /// As [`LossesAfterChanges::is_harmless`], and no pod that was unplaced before is unplaced.
    pub fn is_perfect(&self) -> bool {
        self.is_harmless() && self.changes.summary.unplaced.after == 0
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

/// Places the pods that workloads of the input do not have so far, as running pods of the input. Returns the
/// simulation, and whether there are such pods.
pub(crate) fn place_new(
    inventory: &mut Inventory,
    options: &SimulationOptions,
    now: Timestamp,
) -> Result<(Simulation, bool), SimulationError> {
    let given = inventory.pods.iter().map(|entry| &entry.object).filter(|pod| !pod.is_terminal());
    let given: HashSet<_> = given.map(|pod| pod.metadata.namespaced_name()).collect();
    let simulation = Simulation::as_is(inventory.clone(), options.clone())?;
    let has_new = keep_placed(inventory, &simulation, &given, now)?;
    Ok((simulation, has_new))
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

/// Adds the pods that were placed to the input, as running ones, with the claims that were created with them. Returns
/// whether there are any. Pods of the input that their nodes admit run from now on.
fn keep_placed(
    inventory: &mut Inventory,
    simulation: &Simulation,
    given: &HashSet<NamespacedName>,
    now: Timestamp,
) -> Result<bool, SimulationError> {
    // What runs before the changes stays on its node, whatever changes.
    for pod in inventory.pods.iter_mut().map(|entry| &mut entry.object) {
        let metadata = &pod.metadata;
        let runs = || simulation.pod(&metadata.namespace, &metadata.name).is_some_and(|p| p.node().is_some());
        if pod.awaits_node_admission() && runs() {
            RUNNING.clone_into(&mut pod.status.phase);
        }
    }
    let placed = simulation.pods().iter().filter(|pod| pod.node().is_some());
    let placed = placed.map(|pod| (pod.pod.metadata.namespaced_name(), pod));
    if simulation.rolled_out().is_empty() && placed.clone().all(|(name, _)| given.contains(&name)) {
        return Ok(false);
    }
    let placed: BTreeMap<_, _> = placed.collect();
    let expansion = expand(inventory)?;
    inventory.pods.retain(|entry| !expansion.deleted.contains(&entry.object.metadata.namespaced_name()));
    for created in expansion.pods {
        let Some(pod) = placed.get(&created.pod.metadata.namespaced_name()) else { continue };
        let source = inventory.workloads[created.workload].source.clone();
        let claims = created.claims.into_iter().map(|claim| Entry {
            object: VolumeObject::PersistentVolumeClaim(Box::new(claim)),
            raw: None,
            source: source.clone(),
            order: usize::MAX,
        });
        inventory.volume_objects.extend(claims);
        let mut object = pod.pod.clone();
        object.spec.node_name = pod.node().unwrap_or_default().to_owned();
        RUNNING.clone_into(&mut object.status.phase);
        // The API server has admitted it.
        object.metadata.creation_timestamp.get_or_insert(now);
        inventory.pods.push(Entry { object, raw: None, source, order: usize::MAX });
    }
    keep_claims(inventory, simulation.device_claims());
    // They are rolled out already: the ReplicaSets of earlier templates are not the newest any more.
    let rolled_out = expansion.rolled_out.iter().map(|(i, _)| inventory.workloads[*i].object.metadata());
    let rolled_out: HashSet<_> = rolled_out.map(ObjectMeta::namespaced_name).collect();
    inventory.workloads.retain(|entry| {
        let metadata = entry.object.metadata();
        let deployment = metadata.controller().filter(|owner| owner.kind == Kind::Deployment.name());
        deployment
            .is_none_or(|owner| !rolled_out.contains(&NamespacedName::new(&metadata.namespace, &owner.name)))
    });
    inventory.workloads.iter_mut().for_each(|entry| entry.object.replaced = None);
    Ok(true)
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
