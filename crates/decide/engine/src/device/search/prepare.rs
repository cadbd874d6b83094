//! What is known before the search: the devices of the node, and which each request selects.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::sync::Arc;

use berth_api::feature_gates::VersionChange;

use super::{Candidate, ChosenClaim, MAX_DEVICES, Search, Stop, Wanted};
use crate::device::capacity::{has_whole_capacity, problem};
use crate::device::pools::{Condition, NodePool, pools_of};
use crate::device::{DevicesInUse, Requested};
use crate::state::State;
use crate::state::device::{Alternative, CountMode, DeviceUse, Meter, NodeScope, PoolName, Selector};
use crate::state::node::NodeRecord;

/// What kube-scheduler adds to errors about missing keys.
const MISSING_KEY: &str = ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields";

/// The use of a device that is not to be chosen. It takes from no counters.
static TAKEN: DeviceUse = DeviceUse { n_exclusive: 1, n_shares: 0, consumed: BTreeMap::new() };

impl<'a> Search<'a> {
    /// A search on a node that has not begun.
    pub(in crate::device) fn on(
        state: &'a State,
        node: &'a NodeRecord,
        in_use: &'a DevicesInUse,
        claims: &'a [&'a Requested],
        meter: Meter<'a>,
    ) -> Search<'a> {
        let pools = pools_of(state, node, in_use);
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
        if !in_use.avoided.is_empty() {
            let is_avoided = |candidate: &&mut Candidate<'_>| {
                let name = (pools[candidate.pool].name.clone(), candidate.device.name.clone());
                in_use.avoided.contains(&name)
            };
            candidates.iter_mut().filter(is_avoided).for_each(|candidate| candidate.used = Some(&TAKEN));
        }
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
            is_pruned: None,
            classes: None,
            failed: HashSet::new(),
            waste: None,
            n_steps: 0,
            meter,
        }
    }

    /// Finds out how many devices each alternative needs.
    pub(in crate::device) fn prepare(&mut self) -> Result<(), Stop> {
        for i in 0..self.claims.len() {
            let claim = self.claims[i];
            if let Some(what) = &claim.spec.unsupported {
                return Err(Stop::Error(format!("claim {}, {what}", claim.claim)));
            }
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
                let least = of_request.iter().map(|wanted| wanted.n_devices).min().unwrap_or(0);
                if self.has(VersionChange::TooManyDevicesNamesRequest)
                    && least > MAX_DEVICES.saturating_sub(n_devices)
                {
                    return Err(Stop::Error(format!(
                        "claim {}, request {}: adding {least} devices exceeds the claim limit of {MAX_DEVICES}, with {n_devices} \
                         already accounted for",
                        claim.claim, request.name
                    )));
                }
                n_devices = n_devices.saturating_add(least);
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
        Ok(())
    }

    /// The devices of a request for all.
    fn all_devices(&self, claim: usize, wanted: &Wanted<'a>) -> Result<Vec<usize>, Stop> {
        let stop = |pool: &NodePool<'_>, why: &str| {
            let name = wanted.alternative.name();
            let error = format!(
                "claim {}, request {name}: asks for all devices, but resource pool {}/{} is currently {why}",
                self.claims[claim].claim, pool.name.driver, pool.name.pool
            );
            Err(if self.has(VersionChange::AllWithUnusablePool) {
                Stop::Rejected(error)
            } else {
                Stop::Error(error)
            })
        };
        let with_used = self.has(VersionChange::AllWithUsedCapacity);
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
                let fits = |alternative: &Alternative| match with_used {
                    true => has_whole_capacity(&alternative.capacity, &candidate.device.shape, self.gates()),
                    false => self.share_of(alternative, c).is_some(),
                };
                if self.selects(claim, wanted, candidate)? {
                    self.check_capacity(claim, wanted.alternative, candidate, &candidate.device.name)?;
                    if fits(wanted.alternative) {
                        all.push(c);
                    }
                }
            }
        }
        Ok(all)
    }

    /// Whether combinations that are known to fail are left out: where trying them cannot end in an error. Found out when
    /// something fails: most searches succeed at once, and look at few devices.
    pub(in crate::device) fn is_pruned(&mut self) -> bool {
        let is_pruned = self.is_pruned.unwrap_or_else(|| !self.can_fail());
        self.is_pruned = Some(is_pruned);
        is_pruned
    }

    /// Whether trying something can end in an error.
    fn can_fail(&self) -> bool {
        self.wanted.iter().enumerate().any(|(claim, requests)| {
            let constraints = &self.claims[claim].spec.constraints;
            requests.iter().flatten().any(|wanted| {
                (wanted.alternative.count == CountMode::All && !constraints.is_empty())
                    || wanted.n_devices > MAX_DEVICES
                    || self.candidates.iter().any(|candidate| {
                        self.selects(claim, wanted, candidate).is_err()
                            || self.check_capacity(claim, wanted.alternative, candidate, &"").is_err()
                    })
            })
        })
    }

    /// Whether what a request takes of a device can be calculated; the device is shown as `shown`.
    pub(super) fn check_capacity(
        &self,
        claim: usize,
        alternative: &Alternative,
        candidate: &Candidate<'_>,
        shown: &dyn Display,
    ) -> Result<(), Stop> {
        let problem = problem(&alternative.capacity, &candidate.device.shape, self.gates());
        problem.map_or(Ok(()), |problem| {
            let (claim, request) = (&self.claims[claim].claim, alternative.name());
            Err(Stop::Error(format!(
                "claim {claim}, request {request}: checking capacity for device {shown}: {problem}"
            )))
        })
    }

    /// Whether class and request select a device.
    pub(in crate::device) fn selects(
        &self,
        claim: usize,
        wanted: &Wanted<'_>,
        candidate: &Candidate<'_>,
    ) -> Result<bool, Stop> {
        let shape = &candidate.device.shape;
        let all = |selectors: &[Arc<Selector>], what: &dyn Fn() -> String| {
            for (i, selector) in selectors.iter().enumerate() {
                let selected = shape.selected_by(selector, &self.meter).ok_or(Stop::Spent)?;
                let error = |error: Arc<str>| match self.has(VersionChange::SelectorErrorNamesDevice) {
                    true => {
                        let PoolName { driver, pool } = self.pools[candidate.pool].name;
                        let advice = if error.contains("no such key:") { MISSING_KEY } else { "" };
                        let device = &candidate.device.name;
                        format!(
                            "{}: selector #{i} on device {driver}/{pool}/{device}: {error}{advice}",
                            what()
                        )
                    }
                    false => format!("{}: selector #{i}: {error}", what()),
                };
                if !selected.map_err(|text| Stop::Error(error(text)))? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        self.meter.spend(1);
        let class = || format!("class {}", wanted.class.name);
        let of_claim = || format!("claim {}", self.claims[claim].claim);
        if !all(&wanted.class.selectors, &class)? || !all(&wanted.alternative.selectors, &of_claim)? {
            return Ok(false);
        }
        Ok(candidate.slice.scope != NodeScope::PerDevice
            || candidate.device.scope.includes(&self.state.symbols, self.node))
    }
}
