//! The search for devices: the first choice in kube-scheduler's order that meets everything.
//!
//! The order is that of the claims, of their requests, of the alternatives, and of the devices of the node; within a request the
//! devices only go forward. kube-scheduler tries all combinations. Here, combinations that are known to fail are left out,
//! so that the first that succeeds is the same: a device that fails stands for all that are equal to it ([`super::classes`]), and
//! a request for which too few devices are left ends the attempt at once. Where the outcome can be an error, which depends
//! on what is tried, all combinations are tried.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use berth_api::object::device::DeviceAttribute;
use berth_api::syntax::quantity::Quantity;
use smallvec::SmallVec;

use super::capacity::consumed;
use super::classes::Classes;
use super::pools::{Condition, NodePool, pools_of, take};
use super::{CANNOT_ALLOCATE, INVALID_POOLS, Requested, TOO_MUCH_WORK};
use crate::state::State;
use crate::state::device::{
    Allocation, Alternative, ClaimRequest, ClaimSpec, Constraint, CountMode, DeviceRecord, DeviceUse,
    NodeScope, Selector, SliceRecord,
};
use crate::state::node::NodeRecord;

/// Devices of one claim at most.
const MAX_DEVICES: usize = 32;
/// Devices that are looked at for one node at most.
const MAX_STEPS: u64 = 200_000;
/// Failures are remembered after this many: most searches end before.
const STEPS_WITHOUT_MEMORY: u64 = 64;
/// The length of a list of alternatives at most: the first one scores this much.
const MAX_ALTERNATIVES: i64 = 8;

/// The outcome of a search.
pub(super) enum Found {
    Devices(Vec<ChosenClaim>),
    /// In kube-scheduler's words.
    Nothing(&'static str),
    Error(String),
}

/// What was chosen for a claim.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChosenClaim {
    pub(crate) devices: Vec<Chosen>,
    /// The index of the alternative of each request.
    pub(crate) alternatives: Vec<usize>,
}

/// A device that was chosen.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) request: usize,
    pub(crate) alternative: usize,
    pub(crate) pool: crate::state::device::PoolName,
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
    pub(super) class: &'a Arc<crate::state::device::ClassRecord>,
    pub(super) n_devices: usize,
    /// The devices of a request for all.
    pub(super) all: Vec<usize>,
}

/// Looks for devices for claims on a node.
pub(super) fn search(state: &State, node: &NodeRecord, claims: &[&Requested]) -> Found {
    let mut search = Search::on(state, node, claims);
    let has_invalid_pool = search.pools.iter().any(|pool| pool.condition == Condition::Invalid);
    let outcome = search.prepare().and_then(|()| search.allocate(Position::default(), false, 0));
    match outcome {
        Ok(true) => Found::Devices(search.chosen),
        Ok(false) if has_invalid_pool => Found::Nothing(INVALID_POOLS),
        Ok(false) => Found::Nothing(CANNOT_ALLOCATE),
        Err(Stop::TooMany) => {
            Found::Error(format!("more than {MAX_DEVICES} devices would be allocated to a claim"))
        }
        Err(Stop::TooMuchWork) => Found::Nothing(TOO_MUCH_WORK),
        Err(Stop::Error(error)) => Found::Error(error),
    }
}

/// The sum over requests with alternatives of how early the chosen one stands.
pub(super) fn score(claims: &[&Requested], chosen: &[ChosenClaim]) -> i64 {
    let of_claim = |(requested, chosen): (&&Requested, &ChosenClaim)| -> i64 {
        let requests = requested.spec.requests.iter().zip(&chosen.alternatives);
        requests
            .filter(|(request, _)| request.is_prioritized)
            .map(|(_, i)| MAX_ALTERNATIVES - *i as i64)
            .sum()
    };
    claims.iter().zip(chosen).map(of_claim).sum()
}

/// The same for a claim that is allocated.
pub(super) fn score_of_allocated(spec: &ClaimSpec, allocation: &Allocation) -> i64 {
    let used = |alternative: &Alternative| {
        allocation.devices.iter().any(|device| device.alternative.as_ref() == Some(&alternative.full_name))
    };
    let place = |request: &ClaimRequest| request.alternatives.iter().position(used);
    let prioritized = spec.requests.iter().filter(|request| request.is_prioritized);
    prioritized.filter_map(place).map(|place| MAX_ALTERNATIVES - place as i64).sum()
}

/// Why a search ends without having tried everything.
pub(super) enum Stop {
    /// A claim would get too many devices: another alternative may need fewer.
    TooMany,
    TooMuchWork,
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
    /// Whether combinations that are known to fail are left out.
    is_pruned: bool,
    /// Made when something fails: most searches succeed at once.
    classes: Option<Classes>,
    /// What was taken when a request could not be satisfied.
    failed: HashSet<String>,
    n_steps: u64,
}

impl<'a> Search<'a> {
    /// A search on a node that has not begun.
    pub(super) fn on(state: &'a State, node: &'a NodeRecord, claims: &'a [&'a Requested]) -> Search<'a> {
        let pools = pools_of(state, node);
        let mut candidates = Vec::new();
        for (i, pool) in pools.iter().enumerate() {
            for slice in &pool.slices {
                let devices = slice.devices.iter();
                candidates.extend(devices.map(|device| Candidate {
                    pool: i,
                    slice,
                    device,
                    used: pool.used.get(&device.name),
                }));
            }
        }
        Search::new(state, node, claims, pools, candidates)
    }

    fn new(
        state: &'a State,
        node: &'a NodeRecord,
        claims: &'a [&'a Requested],
        pools: Vec<NodePool<'a>>,
        candidates: Vec<Candidate<'a>>,
    ) -> Search<'a> {
        let chosen = |claim: &&Requested| ChosenClaim {
            devices: Vec::new(),
            alternatives: vec![0; claim.spec.requests.len()],
        };
        Search {
            holders: vec![Vec::new(); candidates.len()],
            constrained: claims.iter().map(|claim| vec![Vec::new(); claim.spec.constraints.len()]).collect(),
            chosen: claims.iter().map(chosen).collect(),
            state,
            node,
            claims,
            pools,
            candidates,
            wanted: Vec::new(),
            taken: BTreeMap::new(),
            is_pruned: false,
            classes: None,
            failed: HashSet::new(),
            n_steps: 0,
        }
    }

    /// Finds out how many devices each alternative needs.
    pub(super) fn prepare(&mut self) -> Result<(), Stop> {
        for i in 0..self.claims.len() {
            let claim = self.claims[i];
            let mut classes = claim.classes.iter();
            let mut of_claim = Vec::new();
            let mut n_devices = 0;
            for request in &claim.spec.requests {
                let mut of_request = Vec::new();
                for alternative in &request.alternatives {
                    let Some(class) = classes.next() else { continue };
                    let mut wanted = Wanted { request, alternative, class, n_devices: 0, all: Vec::new() };
                    match alternative.count {
                        CountMode::Exactly(n) => wanted.n_devices = n,
                        CountMode::All => {
                            wanted.all = self.all_devices(i, &wanted)?;
                            wanted.n_devices = wanted.all.len();
                        }
                    }
                    of_request.push(wanted);
                }
                n_devices += of_request.iter().map(|wanted| wanted.n_devices).min().unwrap_or(0);
                of_claim.push(of_request);
            }
            if n_devices > MAX_DEVICES {
                return Err(Stop::Error(format!(
                    "claim {}: number of requested devices {n_devices} exceeds the claim limit of {MAX_DEVICES}",
                    claim.claim
                )));
            }
            self.wanted.push(of_claim);
        }
        self.is_pruned = !self.can_fail();
        Ok(())
    }

    /// The devices of a request for all.
    fn all_devices(&self, claim: usize, wanted: &Wanted<'a>) -> Result<Vec<usize>, Stop> {
        let stop = |pool: &NodePool<'_>, why: &str| {
            let name = wanted.alternative.full_name.rsplit('/').next().unwrap_or_default();
            let error = format!(
                "claim {}, request {name}: asks for all devices, but resource pool {}/{} is currently {why}",
                self.claims[claim].claim, pool.name.driver, pool.name.pool
            );
            Err(Stop::Error(error))
        };
        let mut all = Vec::new();
        for (i, pool) in self.pools.iter().enumerate() {
            match pool.condition {
                Condition::Incomplete => return stop(pool, "being updated"),
                Condition::Invalid => return stop(pool, "invalid"),
                Condition::Usable => {}
            }
            for (c, candidate) in
                self.candidates.iter().enumerate().filter(|(_, candidate)| candidate.pool == i)
            {
                if self.selects(claim, wanted, candidate).map_err(Stop::Error)?
                    && self.share_of(wanted.alternative, c).is_some()
                {
                    all.push(c);
                }
            }
        }
        Ok(all)
    }

    /// Whether trying something can end in an error.
    fn can_fail(&self) -> bool {
        self.wanted.iter().enumerate().any(|(claim, requests)| {
            let constraints = &self.claims[claim].spec.constraints;
            requests.iter().flatten().any(|wanted| {
                (wanted.alternative.count == CountMode::All && !constraints.is_empty())
                    || wanted.n_devices > MAX_DEVICES
                    || self.candidates.iter().any(|candidate| self.selects(claim, wanted, candidate).is_err())
            })
        })
    }

    /// Whether class and request select a device.
    pub(super) fn selects(
        &self,
        claim: usize,
        wanted: &Wanted<'_>,
        candidate: &Candidate<'_>,
    ) -> Result<bool, String> {
        let shape = &candidate.device.shape;
        let all = |selectors: &[Arc<Selector>], what: &dyn Fn() -> String| {
            for (i, selector) in selectors.iter().enumerate() {
                let selected = shape.selected_by(selector);
                if !selected.map_err(|error| format!("{}: selector #{i}: {error}", what()))? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let class = || format!("class {}", wanted.class.name);
        let of_claim = || format!("claim {}", self.claims[claim].claim);
        let is_selected: Result<bool, String> = all(&wanted.class.selectors, &class);
        if !is_selected? || !all(&wanted.alternative.selectors, &of_claim)? {
            return Ok(false);
        }
        Ok(candidate.slice.scope != NodeScope::PerDevice
            || candidate.device.scope.includes(&self.state.symbols, self.node))
    }

    /// Chooses devices from a position on; returns whether everything is satisfied. `is_chosen` tells that the alternative
    /// is chosen. Within a request, only devices from `start` on are tried.
    fn allocate(&mut self, at: Position, is_chosen: bool, start: usize) -> Result<bool, Stop> {
        if at.device > 0 || is_chosen || !self.is_pruned || self.n_steps < STEPS_WITHOUT_MEMORY {
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
        let Some(of_claim) = self.wanted.get(at.claim) else { return Ok(true) };
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
            let wanted = &self.wanted[at.claim][at.request][at.alternative];
            if !self.selects(at.claim, wanted, &self.candidates[candidate]).map_err(Stop::Error)?
                || !self.has_capacity(wanted.alternative, candidate)
                || !self.take(at, candidate, false)?
            {
                continue;
            }
            let found = match self.is_pruned && !self.can_be_completed(at, candidate) {
                true => Ok(false),
                false => self.allocate(next, is_chosen, candidate + 1),
            };
            if matches!(found, Ok(true)) {
                return Ok(true);
            }
            self.give_back(at, candidate);
            found?;
            if self.is_pruned {
                failed.push(self.class_of(candidate));
            }
        }
        Ok(false)
    }

    fn allocate_first_available(&mut self, at: Position, n_alternatives: usize) -> Result<bool, Stop> {
        let mut all_too_many = true;
        for alternative in 0..n_alternatives {
            match self.allocate(Position { alternative, ..at }, true, 0) {
                Ok(true) => {
                    self.chosen[at.claim].alternatives[at.request] = alternative;
                    return Ok(true);
                }
                Ok(false) => all_too_many = false,
                Err(Stop::TooMany) => {}
                Err(stop) => return Err(stop),
            }
        }
        if all_too_many { Err(Stop::TooMany) } else { Ok(false) }
    }

    fn class_of(&mut self, candidate: usize) -> usize {
        if self.classes.is_none() {
            self.classes = Some(Classes::new((0..self.candidates.len()).map(|i| self.class_key(i))));
        }
        self.classes.as_ref().map_or(candidate, |classes| classes.of(candidate))
    }

    /// Devices with equal keys are equal in everything that the requests look at, and take the same of the same counters.
    fn class_key(&self, i: usize) -> String {
        let candidate = &self.candidates[i];
        let device = candidate.device;
        // Shared devices differ in what is left of them, and devices in use are not tried.
        let mut key = match device.shape.allows_multiple || candidate.used.is_some() {
            true => format!("{i} "),
            false => String::new(),
        };
        for (claim, requests) in self.wanted.iter().enumerate() {
            for wanted in requests.iter().flatten() {
                key.push(if self.could_take(claim, wanted, i) { '1' } else { '0' });
            }
            for constraint in self.constraints_of(claim) {
                key += &format!(" {:?}", device.shape.attribute(&constraint.attribute));
            }
        }
        if !device.consumes.is_empty() {
            key += &format!(" {} {:?}", candidate.pool, device.consumes);
        }
        key
    }

    /// What is taken before a request, by the classes of the devices: where this is equal, the request fares equally.
    fn taken_until(&mut self, at: Position) -> String {
        let mut held: Vec<(usize, usize)> = Vec::new();
        for candidate in 0..self.candidates.len() {
            for i in 0..self.holders[candidate].len() {
                held.push((self.class_of(candidate), self.holders[candidate][i]));
            }
        }
        held.sort_unstable();
        format!("{} {} {held:?} {:?} {:?}", at.claim, at.request, self.taken, self.constrained)
    }

    fn step(&mut self) -> Result<(), Stop> {
        self.n_steps += 1;
        if self.n_steps > MAX_STEPS { Err(Stop::TooMuchWork) } else { Ok(()) }
    }

    /// Whether a device is not in use already: for administration, by the same claim; otherwise by any.
    fn is_free(&self, at: Position, candidate: usize) -> bool {
        let wanted = &self.wanted[at.claim][at.request][at.alternative];
        let holders = &self.holders[candidate];
        match wanted.alternative.admin_access {
            true => !holders.contains(&at.claim),
            false => {
                holders.is_empty() && self.candidates[candidate].used.is_none_or(|used| used.n_exclusive == 0)
            }
        }
    }

    /// What a request takes of a device, if the device alone allows it.
    pub(super) fn share_of(
        &self,
        alternative: &Alternative,
        candidate: usize,
    ) -> Option<BTreeMap<String, Quantity>> {
        let shape = &self.candidates[candidate].device.shape;
        let share = consumed(&alternative.capacity, &shape.capacity)?;
        let used = self.candidates[candidate].used.map(|used| &used.consumed);
        let taken = self.taken.get(&candidate).map(|(_, taken)| taken);
        let fits = share.iter().all(|(name, amount)| {
            let of = |amounts: Option<&BTreeMap<String, Quantity>>| {
                amounts.and_then(|amounts| amounts.get(name)).copied().unwrap_or_default()
            };
            shape.capacity.get(name).is_some_and(|capacity| of(used) + of(taken) + *amount <= capacity.value)
        });
        fits.then_some(share)
    }

    fn has_capacity(&self, alternative: &Alternative, candidate: usize) -> bool {
        self.candidates[candidate].device.shape.capacity.is_empty() && alternative.capacity.is_empty()
            || self.share_of(alternative, candidate).is_some()
    }

    /// Takes a device for a position, if it is free, counters, taints and constraints allow it, and it has the capacity.
    fn take(&mut self, at: Position, candidate: usize, must: bool) -> Result<bool, Stop> {
        let wanted = &self.wanted[at.claim][at.request][at.alternative];
        let (request, alternative) = (wanted.request, wanted.alternative);
        let Candidate { pool, device, used, .. } = self.candidates[candidate];
        let is_shared = device.shape.allows_multiple;
        let is_held = self.holders[candidate].contains(&at.claim);
        let is_blocked = match alternative.admin_access {
            true => !is_shared && is_held,
            false => !self.is_free(at, candidate),
        };
        if is_blocked || !tolerates(alternative, device) {
            return Ok(false);
        }
        let takes_counters = self.takes_counters(candidate, used);
        if takes_counters && !take(&mut self.pools[pool].counters, device, -1) {
            take(&mut self.pools[pool].counters, device, 1);
            return Ok(false);
        }
        let claim = self.claims[at.claim];
        for (i, constraint) in claim.spec.constraints.iter().enumerate() {
            let found = self.adds_to(at.claim, i, constraint, request, alternative, device);
            match found {
                Added::NotConcerned => {}
                Added::Value(value) => self.constrained[at.claim][i].push(value),
                Added::Violates => {
                    self.remove_constrained(at.claim, i, request, alternative);
                    if takes_counters {
                        take(&mut self.pools[pool].counters, device, 1);
                    }
                    if must {
                        let name = alternative.full_name.rsplit('/').next().unwrap_or_default();
                        let pool = self.pools[pool].name;
                        return Err(Stop::Error(format!(
                            "claim {}, request {name}: cannot add device {}/{}/{} because a claim constraint would not be \
                             satisfied",
                            claim.claim, pool.driver, pool.pool, device.name
                        )));
                    }
                    return Ok(false);
                }
            }
        }
        let Some(share) = self.share_of(alternative, candidate) else {
            self.remove_constrained(at.claim, claim.spec.constraints.len(), request, alternative);
            if takes_counters {
                take(&mut self.pools[pool].counters, device, 1);
            }
            return Ok(false);
        };
        if is_shared {
            let (n_shares, taken) = self.taken.entry(candidate).or_default();
            *n_shares += 1;
            for (name, amount) in &share {
                *taken.entry(name.clone()).or_default() += *amount;
            }
        } else {
            self.holders[candidate].push(at.claim);
        }
        self.chosen[at.claim].devices.push(Chosen {
            request: at.request,
            alternative: at.alternative,
            pool: self.pools[pool].name.clone(),
            slice: self.candidates[candidate].slice.name.clone(),
            device: device.name.clone(),
            share: is_shared.then_some(share),
        });
        Ok(true)
    }

    /// Whether a device takes from shared counters: one that others share does it once.
    pub(super) fn takes_counters(&self, candidate: usize, used: Option<&DeviceUse>) -> bool {
        let device = self.candidates[candidate].device;
        let is_in_use = || used.is_some_and(|used| used.n_shares > 0) || self.taken.contains_key(&candidate);
        !device.consumes.is_empty() && (!device.shape.allows_multiple || !is_in_use())
    }

    /// The contrary of [`Search::take`].
    fn give_back(&mut self, at: Position, candidate: usize) {
        let wanted = &self.wanted[at.claim][at.request][at.alternative];
        let (request, alternative) = (wanted.request, wanted.alternative);
        let chosen = self.chosen[at.claim].devices.pop();
        self.remove_constrained(at.claim, self.claims[at.claim].spec.constraints.len(), request, alternative);
        match chosen.and_then(|chosen| chosen.share) {
            Some(share) => {
                if let Some((n_shares, taken)) = self.taken.get_mut(&candidate) {
                    *n_shares -= 1;
                    for (name, amount) in &share {
                        if let Some(taken) = taken.get_mut(name) {
                            *taken = *taken - *amount;
                        }
                    }
                    if *n_shares == 0 {
                        self.taken.remove(&candidate);
                    }
                }
            }
            None => {
                if let Some(i) = self.holders[candidate].iter().rposition(|claim| *claim == at.claim) {
                    self.holders[candidate].remove(i);
                }
            }
        }
        let Candidate { pool, device, used, .. } = self.candidates[candidate];
        if self.takes_counters(candidate, used) {
            take(&mut self.pools[pool].counters, device, 1);
        }
    }

    /// Takes the last value away from the first constraints of a claim that concern an alternative.
    fn remove_constrained(
        &mut self,
        claim: usize,
        n_constraints: usize,
        request: &ClaimRequest,
        alternative: &Alternative,
    ) {
        let constraints = self.claims[claim].spec.constraints.iter().take(n_constraints);
        for (constraint, values) in constraints.zip(&mut self.constrained[claim]) {
            if constraint.concerns(request, alternative) {
                values.pop();
            }
        }
    }

    fn adds_to(
        &self,
        claim: usize,
        i: usize,
        constraint: &Constraint,
        request: &ClaimRequest,
        alternative: &Alternative,
        device: &'a DeviceRecord,
    ) -> Added<'a> {
        if !constraint.concerns(request, alternative) {
            return Added::NotConcerned;
        }
        let Some(value) = device.shape.attribute(&constraint.attribute) else { return Added::Violates };
        let values = &self.constrained[claim][i];
        let holds = match constraint.is_distinct {
            true => !values.contains(&value),
            false => values.first().is_none_or(|first| *first == value),
        };
        if holds && *value != DeviceAttribute::Unset { Added::Value(value) } else { Added::Violates }
    }

    /// Whether enough devices are left for the rest of the request, and for each later request of the claim.
    fn can_be_completed(&mut self, at: Position, candidate: usize) -> bool {
        let wanted = &self.wanted[at.claim][at.request][at.alternative];
        let n_missing = wanted.n_devices - at.device - 1;
        if n_missing > 0 && !self.has_devices(at, candidate + 1, n_missing) {
            return false;
        }
        let n_requests = self.wanted[at.claim].len();
        (at.request + 1..n_requests).all(|request| {
            let of_request = &self.wanted[at.claim][request];
            (0..of_request.len()).any(|alternative| {
                let later = Position { request, alternative, device: 0, ..at };
                let wanted = &self.wanted[at.claim][request][alternative];
                match wanted.alternative.count {
                    CountMode::All => !wanted.all.is_empty(),
                    CountMode::Exactly(n) => self.has_devices(later, 0, n),
                }
            })
        })
    }

    /// Whether this many devices from a place on could each be taken now.
    fn has_devices(&self, at: Position, start: usize, n: usize) -> bool {
        let wanted = &self.wanted[at.claim][at.request][at.alternative];
        let claim = self.claims[at.claim];
        let could_be = |candidate: &usize| {
            let device = self.candidates[*candidate].device;
            self.is_free(at, *candidate)
                && tolerates(wanted.alternative, device)
                && self.selects(at.claim, wanted, &self.candidates[*candidate]) == Ok(true)
                && self.has_capacity(wanted.alternative, *candidate)
                && claim.spec.constraints.iter().enumerate().all(|(i, constraint)| {
                    let added =
                        self.adds_to(at.claim, i, constraint, wanted.request, wanted.alternative, device);
                    !matches!(added, Added::Violates)
                })
        };
        let mut found = (start..self.candidates.len()).filter(could_be);
        let of_alternative =
            |c: &&Constraint| c.is_distinct && c.concerns(wanted.request, wanted.alternative);
        let Some(distinct) = claim.spec.constraints.iter().find(of_alternative) else {
            return n == 0 || found.nth(n - 1).is_some();
        };
        let mut values: SmallVec<[&DeviceAttribute; 8]> = SmallVec::new();
        n == 0
            || found.any(|candidate| {
                let value = self.candidates[candidate].device.shape.attribute(&distinct.attribute);
                values.extend(value.filter(|value| !values.contains(value)));
                values.len() >= n
            })
    }

    pub(super) fn constraints_of(&self, claim: usize) -> &'a [Constraint] {
        &self.claims[claim].spec.constraints
    }

    /// Whether an alternative could take a device, if it were free.
    pub(super) fn could_take(&self, claim: usize, wanted: &Wanted<'_>, candidate: usize) -> bool {
        let found = &self.candidates[candidate];
        tolerates(wanted.alternative, found.device)
            && self.selects(claim, wanted, found) == Ok(true)
            && consumed(&wanted.alternative.capacity, &found.device.shape.capacity).is_some_and(|share| {
                let suffices = |(name, amount): (&String, &Quantity)| {
                    found.device.shape.capacity.get(name).is_some_and(|capacity| *amount <= capacity.value)
                };
                share.iter().all(suffices)
            })
    }
}

/// What a device is to a constraint.
enum Added<'a> {
    NotConcerned,
    Value(&'a DeviceAttribute),
    Violates,
}

/// Whether a request tolerates the taints of a device that keep it from being allocated.
pub(super) fn tolerates(alternative: &Alternative, device: &DeviceRecord) -> bool {
    device.taints.iter().filter(|taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute")).all(|taint| {
        let effect = berth_api::rules::TaintEffect::parse(&taint.effect);
        alternative.tolerations.iter().any(|t| t.tolerates_parts(&taint.key, &taint.value, &effect))
    })
}
