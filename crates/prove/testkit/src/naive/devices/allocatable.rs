//! Devices that take allocatable resources of their node (KEP-5517, as of Kubernetes 1.36).

use std::collections::BTreeMap;

use berth_api::object::device::{AllocationResult, Device, DeviceRequestAllocationResult, ResourceClaim};
use berth_api::object::{Container, Node, NodeAllocatableResourceClaimStatus, Pod, ResourceList};
use berth_api::syntax::quantity::Quantity;

use super::super::requests::{allocatable, amount, is_pod_level_resource, pod_requests, taken_by};
use super::super::resources_fit::requested;
use super::super::{Code, Question};
use super::PodClaim;

fn is_enabled(q: Question) -> bool {
    q.options.feature_gates.dra_node_allocatable_resources
}

/// A claim that another pod on the node takes of it with cannot be shared.
pub(super) fn shared(q: Question, node: &Node, claims: &[PodClaim]) -> Option<String> {
    let is_reserved_for_others = |claim: &ResourceClaim| {
        claim.status.reserved_for.iter().any(|consumer| consumer.uid != q.pod.metadata.uid)
    };
    let mut claims = claims.iter().map(|c| c.claim).filter(|c| is_enabled(q) && is_reserved_for_others(c));
    claims.find_map(|claim| {
        let takes = |pod: &&Pod| {
            let mut statuses = pod.status.node_allocatable_resource_claim_statuses.iter();
            pod.metadata.namespace == claim.metadata.namespace
                && pod.metadata.uid != q.pod.metadata.uid
                && statuses.any(|status| status.resource_claim_name == claim.metadata.name)
        };
        let name = &claim.metadata.name;
        match q.pods_on(node).filter(takes).count() {
            0 => None,
            1 => Some(format!("node allocatable resource claim {name} is already used by another pod")),
            _ => Some(format!("node allocatable resource claim {name} shared by multiple pods")),
        }
    })
}

/// What is to be written to the status of the pod; an error if the pod does not fit with it.
pub(super) fn taken(
    q: Question,
    node: &Node,
    claims: &[(&ResourceClaim, &AllocationResult)],
) -> Result<Vec<NodeAllocatableResourceClaimStatus>, (Code, Vec<String>)> {
    if !is_enabled(q) {
        return Ok(Vec::new());
    }
    // Of a claim that the pod names twice, the last counts.
    let by_name: BTreeMap<&str, _> = claims.iter().map(|of| (of.0.metadata.name.as_str(), of)).collect();
    let mut statuses = BTreeMap::new();
    for (claim, allocation) in by_name.into_values() {
        let claim_name = claim.metadata.namespaced_name();
        let resources = taken_by_claim(q, allocation).map_err(|error| {
            let error = format!("running \"DynamicResources\" filter plugin: claim {claim_name}, {error}");
            (Code::Error, vec![error])
        })?;
        if !resources.is_empty() {
            let resource_claim_name = claim.metadata.name.clone();
            let containers = containers(q, claim);
            let status = NodeAllocatableResourceClaimStatus { resource_claim_name, containers, resources };
            statuses.insert(claim.metadata.name.clone(), status);
        }
    }
    let unresolvable = |reason: String| Err((Code::UnschedulableAndUnresolvable, vec![reason]));
    if let Some((name, _)) = statuses.iter().find(|(_, status)| status.containers.is_empty()) {
        return unresolvable(format!(
            "claim {name}: node-allocatable resource claim not referenced by any container within the pod"
        ));
    }
    if statuses.is_empty() {
        return Ok(Vec::new());
    }
    let mut with_status = q.pod.clone();
    let written: Vec<_> = statuses.into_values().collect();
    with_status.status.node_allocatable_resource_claim_statuses = written.clone().into();
    let of_pod = q.pod.spec.resources.as_ref().map(|r| r.requests.clone()).unwrap_or_default();
    let mut without_budget = with_status.clone();
    without_budget.spec.resources = None;
    let of_spec = |pod: &Pod| {
        let pod = Pod { status: Default::default(), ..pod.clone() };
        pod_requests(&pod, &ResourceList::new(), q.options.feature_gates.version)
    };
    let (of_containers, of_budget) = (of_spec(&without_budget), of_spec(q.pod));
    for name in of_pod.keys().filter(|name| is_pod_level_resource(name)) {
        let of = |list: &ResourceList| list.get(name).copied().unwrap_or_default();
        if of(&of_containers) + taken_by(q, &without_budget, name) > of(&of_budget) {
            return unresolvable(format!(
                "pod level request for {name} is insufficient to cover the aggregated container and node-allocatable DRA requests"
            ));
        }
    }
    let (mut reasons, mut is_too_large) = (Vec::new(), false);
    for name in ["cpu", "memory", "ephemeral-storage"] {
        let mut all = pod_requests(q.pod, &ResourceList::new(), q.options.feature_gates.version);
        *all.entry(name.to_owned()).or_default() += taken_by(q, &with_status, name);
        let (wanted, has) = (amount(&all, name), allocatable(node, name).unwrap_or(0));
        if wanted > 0 && wanted > has.saturating_sub(requested(q, node, name)) {
            reasons.push(format!("Insufficient {name}"));
            is_too_large |= wanted > has;
        }
    }
    match (reasons.is_empty(), is_too_large) {
        (true, _) => Ok(written),
        (false, true) => Err((Code::UnschedulableAndUnresolvable, reasons)),
        (false, false) => Err((Code::Unschedulable, reasons)),
    }
}

/// The containers that use a claim, init containers first.
fn containers(q: Question, claim: &ResourceClaim) -> Vec<String> {
    let made = &q.pod.status.resource_claim_statuses;
    let name_of = |entry: &str| {
        let named = q.pod.spec.resource_claims.iter().find(|of| of.name == entry)?;
        let made = made.iter().find(|status| status.name == entry);
        named.resource_claim_name.as_ref().or_else(|| made?.resource_claim_name.as_ref())
    };
    let uses = |container: &&Container| {
        container.resources.claims.iter().any(|used| name_of(&used.name) == Some(&claim.metadata.name))
    };
    let all = q.pod.spec.init_containers.iter().chain(&q.pod.spec.containers);
    all.filter(uses).map(|container| container.name.clone()).collect()
}

/// What the devices of a claim take; nothing if none of them takes anything.
fn taken_by_claim(q: Question, allocation: &AllocationResult) -> Result<ResourceList, String> {
    let device = |result: &DeviceRequestAllocationResult| -> Option<&Device> {
        let of_pool = |spec: &&berth_api::object::device::ResourceSliceSpec| {
            spec.driver == result.driver && spec.pool.name == result.pool
        };
        let specs = q.world.devices.slices().map(|slice| &slice.spec).filter(of_pool);
        specs.flat_map(|spec| &spec.devices).find(|device| device.name == result.device)
    };
    let results = &allocation.devices.results;
    let takes = |device: &Device| !device.node_allocatable_resource_mappings.is_empty();
    let mut sums = ResourceList::new();
    if !results.iter().filter_map(device).any(takes) {
        return Ok(sums);
    }
    for result in results {
        let DeviceRequestAllocationResult { driver, pool, device: name, .. } = result;
        let device = device(result).ok_or_else(|| {
            format!(
                "device {name}, driver {driver}: device {name} not found in pool {pool} for driver {driver}"
            )
        })?;
        for (name, mapping) in &device.node_allocatable_resource_mappings {
            let unit = mapping.allocation_multiplier.unwrap_or(Quantity::from_units(1));
            let amount = match &mapping.capacity_key {
                None => unit,
                Some(key) if result.consumed_capacity.is_empty() => {
                    return Err(format!(
                        "device {}: ConsumedCapacity is nil, but Capacity key '{key}' is set in \
                         NodeAllocatableResourceMappings for resource {name}",
                        device.name
                    ));
                }
                Some(key) => match result.consumed_capacity.get(key) {
                    Some(consumed) => *consumed * unit,
                    None => continue,
                },
            };
            *sums.entry(name.clone()).or_default() += amount;
        }
    }
    Ok(sums)
}
