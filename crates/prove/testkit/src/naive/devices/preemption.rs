//! Preemption for devices, an extension of Berth (docs/devices.md): a claim that no pod uses any more loses its devices, and
//! nominated pods get theirs first.

use berth_api::object::device::{
    AllocationResult, DeviceObject, ResourceClaim, ResourceClaimConsumerReference,
};
use berth_api::object::{Node, Pod};

use super::super::{Question, World, is_preempted};
use super::{Devices, allocation_on};

/// Whether the profile has the extension, and it is enabled.
pub fn is_enabled(q: Question) -> bool {
    q.profile.dynamic_resources.preempt_for_devices && q.options.extensions
}

/// The devices as the pod finds them on a node: preemption has taken pods off, and nominated pods were added to the node.
pub fn found_on(q: Question, node: &Node) -> Devices {
    let devices = &q.world.devices;
    if !is_enabled(q) {
        return devices.clone();
    }
    let removed: Vec<&Pod> = q.cycle.pods.iter().filter(|pod| !q.world.pods.contains(pod)).collect();
    let mut nominated: Vec<&Pod> = q.world.pods.iter().filter(|pod| !q.cycle.pods.contains(pod)).collect();
    nominated.sort_by_key(|pod| (-pod.spec.priority.unwrap_or(0), pod.metadata.namespaced_name()));
    let mut reserved: Vec<AllocationResult> = Vec::new();
    for pod in nominated {
        let of_nominated = Question { pod, world: q.cycle, ..q };
        if super::pre_filter(of_nominated).is_err() {
            continue;
        }
        let ends = |pod: &&Pod| pod.spec.node_name == node.metadata.name && is_preempted(pod);
        let ending: Vec<&Pod> = q.cycle.pods.iter().filter(ends).chain(removed.iter().copied()).collect();
        let is_here = |consumer: &ResourceClaimConsumerReference, claim: &ResourceClaim| {
            q.cycle.pods.iter().any(|pod| !pod.spec.node_name.is_empty() && is_pod(consumer, claim, pod))
        };
        let is_ending = |consumer: &ResourceClaimConsumerReference, claim: &ResourceClaim| {
            ending.iter().any(|pod| is_pod(consumer, claim, pod))
        };
        let soon = without(of_nominated, &is_ending);
        let later = without(of_nominated, &|consumer, claim| {
            is_ending(consumer, claim) || (consumer.resource == "pods" && !is_here(consumer, claim))
        });
        let found = [soon, later].into_iter().find_map(|mut devices| {
            reserved.iter().for_each(|allocation| reserve(&mut devices, allocation));
            allocation_on(of_nominated, &devices, node).ok()
        });
        reserved.extend(found.into_iter().flatten());
    }
    let mut devices = without(q, &|consumer, claim| removed.iter().any(|pod| is_pod(consumer, claim, pod)));
    reserved.iter().for_each(|allocation| reserve(&mut devices, allocation));
    devices
}

/// The world once claims are deallocated whose pods are gone.
pub fn without_gone(q: Question) -> World {
    let gone = |consumer: &ResourceClaimConsumerReference, claim: &ResourceClaim| {
        let mut here = q.world.pods.iter().filter(|pod| !pod.spec.node_name.is_empty());
        consumer.resource == "pods" && !here.any(|pod| is_pod(consumer, claim, pod))
    };
    World { devices: without(q, &gone), ..q.world.clone() }
}

fn is_pod(consumer: &ResourceClaimConsumerReference, claim: &ResourceClaim, pod: &Pod) -> bool {
    consumer.resource == "pods"
        && pod.metadata.namespace == claim.metadata.namespace
        && (&pod.metadata.name, &pod.metadata.uid) == (&consumer.name, &consumer.uid)
}

/// The devices when consumers are gone: claims that nothing else uses are not allocated, except those of the pod itself.
fn without(q: Question, goes: &dyn Fn(&ResourceClaimConsumerReference, &ResourceClaim) -> bool) -> Devices {
    let own: Vec<_> =
        super::claims(q).into_iter().flatten().map(|c| c.claim.metadata.namespaced_name()).collect();
    let mut devices = q.world.devices.clone();
    for object in &mut devices.objects {
        let DeviceObject::ResourceClaim(claim) = object else { continue };
        let consumers = &claim.status.reserved_for;
        let is_own = own.contains(&claim.metadata.namespaced_name());
        if !is_own && !consumers.is_empty() && consumers.iter().all(|consumer| goes(consumer, claim)) {
            claim.status.allocation = None;
            claim.status.reserved_for.clear();
        }
    }
    devices
}

/// Adds a claim with this allocation.
fn reserve(devices: &mut Devices, allocation: &AllocationResult) {
    let mut claim = ResourceClaim::default();
    claim.metadata.name = format!("reserved-{}", devices.objects.len());
    claim.status.allocation = Some(allocation.clone());
    devices.objects.push(DeviceObject::ResourceClaim(Box::new(claim)));
}
