//! What the devices of a pod would take of the allocatable resources of a node, and whether the node has it (enhancement 5517, gate
//! `DRANodeAllocatableResources`).
//!
//! The devices are those that the search found; they are not chosen by what they take. kube-scheduler 1.36 overlooks claims that
//! were allocated before, which a later version corrects: here they count.

use std::collections::BTreeMap;

use berth_api::object::NodeAllocatableResourceClaimStatus;
use berth_api::syntax::quantity::Quantity;
use berth_input::config::Plugin;
use smallvec::SmallVec;

use super::search::ChosenClaim;
use super::{CycleClaim, CycleDevices, DevicesInUse, NodeVerdict, Requested};
use crate::state::State;
use crate::state::device::{ClaimRecord, NodeMappings, PodDevices, PoolName, TakenByClaim};
use crate::state::node::shortage::{Shortage, shortages};
use crate::state::node::{NodeRecord, Resources};
use crate::verdict::{Rejection, Status};

/// What matters of a pod, so that pods which are equal in it fare equally.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct AllocatableRules {
    /// Whether a container uses the claim, for each claim of the pod.
    is_used: Box<[bool]>,
    budget: Box<[(Box<str>, Quantity)]>,
    /// Whether it matters which claims they are: some are allocated, or have other pods.
    pub(super) is_own: bool,
}

/// A device that a pod gets.
struct Got<'a> {
    pool: &'a PoolName,
    device: &'a str,
    mappings: Option<&'a NodeMappings>,
    consumed: Option<&'a BTreeMap<String, Quantity>>,
}

/// Why a node is not feasible for what devices take of it.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) rejection: Rejection,
    /// What the node lacks for the pod with its devices.
    pub(crate) shortages: SmallVec<[Shortage; 2]>,
}

impl Refusal {
    fn unresolvable(reason: String) -> NodeVerdict {
        let rejection = Rejection {
            plugin: Plugin::DynamicResources,
            status: Status::UnschedulableAndUnresolvable,
            reasons: [reason.into()].into_iter().collect(),
        };
        NodeVerdict::Refused(Box::new(Refusal { rejection, shortages: SmallVec::new() }))
    }
}

impl AllocatableRules {
    pub(super) fn of(state: &State, pod: &PodDevices, claims: &[CycleClaim]) -> AllocatableRules {
        if !state.devices_take_allocatable() {
            return AllocatableRules::default();
        }
        let is_own = |claim: &CycleClaim| {
            let record = state.devices.claim(&claim.claim);
            claim.unallocated.is_none() || record.is_some_and(|record| record.has_others(pod))
        };
        AllocatableRules {
            is_used: claims.iter().map(|claim| !containers_of(pod, claims, claim).is_empty()).collect(),
            budget: pod.budget.clone(),
            is_own: claims.iter().any(is_own),
        }
    }
}

impl ClaimRecord {
    /// Whether it is reserved for another pod.
    fn has_others(&self, pod: &PodDevices) -> bool {
        self.consumers.iter().any(|consumer| consumer.uid != pod.pod_uid)
    }
}

/// The containers that use a claim, each once.
fn containers_of(pod: &PodDevices, claims: &[CycleClaim], claim: &CycleClaim) -> Vec<String> {
    let names = claims.iter().filter(|other| other.claim == claim.claim).map(|other| &other.name_in_pod);
    let entries = names.filter_map(|name| pod.claims.iter().find(|entry| entry.name == *name));
    let mut containers: Vec<String> = Vec::new();
    for name in entries.flat_map(|entry| &entry.containers) {
        if !containers.iter().any(|known| **known == **name) {
            containers.push(name.to_string());
        }
    }
    containers
}

impl CycleDevices {
    /// A claim whose devices take of the node belongs to one pod: another pod on the node must not have it.
    pub(super) fn shared_on(
        &self,
        state: &State,
        node: &NodeRecord,
        in_use: &DevicesInUse,
    ) -> Option<NodeVerdict> {
        if !self.rules.allocatable.is_own {
            return None;
        }
        let pods = &state.nodes.get(state.nodes.find(node.name)?).pods;
        self.claims.iter().find_map(|claim| {
            state.devices.claim(&claim.claim).filter(|record| record.has_others(&self.pod))?;
            let on_node = pods.iter().filter_map(|pod| state.pods.get(*pod).devices.as_deref());
            let others = on_node.filter(|other| {
                let has_it = |taken: &TakenByClaim| *taken.claim == *claim.claim.name();
                other.pod.namespace() == claim.claim.namespace()
                    && other.pod_uid != self.pod.pod_uid
                    && !in_use.left.iter().any(|left| left.pod == other.pod)
                    && other.taken.iter().any(has_it)
            });
            let why = match others.count() {
                0 => return None,
                1 => "is already used by another pod",
                _ => "shared by multiple pods",
            };
            let name = claim.claim.name();
            Some(Refusal::unresolvable(format!("node allocatable resource claim {name} {why}")))
        })
    }

    /// What the devices take of a node, by the names of the claims.
    ///
    /// # Errors
    /// The pod does not fit with it.
    pub(super) fn taken_of(
        &self,
        state: &State,
        node: &NodeRecord,
        requested: &[&Requested],
        chosen: &[ChosenClaim],
    ) -> Result<Vec<NodeAllocatableResourceClaimStatus>, NodeVerdict> {
        let Some(rule_set) = self.requests.filter(|_| state.devices_take_allocatable()) else {
            return Ok(Vec::new());
        };
        let mut statuses = Vec::new();
        let mut add = |name: &str, containers: Vec<String>, got: &[Got<'_>]| {
            if let Some(resources) = taken_by_claim(self.pod.pod.namespace(), name, got)? {
                let resource_claim_name = name.to_owned();
                statuses.push(NodeAllocatableResourceClaimStatus {
                    resource_claim_name,
                    containers,
                    resources,
                });
            }
            Ok(())
        };
        let error = NodeVerdict::Error;
        for (i, claim) in self.claims.iter().enumerate() {
            // Of a claim that the pod names twice, the last counts.
            if self.claims[i + 1..].iter().any(|later| later.claim == claim.claim) {
                continue;
            }
            let got = match claim.unallocated {
                Some(i) => chosen.get(i).map(|chosen| chosen.got(state)).unwrap_or_default(),
                None => state.devices.claim(&claim.claim).map(|of| of.got(state)).unwrap_or_default(),
            };
            add(claim.claim.name(), containers_of(&self.pod, &self.claims, claim), &got).map_err(error)?;
        }
        for (extended, chosen) in requested.iter().zip(chosen).skip(self.rules.unallocated.len()) {
            add(extended.claim.name(), Vec::new(), &chosen.got(state)).map_err(error)?;
        }
        if statuses.is_empty() {
            return Ok(statuses);
        }
        statuses.sort_by(|a, b| a.resource_claim_name.cmp(&b.resource_claim_name));
        if let Some(unused) = statuses.iter().find(|status| status.containers.is_empty()) {
            return Err(Refusal::unresolvable(format!(
                "claim {}: node-allocatable resource claim not referenced by any container within the pod",
                unused.resource_claim_name
            )));
        }
        let taken = || {
            let resources = statuses.iter().flat_map(|status| &status.resources);
            resources.map(|(name, amount)| (name.as_str(), *amount))
        };
        for (name, left) in &self.pod.budget {
            let of_name = taken().filter(|(of, _)| *of == &**name).map(|(_, amount)| amount);
            if of_name.fold(Quantity::ZERO, |sum, amount| sum + amount) > *left {
                return Err(Refusal::unresolvable(format!(
                    "pod level request for {name} is insufficient to cover the aggregated container and node-allocatable DRA requests"
                )));
            }
        }
        let mut all = state.rule_sets.get(rule_set).requests.clone();
        all.add(&self.pod.beyond_requests(taken(), |name| state.symbols.get(name)), 1);
        match refusal(state, node, &all) {
            Some(refusal) => Err(NodeVerdict::Refused(Box::new(refusal))),
            None => Ok(statuses),
        }
    }
}

/// What a node lacks for a pod that takes this of it.
fn refusal(state: &State, node: &NodeRecord, all: &Resources) -> Option<Refusal> {
    let is_huge_page = |(name, _): &&(_, i64)| state.symbols.text(*name).starts_with("hugepages-");
    let huge_pages: Vec<_> = all.scalar.iter().filter(is_huge_page).copied().collect();
    // The number of pods is for NodeResourcesFit.
    let shortages = shortages(all, &huge_pages, -1, node);
    if shortages.is_empty() {
        return None;
    }
    let status = match shortages.iter().any(Shortage::is_unresolvable) {
        true => Status::UnschedulableAndUnresolvable,
        false => Status::Unschedulable,
    };
    let reasons = shortages.iter().map(|shortage| shortage.reason(&state.symbols)).collect();
    let rejection = Rejection { plugin: Plugin::DynamicResources, status, reasons };
    Some(Refusal { rejection, shortages })
}

/// What the devices of a claim take; none if none of them takes anything.
fn taken_by_claim(
    namespace: &str,
    claim: &str,
    got: &[Got<'_>],
) -> Result<Option<BTreeMap<String, Quantity>>, String> {
    if got.iter().all(|got| got.mappings.is_none_or(NodeMappings::is_empty)) {
        return Ok(None);
    }
    let mut sums: BTreeMap<String, Quantity> = BTreeMap::new();
    for Got { pool, device, mappings, consumed } in got {
        let mappings = mappings.ok_or_else(|| {
            let PoolName { driver, pool } = pool;
            format!(
                "claim {namespace}/{claim}, device {device}, driver {driver}: device {device} not found in pool {pool} for driver {driver}"
            )
        })?;
        for (name, mapping) in mappings {
            let unit = mapping.allocation_multiplier.unwrap_or(Quantity::from_units(1));
            let amount = match mapping.capacity_key.as_deref().filter(|key| !key.is_empty()) {
                None => unit,
                Some(key) => {
                    let consumed = consumed.ok_or_else(|| {
                        format!(
                            "claim {namespace}/{claim}, device {device}: ConsumedCapacity is nil, but Capacity key '{key}' is set in NodeAllocatableResourceMappings for resource {name}"
                        )
                    })?;
                    match consumed.get(key) {
                        Some(consumed) => *consumed * unit,
                        None => continue,
                    }
                }
            };
            *sums.entry(name.clone()).or_default() += amount;
        }
    }
    Ok(Some(sums).filter(|sums| !sums.is_empty()))
}

impl ChosenClaim {
    fn got<'a>(&'a self, state: &'a State) -> Vec<Got<'a>> {
        let got = self.devices.iter().map(|chosen| {
            let record = state.devices.device(&chosen.pool, &chosen.slice, &chosen.device);
            let mappings = record.map(|(_, device)| &device.node_mappings);
            Got { pool: &chosen.pool, device: &chosen.device, mappings, consumed: chosen.share.as_ref() }
        });
        got.collect()
    }
}

impl ClaimRecord {
    fn got<'a>(&'a self, state: &'a State) -> Vec<Got<'a>> {
        let devices = self.allocation().into_iter().flat_map(|allocation| &allocation.devices);
        let got = devices.map(|allocated| {
            let slices =
                state.devices.pool(&allocated.pool).into_iter().flat_map(|pool| pool.slices.values());
            let mut devices = slices.flat_map(|slice| &slice.devices);
            let mappings = devices.find(|device| device.name == allocated.device).map(|of| &of.node_mappings);
            Got {
                pool: &allocated.pool,
                device: &allocated.device,
                mappings,
                consumed: allocated.share.as_ref(),
            }
        });
        got.collect()
    }
}
