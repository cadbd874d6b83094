//! What was chosen on a node, as it is written to claims.

use std::collections::{BTreeSet, HashMap};

use berth_api::feature_gates::{FeatureGates, VersionChange};
use berth_api::object::device::{
    AllocationResult, ClaimDecision, DeviceAllocationConfiguration, DeviceConfiguration, DeviceDecision,
    DeviceRequestAllocationResult, ExtendedResourceClaim, ResourceClaimConsumerReference,
};
use berth_api::object::{NodeSelector, NodeSelectorTerm, SelectorRequirement};

use super::search::{Chosen, ChosenClaim};
use super::{CycleDevices, DevicesInUse, NodeDevices, NodeVerdict, Requested};
use crate::state::State;
use crate::state::device::{
    AllocatedDevice, Alternative, ClaimRequest, ClassRecord, DeviceRecord, Meter, NodeScope, Readiness,
    SliceRecord,
};
use crate::state::node::NodeRecord;

/// What is to be written to the claims of a pod that is placed on a node; none if the node rejects the pod.
///
/// # Errors
/// The API server would refuse it; the text is kube-scheduler's.
pub(crate) fn device_decision(
    state: &State,
    devices: &CycleDevices,
    node: &NodeRecord,
    in_use: &DevicesInUse,
    meter: Meter<'_>,
) -> Option<Result<Box<DeviceDecision>, String>> {
    let verdict = devices.within(meter, state, node, in_use);
    let NodeVerdict::Fits(found) = verdict else { return None };
    if let Some(problem) = &devices.write_problem {
        return Some(Err(problem.clone()));
    }
    let mut n_shares = 0;
    let node_name = state.symbols.text(node.name);
    let mut allocation = |requested: &Requested, chosen: &ChosenClaim| {
        allocation(state, node_name, requested, chosen, &mut n_shares)
    };
    let mut claims = Vec::new();
    for claim in &devices.claims {
        let record = state.devices.claim(&claim.claim);
        let unallocated =
            claim.unallocated.and_then(|i| devices.rules.unallocated.get(i).zip(found.chosen.get(i)));
        let allocation = unallocated.map(|(requested, chosen)| allocation(requested, chosen));
        let waits = match &allocation {
            Some(allocation) => {
                allocation.devices.results.iter().any(|result| !result.binding_conditions.is_empty())
            }
            None => record.is_some_and(|record| record.readiness != Readiness::Ready),
        };
        claims.push(ClaimDecision {
            claim: claim.claim.clone(),
            name_in_pod: Some(claim.name_in_pod.to_string()),
            waits,
            allocation,
            is_reserved_now: record.is_some_and(|record| match &claim.group {
                Some(group) => !record.shows(group),
                None => !record.is_reserved_for(&devices.pod),
            }),
            group: claim
                .group
                .as_ref()
                .map(|of| ResourceClaimConsumerReference::pod_group(&of.group, &of.uid)),
            extended: None,
        });
    }
    if let (Some((requested, mappings)), Some(chosen)) = (&found.extended, found.chosen.last()) {
        if mappings.is_empty() {
            let error = format!(
                "nil or empty request mappings, no update of pod {} ExtendedResourceClaimStatus",
                devices.pod.pod
            );
            return Some(Err(error));
        }
        let allocation = allocation(requested, chosen);
        claims.push(ClaimDecision {
            claim: requested.claim.clone(),
            name_in_pod: None,
            waits: allocation.devices.results.iter().any(|result| !result.binding_conditions.is_empty()),
            allocation: Some(allocation),
            is_reserved_now: true,
            group: None,
            extended: Some(ExtendedResourceClaim {
                requests: requested.spec.source.devices.requests.clone(),
                mappings: mappings.clone(),
            }),
        });
    }
    Some(Ok(Box::new(DeviceDecision { claims, node_allocatable: found.node_allocatable })))
}

fn allocation(
    state: &State,
    node: &str,
    requested: &Requested,
    chosen: &ChosenClaim,
    n_shares: &mut usize,
) -> AllocationResult {
    let mut allocation = AllocationResult::default();
    let mut places = Vec::new();
    for device in &chosen.devices {
        let Some((slice, record)) = state.devices.device(&device.pool, &device.slice, &device.device) else {
            continue;
        };
        let alternative = alternative_of(requested, device);
        allocation.devices.results.push(DeviceRequestAllocationResult {
            request: alternative.full_name.to_string(),
            driver: device.pool.driver.to_string(),
            pool: device.pool.pool.to_string(),
            device: device.device.to_string(),
            admin_access: alternative.admin_access.then_some(true),
            tolerations: alternative.written_tolerations.clone(),
            binding_conditions: record.binding_conditions.to_vec(),
            binding_failure_conditions: record.binding_failure_conditions.to_vec(),
            share_id: device.share.is_some().then(|| {
                *n_shares += 1;
                format!("share-{n_shares}")
            }),
            consumed_capacity: device.share.clone().unwrap_or_default(),
        });
        places.push((slice, record));
    }
    allocation.devices.config = config(requested, chosen, state.settings.config.feature_gates);
    allocation.node_selector = node_selector(node, &places);
    allocation
}

impl NodeDevices {
    /// The devices that were chosen for a pod, as they count when they are allocated.
    pub(super) fn allocated(&self, pod: &CycleDevices) -> Vec<AllocatedDevice> {
        let extended = self.extended.iter().map(|(requested, _)| requested);
        let claims = pod.rules.unallocated.iter().chain(extended).zip(&self.chosen);
        let of_claim = |(requested, chosen): (&Requested, &ChosenClaim)| {
            let allocated = |device: &Chosen| AllocatedDevice {
                pool: device.pool.clone(),
                device: device.device.clone(),
                alternative: None,
                is_admin: alternative_of(requested, device).admin_access,
                share: device.share.clone(),
            };
            chosen.devices.iter().map(allocated).collect::<Vec<_>>()
        };
        claims.flat_map(of_claim).collect()
    }
}

fn alternative_of<'a>(requested: &'a Requested, device: &Chosen) -> &'a Alternative {
    &requested.spec.requests[device.request].alternatives[device.alternative]
}

/// The configuration of the classes of the requests, each class once, then that of the claim for what was chosen.
fn config(
    requested: &Requested,
    chosen: &ChosenClaim,
    gates: FeatureGates,
) -> Vec<DeviceAllocationConfiguration> {
    let requests = &requested.spec.requests;
    let mut config: Vec<DeviceAllocationConfiguration> = Vec::new();
    let entry = |source: &str, requests: Vec<String>, config: &DeviceConfiguration| {
        DeviceAllocationConfiguration { source: source.to_owned(), requests, opaque: config.opaque.clone() }
    };
    // The number of requests that names of requests and alternatives concern, as they are chosen.
    let n_concerned = |names: &[String]| {
        let is_named = |name: &str| names.iter().any(|named| named == name);
        let is_concerned = |(request, alternative): &(&ClaimRequest, &usize)| {
            let chosen = request.alternatives.get(**alternative).filter(|_| request.is_prioritized);
            is_named(&request.name) || chosen.is_some_and(|chosen| is_named(&chosen.full_name))
        };
        requests.iter().zip(&chosen.alternatives).filter(is_concerned).count()
    };
    let mut first = 0;
    let mut of_class: HashMap<&str, std::ops::Range<usize>> = HashMap::new();
    for (request, alternative) in requests.iter().zip(&chosen.alternatives) {
        let class: Option<&ClassRecord> = requested.classes.get(first + alternative).map(|class| &**class);
        first += request.alternatives.len();
        let (Some(class), Some(alternative)) = (class, request.alternatives.get(*alternative)) else {
            continue;
        };
        let name = alternative.full_name.to_string();
        match of_class.get(&*class.name) {
            Some(range) => {
                config[range.clone()].iter_mut().for_each(|config| config.requests.push(name.clone()))
            }
            None => {
                let start = config.len();
                config.extend(class.config.iter().map(|of| entry("FromClass", vec![name.clone()], of)));
                of_class.insert(&class.name, start..config.len());
            }
        }
    }
    for own in &requested.spec.source.devices.config {
        if own.requests.is_empty() {
            config.push(entry("FromClaim", Vec::new(), own));
            continue;
        }
        let most = if gates.has(VersionChange::ConfigOfAllRequests) { 1 } else { usize::MAX };
        let n_entries = n_concerned(&own.requests).min(most);
        config.extend((0..n_entries).map(|_| entry("FromClaim", own.requests.clone(), own)));
    }
    if gates.has(VersionChange::ConfigOfAllRequests) {
        for config in &mut config {
            if n_concerned(&config.requests) == requests.len() {
                config.requests.clear();
            }
        }
    }
    config
}

/// The nodes that can use all of some devices; none for all nodes.
fn node_selector(node: &str, places: &[(&SliceRecord, &DeviceRecord)]) -> Option<NodeSelector> {
    let mut term = NodeSelectorTerm::default();
    for (slice, device) in places {
        let scope = if slice.scope == NodeScope::PerDevice { &device.scope } else { &slice.scope };
        match scope {
            _ if device.binds_to_node => return Some(only(node)),
            NodeScope::Node(_) => return Some(only(node)),
            NodeScope::SelectedNode(name) => add_new(&[named(name)], &mut term.match_fields),
            NodeScope::Selected { selector, .. } => {
                if let [of_device] = &*selector.node_selector_terms {
                    add_new(&of_device.match_fields, &mut term.match_fields);
                    add_new(&of_device.match_expressions, &mut term.match_expressions);
                }
            }
            NodeScope::All | NodeScope::PerDevice | NodeScope::None => {}
        }
    }
    let is_empty = term.match_fields.is_empty() && term.match_expressions.is_empty();
    (!is_empty).then(|| of_term(term))
}

fn add_new(from: &[SelectorRequirement], to: &mut Vec<SelectorRequirement>) {
    for requirement in from {
        let values = |requirement: &SelectorRequirement| -> BTreeSet<String> {
            requirement.values.iter().cloned().collect()
        };
        let is_like = |other: &SelectorRequirement| {
            (&other.key, &other.operator) == (&requirement.key, &requirement.operator)
                && values(other) == values(requirement)
        };
        if !to.iter().any(is_like) {
            to.push(requirement.clone());
        }
    }
}

fn only(node: &str) -> NodeSelector {
    of_term(NodeSelectorTerm { match_fields: vec![named(node)], ..NodeSelectorTerm::default() })
}

fn named(node: &str) -> SelectorRequirement {
    let (key, operator) = ("metadata.name".to_owned(), "In".to_owned());
    SelectorRequirement { key, operator, values: vec![node.to_owned()] }
}

fn of_term(term: NodeSelectorTerm) -> NodeSelector {
    NodeSelector { node_selector_terms: vec![term], ..NodeSelector::default() }
}
