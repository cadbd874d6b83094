//! Extended resources that device classes provide (KEP-5004): the claim that the scheduler makes for them.

use berth_api::object::device::{DeviceRequest, ExactDeviceRequest, ExtendedResourceClaim, ResourceClaim};
use berth_api::object::{Container, ContainerExtendedResourceRequest, Node};

use super::super::Question;
use super::super::requests::allocatable;
use super::Devices;

/// Every class has an extended resource with this prefix.
const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/";

/// The class that provides an extended resource.
fn class_of<'a>(devices: &'a Devices, resource: &str) -> Option<&'a str> {
    let provides = devices.classes().filter(|c| c.spec.extended_resource_name.as_deref() == Some(resource));
    // The youngest one, and the first by name of those.
    let explicit = provides.min_by_key(|class| {
        let made = class.metadata.creation_timestamp.map_or(i64::MIN, |t| t.as_second());
        (std::cmp::Reverse(made), &class.metadata.name)
    });
    let implicit = || resource.strip_prefix(IMPLICIT).and_then(|name| devices.class(name));
    explicit.or_else(implicit).map(|class| class.metadata.name.as_str())
}

/// Whether a node gets an extended resource from devices, and not from a device plugin.
pub fn is_of_devices(q: Question, node: &Node, resource: &str) -> bool {
    allocatable(node, resource).unwrap_or(0) == 0 && class_of(&q.world.devices, resource).is_some()
}

fn containers(q: Question<'_>) -> impl Iterator<Item = &Container> {
    q.pod.spec.init_containers.iter().chain(&q.pod.spec.containers)
}

/// Whether the pod requests an extended resource that a class provides.
pub fn is_wanted(q: Question) -> bool {
    containers(q)
        .flat_map(|container| &container.resources.requests)
        .any(|(resource, amount)| amount.units() > 0 && class_of(&q.world.devices, resource).is_some())
}

/// Whether an earlier attempt left a claim for the pod's extended resources.
pub fn has_claim_left_over(q: Question) -> bool {
    is_wanted(q)
        && q.world.devices.claims().any(|claim| {
            claim.metadata.namespace == q.pod.metadata.namespace
                && claim.is_for_extended_resources()
                && claim.metadata.is_controlled_by(&q.pod.metadata.uid)
        })
}

/// The claim for the extended resources that are devices on this node.
pub fn claim(q: Question, node: &Node) -> Option<(ResourceClaim, ExtendedResourceClaim)> {
    // Container, its index, the index of the resource among its requests, resource and amount.
    let mut wanted = Vec::new();
    for (i, container) in containers(q).enumerate() {
        for (j, (resource, amount)) in container.resources.requests.iter().enumerate() {
            if amount.units() > 0 && is_of_devices(q, node, resource) {
                wanted.push((container, i, j, resource, amount.units()));
            }
        }
    }
    let n_init = q.pod.spec.init_containers.len();
    let ends_early = |container: &Container, i: usize| i < n_init && !container.is_sidecar();
    let mut extended = ExtendedResourceClaim::default();
    let mapping = |container: &Container, resource: &str, request: String| ContainerExtendedResourceRequest {
        container_name: container.name.clone(),
        resource_name: resource.to_owned(),
        request_name: request,
    };
    let name = |i: usize, j: usize| format!("container-{i}-request-{j}");
    let mut requests = Vec::new();
    for &(container, i, j, resource, n) in wanted.iter().filter(|w| !ends_early(w.0, w.1)) {
        requests.push((i, j, resource, n));
        extended.mappings.push(mapping(container, resource, name(i, j)));
    }
    // An init container uses devices of the containers after it, and has its own for the rest.
    for &(container, i, j, resource, n) in wanted.iter().filter(|w| ends_early(w.0, w.1)) {
        let mut n_missing = n;
        for &(later, its, of, n) in requests.iter().filter(|r| r.0 > i && r.2 == resource) {
            if n_missing > 0 {
                extended.mappings.push(mapping(container, of, name(later, its)));
                n_missing -= n;
            }
        }
        if n_missing > 0 {
            requests.push((i, j, resource, n_missing));
            extended.mappings.push(mapping(container, resource, name(i, j)));
        }
    }
    requests.sort();
    for (i, j, resource, count) in requests {
        let class = class_of(&q.world.devices, resource).unwrap_or_default();
        let exactly = ExactDeviceRequest {
            device_class_name: class.to_owned(),
            allocation_mode: "ExactCount".to_owned(),
            count,
            ..ExactDeviceRequest::default()
        };
        let request = DeviceRequest { name: name(i, j), exactly: Some(exactly), ..DeviceRequest::default() };
        extended.requests.push(request);
    }
    if extended.requests.is_empty() {
        return None;
    }
    let mut claim = ResourceClaim::default();
    claim.metadata.namespace.clone_from(&q.pod.metadata.namespace);
    claim.metadata.name = "<extended-resources>".to_owned();
    claim.spec.devices.requests.clone_from(&extended.requests);
    Some((claim, extended))
}
