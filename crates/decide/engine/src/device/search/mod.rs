//! The search for devices: the first choice in kube-scheduler's order that meets everything.
//!
//! The order is that of the claims, of their requests, of the alternatives, and of the devices of the node; within a request the
//! devices only go forward. kube-scheduler tries all combinations. Here, combinations that are known to fail are left out,
//! so that the first that succeeds is the same ([`pruning`]): a device that fails stands for all that are equal to it, and
//! a request for which too few devices are left ends the attempt at once. Where the outcome can be an error, which depends
//! on what is tried, all combinations are tried.

mod prepare;
mod pruning;
mod taken;
mod waste;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use berth_api::feature_gates::{FeatureGates, VersionChange};
use berth_api::object::device::{DeviceAttribute, DeviceTaint};
use berth_api::syntax::quantity::Quantity;
use berth_input::config::LeastWaste;
use smallvec::SmallVec;

pub(crate) use self::waste::Waste;
use self::waste::WasteSearch;
use super::pools::{Condition, NodePool};
use super::{CANNOT_ALLOCATE, DevicesInUse, INVALID_POOLS, Requested, TOO_MUCH_WORK, WORK_SPENT};
use crate::state::State;
use crate::state::device::{
    Alternative, ClaimRequest, ClassRecord, Constraint, CountMode, DeviceRecord, DeviceUse, Meter, PoolName,
    SliceRecord,
};
use crate::state::node::NodeRecord;

/// Devices of one claim at most.
const MAX_DEVICES: usize = 32;
/// Devices that are looked at for one node at most.
const MAX_STEPS: u64 = 200_000;

/// The outcome of a search.
pub(super) enum Found {
    /// With what they waste, if that was looked at.
    Devices(Vec<ChosenClaim>, Option<Waste>),
    /// In kube-scheduler's words.
    Nothing(Cow<'static, str>),
    Error(String),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ChosenClaim {
    pub(crate) devices: Vec<Chosen>,
    /// The index of the alternative of each request.
    pub(crate) alternatives: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) request: usize,
    pub(crate) alternative: usize,
    pub(crate) pool: PoolName,
    pub(crate) slice: Arc<str>,
    pub(crate) device: Arc<str>,
    /// What it takes of the capacities of a device that others share.
    pub(crate) share: Option<BTreeMap<String, Quantity>>,
}

/// A device of the node.
pub(super) struct Candidate<'a> {
    pub(super) pool: usize,
    pub(super) slice: &'a SliceRecord,
    pub(super) device: &'a DeviceRecord,
    pub(super) used: Option<&'a DeviceUse>,
}

/// An alternative of a request, with what is known of it on the node.
pub(super) struct Wanted<'a> {
    pub(super) request: &'a ClaimRequest,
    pub(super) alternative: &'a Alternative,
    pub(super) class: &'a Arc<ClassRecord>,
    pub(super) n_devices: usize,
    /// The devices of a request for all.
    pub(super) all: Vec<usize>,
}

/// Looks for devices for claims on a node: the first that meet everything, or with `least_waste` the best. Where the search can
/// end in an error, the first.
pub(super) fn search(
    state: &State,
    node: &NodeRecord,
    in_use: &DevicesInUse,
    claims: &[&Requested],
    least_waste: Option<&LeastWaste>,
    meter: Meter<'_>,
) -> Found {
    if meter.is_spent() {
        return Found::Nothing(WORK_SPENT.into());
    }
    let mut search = Search::on(state, node, in_use, claims, meter);
    let has_invalid_pool = search.pools.iter().any(|pool| pool.condition == Condition::Invalid);
    let outcome = search.prepare().and_then(|()| {
        let strategy = least_waste.filter(|_| search.is_pruned());
        search.waste = strategy.map(|s| WasteSearch::new(s, &search.pools, &search.candidates));
        search.allocate(Position::default(), false, 0)
    });
    if let Some((chosen, waste)) = search.take_best() {
        return Found::Devices(chosen, Some(waste));
    }
    match outcome {
        Ok(true) => Found::Devices(search.chosen, None),
        _ if search.meter.is_spent() => Found::Nothing(WORK_SPENT.into()),
        Ok(false) if has_invalid_pool => Found::Nothing(INVALID_POOLS.into()),
        Ok(false) => Found::Nothing(CANNOT_ALLOCATE.into()),
        Err(Stop::TooMany) => {
            Found::Error(format!("more than {MAX_DEVICES} devices would be allocated to a claim"))
        }
        Err(Stop::TooMuchWork) => {
            state.devices.n_cut_searches.fetch_add(1, Ordering::Relaxed);
            Found::Nothing(TOO_MUCH_WORK.into())
        }
        Err(Stop::Spent) => Found::Nothing(WORK_SPENT.into()),
        Err(Stop::Rejected(reason)) => Found::Nothing(reason.into()),
        Err(Stop::Error(error)) => Found::Error(error),
    }
}

/// Why a search ends without having tried everything.
pub(super) enum Stop {
    /// A claim would get too many devices: another alternative may need fewer.
    TooMany,
    TooMuchWork,
    /// The budget that all nodes share is spent.
    Spent,
    /// The node is rejected for this reason.
    Rejected(String),
    Error(String),
}

/// What is looked for next.
#[derive(Clone, Copy, Default)]
struct Position {
    claim: usize,
    request: usize,
    alternative: usize,
    /// Of the request.
    device: usize,
}

pub(super) struct Search<'a> {
    state: &'a State,
    node: &'a NodeRecord,
    claims: &'a [&'a Requested],
    pub(super) pools: Vec<NodePool<'a>>,
    pub(super) candidates: Vec<Candidate<'a>>,
    /// By claim, request and alternative.
    pub(super) wanted: Vec<Vec<Vec<Wanted<'a>>>>,
    /// The claims that have each candidate now, exclusively or for administration.
    holders: Vec<Vec<usize>>,
    /// What is taken now of the capacities of shared candidates, with the number of shares.
    taken: BTreeMap<usize, (usize, BTreeMap<String, Quantity>)>,
    /// The attributes of the devices that count for each constraint, by claim.
    constrained: Vec<Vec<Vec<&'a DeviceAttribute>>>,
    chosen: Vec<ChosenClaim>,
    /// Whether combinations that are known to fail are left out, if that was asked for.
    is_pruned: Option<bool>,
    /// The class of each candidate. Made when something fails: most searches succeed at once.
    classes: Option<Vec<usize>>,
    /// What was taken when a request could not be satisfied.
    failed: HashSet<String>,
    /// If the search goes on to the best choice.
    waste: Option<WasteSearch>,
    n_steps: u64,
    pub(super) meter: Meter<'a>,
}

impl<'a> Search<'a> {
    /// Chooses devices from a position on; returns whether everything is satisfied. `is_chosen` tells that the alternative
    /// is chosen. Within a request, only devices from `start` on are tried.
    fn allocate(&mut self, at: Position, is_chosen: bool, start: usize) -> Result<bool, Stop> {
        if at.device > 0 || is_chosen || !self.remembers() {
            return self.try_all(at, is_chosen, start);
        }
        let taken = self.taken_until(at);
        if self.failed.contains(&taken) {
            return Ok(false);
        }
        let found = self.try_all(at, is_chosen, start);
        if matches!(found, Ok(false)) {
            self.failed.insert(taken);
        }
        found
    }

    fn try_all(&mut self, at: Position, is_chosen: bool, start: usize) -> Result<bool, Stop> {
        let Some(of_claim) = self.wanted.get(at.claim) else { return Ok(self.complete()) };
        let Some(of_request) = of_claim.get(at.request) else {
            let next = Position { claim: at.claim + 1, ..Position::default() };
            return match self.allocate(next, false, 0) {
                // A claim before may get other devices, so that this one needs fewer.
                Err(Stop::TooMany) => Ok(false),
                found => found,
            };
        };
        if !is_chosen && self.claims[at.claim].spec.requests[at.request].is_prioritized {
            return self.allocate_first_available(at, of_request.len());
        }
        let Some(wanted) = of_request.get(at.alternative) else { return Ok(false) };
        let is_for_all = wanted.alternative.count == CountMode::All;
        if is_for_all && wanted.all.is_empty() {
            return Ok(false);
        }
        if at.device >= wanted.n_devices {
            let next = Position { request: at.request + 1, alternative: 0, device: 0, ..at };
            return self.allocate(next, false, 0);
        }
        if self.chosen[at.claim].devices.len() + wanted.n_devices - at.device > MAX_DEVICES {
            return Err(Stop::TooMany);
        }
        let next = Position { device: at.device + 1, ..at };
        if is_for_all {
            let candidate = wanted.all[at.device];
            if !self.take(at, candidate, true)? {
                return Ok(false);
            }
            let found = self.allocate(next, is_chosen, 0);
            if !matches!(found, Ok(true)) {
                self.give_back(at, candidate);
            }
            return found;
        }
        let mut failed: SmallVec<[usize; 8]> = SmallVec::new();
        for candidate in start..self.candidates.len() {
            self.step()?;
            if !failed.is_empty() && failed.contains(&self.class_of(candidate)) {
                continue;
            }
            if !self.is_free(at, candidate) {
                continue;
            }
            let wanted = self.at(at);
            let found = &self.candidates[candidate];
            if !self.selects(at.claim, wanted, found)? {
                continue;
            }
            if !wanted.alternative.capacity.is_empty() {
                let PoolName { driver, pool } = self.pools[found.pool].name;
                let shown = format_args!("{driver}/{pool}/{}", found.device.name);
                self.check_capacity(at.claim, wanted.alternative, found, &shown)?;
            }
            if !self.has_capacity(wanted.alternative, candidate) || !self.take(at, candidate, false)? {
                continue;
            }
            let fails = self.is_too_wasteful() || !self.can_be_completed(at, candidate);
            let found = match fails && self.is_pruned() {
                true => Ok(false),
                false => self.allocate(next, is_chosen, candidate + 1),
            };
            if matches!(found, Ok(true)) {
                return Ok(true);
            }
            self.give_back(at, candidate);
            found?;
            if self.is_pruned() {
                failed.push(self.class_of(candidate));
            }
        }
        Ok(false)
    }

    fn allocate_first_available(&mut self, at: Position, n_alternatives: usize) -> Result<bool, Stop> {
        let mut all_too_many = true;
        let n_found = self.n_found();
        for alternative in 0..n_alternatives {
            self.chosen[at.claim].alternatives[at.request] = alternative;
            self.step()?;
            match self.allocate(Position { alternative, ..at }, true, 0) {
                Ok(true) => return Ok(true),
                Ok(false) => all_too_many = false,
                Err(Stop::TooMany) => {}
                Err(stop) => return Err(stop),
            }
            // Later alternatives are not better.
            if self.n_found() > n_found {
                break;
            }
        }
        self.chosen[at.claim].alternatives[at.request] = 0;
        if all_too_many { Err(Stop::TooMany) } else { Ok(false) }
    }

    pub(super) fn gates(&self) -> FeatureGates {
        self.state.settings.config.feature_gates
    }

    pub(super) fn has(&self, change: VersionChange) -> bool {
        self.gates().has(change)
    }

    fn at(&self, at: Position) -> &Wanted<'a> {
        &self.wanted[at.claim][at.request][at.alternative]
    }

    pub(super) fn constraints_of(&self, claim: usize) -> &'a [Constraint] {
        &self.claims[claim].spec.constraints
    }

    fn step(&mut self) -> Result<(), Stop> {
        self.n_steps += 1;
        self.meter.spend(1);
        match () {
            () if self.meter.is_spent() => Err(Stop::Spent),
            () if self.n_steps > MAX_STEPS => Err(Stop::TooMuchWork),
            () => Ok(()),
        }
    }
}

/// Whether a request tolerates the taints of a device that keep it from being allocated.
pub(super) fn tolerates(alternative: &Alternative, device: &DeviceRecord) -> bool {
    blocking_taints(device).all(|taint| {
        let effect = berth_rules::TaintEffect::parse(&taint.effect);
        alternative.tolerations.iter().any(|t| t.tolerates_parts(&taint.key, &taint.value, &effect))
    })
}

/// The taints of a device that keep it from being allocated without a toleration.
pub(super) fn blocking_taints(device: &DeviceRecord) -> impl Iterator<Item = &DeviceTaint> {
    device.taints.iter().filter(|taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute"))
}
