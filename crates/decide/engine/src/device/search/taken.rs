//! What is taken at a point of the search: devices, shares of their capacities, counters of their pools, and the values of
//! constraints.

use std::collections::BTreeMap;

use berth_api::feature_gates::VersionChange;
use berth_api::object::device::DeviceAttribute;
use berth_api::syntax::quantity::Quantity;
use smallvec::SmallVec;

use super::{Candidate, Chosen, Position, Search, Stop, tolerates};
use crate::device::capacity::consumed;
use crate::device::pools::{give_back, try_take};
use crate::state::device::{Alternative, ClaimRequest, Constraint, DeviceRecord, DeviceUse};

/// What a device is to a constraint.
pub(super) enum Added<'a> {
    NotConcerned,
    Value(&'a DeviceAttribute),
    Violates,
}

impl<'a> Search<'a> {
    /// Whether a device is not in use already: for administration, by the same claim; otherwise by any.
    pub(super) fn is_free(&self, at: Position, candidate: usize) -> bool {
        let wanted = self.at(at);
        let holders = &self.holders[candidate];
        match wanted.alternative.admin_access {
            true => !holders.contains(&at.claim),
            false => {
                let Candidate { device, used, .. } = self.candidates[candidate];
                let keeps_shares =
                    || !device.shape.allows_multiple && self.has(VersionChange::ExclusiveWithShares);
                let is_used = |used: &DeviceUse| used.n_exclusive > 0 || used.n_shares > 0 && keeps_shares();
                holders.is_empty() && !used.is_some_and(is_used)
            }
        }
    }

    /// What a request takes of a device, if the device alone allows it.
    pub(in crate::device) fn share_of(
        &self,
        alternative: &Alternative,
        candidate: usize,
    ) -> Option<BTreeMap<String, Quantity>> {
        let shape = &self.candidates[candidate].device.shape;
        let share = consumed(&alternative.capacity, shape, self.gates())?;
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

    pub(super) fn has_capacity(&self, alternative: &Alternative, candidate: usize) -> bool {
        self.candidates[candidate].device.shape.capacity.is_empty() && alternative.capacity.is_empty()
            || self.share_of(alternative, candidate).is_some()
    }

    /// Takes a device for a position, if it is free, counters, taints and constraints allow it, and it has the capacity.
    pub(super) fn take(&mut self, at: Position, candidate: usize, must: bool) -> Result<bool, Stop> {
        let wanted = self.at(at);
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
        if takes_counters && !try_take(&mut self.pools[pool].counters, device) {
            return Ok(false);
        }
        let values = self.values_for(at.claim, request, alternative, device);
        let (Some(values), Some(share)) = (&values, self.share_of(alternative, candidate)) else {
            if takes_counters {
                give_back(&mut self.pools[pool].counters, device);
            }
            if must && values.is_none() {
                let name = alternative.name();
                let (claim, pool) = (&self.claims[at.claim].claim, self.pools[pool].name);
                return Err(Stop::Error(format!(
                    "claim {claim}, request {name}: cannot add device {}/{}/{} because a claim constraint would not be satisfied",
                    pool.driver, pool.pool, device.name
                )));
            }
            return Ok(false);
        };
        for &(i, value) in values {
            self.constrained[at.claim][i].push(value);
        }
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
        if let Some(waste) = self.waste.as_mut().filter(|_| !alternative.admin_access) {
            waste.taken.push(candidate);
        }
        Ok(true)
    }

    /// Whether a device takes from shared counters: one that others share does it once.
    pub(in crate::device) fn takes_counters(&self, candidate: usize, used: Option<&DeviceUse>) -> bool {
        let device = self.candidates[candidate].device;
        let is_in_use = || used.is_some_and(|used| used.n_shares > 0) || self.taken.contains_key(&candidate);
        !device.consumes.is_empty() && (!device.shape.allows_multiple || !is_in_use())
    }

    /// The contrary of [`Search::take`].
    pub(super) fn give_back(&mut self, at: Position, candidate: usize) {
        let wanted = self.at(at);
        let (request, alternative) = (wanted.request, wanted.alternative);
        let chosen = self.chosen[at.claim].devices.pop();
        if let Some(waste) = self.waste.as_mut().filter(|_| !alternative.admin_access) {
            waste.taken.pop();
        }
        for (constraint, values) in
            self.claims[at.claim].spec.constraints.iter().zip(&mut self.constrained[at.claim])
        {
            if constraint.concerns(request, alternative) {
                values.pop();
            }
        }
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
            give_back(&mut self.pools[pool].counters, device);
        }
    }

    /// The values that a device adds to the constraints of a claim that concern an alternative, by their numbers; none if it
    /// violates one.
    fn values_for(
        &self,
        claim: usize,
        request: &ClaimRequest,
        alternative: &Alternative,
        device: &'a DeviceRecord,
    ) -> Option<SmallVec<[(usize, &'a DeviceAttribute); 2]>> {
        let mut values = SmallVec::new();
        self.meter.spend(self.constraints_of(claim).len());
        for (i, constraint) in self.constraints_of(claim).iter().enumerate() {
            match self.adds_to(claim, i, constraint, request, alternative, device) {
                Added::NotConcerned => {}
                Added::Value(value) => values.push((i, value)),
                Added::Violates => return None,
            }
        }
        Some(values)
    }

    pub(super) fn adds_to(
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
        let is_equal =
            |other: &&DeviceAttribute| value == *other || self.differs_in_build_alone(value, other);
        let holds = match constraint.is_distinct {
            true => !values.iter().any(is_equal),
            false => values.first().is_none_or(is_equal),
        };
        if holds && *value != DeviceAttribute::Unset { Added::Value(value) } else { Added::Violates }
    }

    /// Whether two values are versions that count as equal.
    fn differs_in_build_alone(&self, a: &DeviceAttribute, b: &DeviceAttribute) -> bool {
        let (DeviceAttribute::Version(a), DeviceAttribute::Version(b)) = (a, b) else { return false };
        self.has(VersionChange::VersionsWithoutBuildMetadata) && a.split('+').next() == b.split('+').next()
    }
}
