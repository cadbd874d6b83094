//! Combinations that are known to fail: equal devices, requests for which too few devices are left, and what has failed before.

use std::collections::HashMap;

use berth_api::object::device::DeviceAttribute;
use smallvec::SmallVec;

use super::taken::Added;
use super::{Position, Search, Wanted, tolerates};
use crate::device::capacity::has_whole_capacity;
use crate::state::device::{Constraint, CountMode};

/// Failures are remembered after this many steps: most searches end before.
const STEPS_WITHOUT_MEMORY: u64 = 64;

impl Search<'_> {
    /// Whether requests that fail are remembered.
    pub(super) fn remembers(&mut self) -> bool {
        self.n_steps >= STEPS_WITHOUT_MEMORY && self.is_pruned()
    }

    /// What fails with one device of a class fails with all.
    pub(in crate::device) fn class_of(&mut self, candidate: usize) -> usize {
        if self.classes.is_none() {
            let mut numbers: HashMap<String, usize> = HashMap::new();
            let number = |i| {
                let next = numbers.len();
                *numbers.entry(self.class_key(i)).or_insert(next)
            };
            self.classes = Some((0..self.candidates.len()).map(number).collect());
        }
        self.classes.as_ref().map_or(candidate, |classes| classes[candidate])
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
        key + &self.waste_key(i)
    }

    /// What is taken before a request, by the classes of the devices: where this is equal, the request fares equally.
    pub(super) fn taken_until(&mut self, at: Position) -> String {
        let mut held: Vec<(usize, usize)> = Vec::new();
        for candidate in 0..self.candidates.len() {
            for i in 0..self.holders[candidate].len() {
                held.push((self.class_of(candidate), self.holders[candidate][i]));
            }
        }
        held.sort_unstable();
        let alternatives: Vec<_> = match self.waste {
            Some(_) => self.chosen.iter().map(|claim| &claim.alternatives).collect(),
            None => Vec::new(),
        };
        let (taken, constrained) = (&self.taken, &self.constrained);
        let key = format!("{} {} {held:?} {taken:?} {constrained:?} {alternatives:?}", at.claim, at.request);
        self.meter.spend(self.candidates.len() / 8 + key.len());
        key
    }

    /// Whether enough devices are left for the rest of the request, and for each later request of the claim.
    pub(super) fn can_be_completed(&mut self, at: Position, candidate: usize) -> bool {
        let wanted = self.at(at);
        let n_missing = wanted.n_devices - at.device - 1;
        if n_missing > 0 && !self.has_devices(at, candidate + 1, n_missing) {
            return false;
        }
        let n_requests = self.wanted[at.claim].len();
        (at.request + 1..n_requests).all(|request| {
            let of_request = &self.wanted[at.claim][request];
            (0..of_request.len()).any(|alternative| {
                let later = Position { request, alternative, device: 0, ..at };
                let wanted = self.at(later);
                match wanted.alternative.count {
                    CountMode::All => !wanted.all.is_empty(),
                    CountMode::Exactly(n) => self.has_devices(later, 0, n),
                }
            })
        })
    }

    /// Whether this many devices from a place on could each be taken now.
    fn has_devices(&self, at: Position, start: usize, n: usize) -> bool {
        let wanted = self.at(at);
        let claim = self.claims[at.claim];
        let could_be = |candidate: &usize| {
            self.meter.spend(1 + claim.spec.constraints.len());
            let device = self.candidates[*candidate].device;
            self.is_free(at, *candidate)
                && tolerates(wanted.alternative, device)
                && matches!(self.selects(at.claim, wanted, &self.candidates[*candidate]), Ok(true))
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

    /// Whether an alternative could take a device, if it were free.
    fn could_take(&self, claim: usize, wanted: &Wanted<'_>, candidate: usize) -> bool {
        let found = &self.candidates[candidate];
        tolerates(wanted.alternative, found.device)
            && matches!(self.selects(claim, wanted, found), Ok(true))
            && has_whole_capacity(&wanted.alternative.capacity, &found.device.shape, self.gates())
    }
}
