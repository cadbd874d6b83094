//! Extended resources that devices provide: the claim that a node needs for them.

use std::sync::Arc;

use berth_api::object::device::{
    ALLOCATION_MODE_EXACT_COUNT, DeviceRequest, ExactDeviceRequest, ResourceClaimSpec,
};
use berth_api::object::{ContainerExtendedResourceRequest, NamespacedName};

use super::{CycleDevices, ExtendedResource, Requested};
use crate::state::State;
use crate::state::device::{ClaimSpec, ClassRecord, ContainerResources};
use crate::state::node::NodeRecord;

pub(crate) type Mappings = Vec<ContainerExtendedResourceRequest>;

impl CycleDevices {
    /// The claim for the extended resources that the node does not have itself, but devices provide. Also without such a
    /// resource, if the pod has other claims and extended resources that devices provide elsewhere: kube-scheduler then fails
    /// to write it.
    pub(crate) fn extended_on(&self, state: &State, node: &NodeRecord) -> Option<(Requested, Mappings)> {
        if self.rules.extended.is_empty() {
            return None;
        }
        let is_own = |resource: &&ExtendedResource| {
            let name = state.symbols.get(&resource.name);
            name.and_then(|name| node.allocatable.resources.scalar(name)).is_some_and(|amount| amount != 0)
        };
        let needed: Vec<_> = self.rules.extended.iter().filter(|resource| !is_own(resource)).collect();
        if needed.is_empty() && self.claims.is_empty() {
            return None;
        }
        let mut requests: Vec<(ExtendedRequest, &Arc<ClassRecord>)> = Vec::new();
        let mut mappings = Vec::new();
        for resource in needed {
            let (of_resource, mapped) = requests_for(&self.pod.containers, &resource.name);
            requests.extend(of_resource.into_iter().map(|request| (request, &resource.class)));
            mappings.extend(mapped);
        }
        requests.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        let (written, classes): (Vec<_>, Vec<_>) =
            requests.into_iter().map(|(request, class)| (request.written(class), class.clone())).unzip();
        let mut source = ResourceClaimSpec::default();
        source.devices.requests = written;
        let spec = ClaimSpec::of_requests(source);
        let claim = NamespacedName::new(self.pod.pod.namespace(), "<extended-resources>");
        Some((Requested { claim, spec: Arc::new(spec), classes: classes.into() }, mappings))
    }
}

/// A request for devices in the place of an extended resource.
#[derive(Clone)]
struct ExtendedRequest {
    name: String,
    count: i64,
}

impl ExtendedRequest {
    fn written(&self, class: &ClassRecord) -> DeviceRequest {
        let exactly = ExactDeviceRequest {
            device_class_name: class.name.to_string(),
            allocation_mode: ALLOCATION_MODE_EXACT_COUNT.to_owned(),
            count: self.count,
            ..ExactDeviceRequest::default()
        };
        DeviceRequest { name: self.name.clone(), exactly: Some(exactly), first_available: Vec::new() }
    }
}

/// The requests for a resource, and the containers that use them. Init containers use the devices of containers that start
/// later, and share one request for what they need beyond these.
fn requests_for(containers: &[ContainerResources], resource: &str) -> (Vec<ExtendedRequest>, Mappings) {
    let mapping = |container: &ContainerResources, request: &str| ContainerExtendedResourceRequest {
        container_name: container.name.to_string(),
        resource_name: resource.to_owned(),
        request_name: request.to_owned(),
    };
    // The name of the request of a container, and the amount.
    let own = |i: usize, container: &ContainerResources| {
        let place = container.requests.iter().position(|(name, _)| **name == *resource)?;
        let amount = container.requests[place].1.filter(|amount| *amount != 0)?;
        Some((format!("container-{i}-request-{place}"), amount))
    };
    let mut long_lived: Vec<Option<ExtendedRequest>> = vec![None; containers.len()];
    let mut mappings = Vec::new();
    for (i, container) in containers.iter().enumerate().filter(|(_, c)| !c.is_short_lived) {
        if let Some((name, count)) = own(i, container) {
            mappings.push(mapping(container, &name));
            long_lived[i] = Some(ExtendedRequest { name, count });
        }
    }
    let mut largest: Option<ExtendedRequest> = None;
    let mut short_lived: Vec<(ContainerExtendedResourceRequest, bool)> = Vec::new();
    for (i, container) in containers.iter().enumerate().filter(|(_, c)| c.is_short_lived) {
        let Some((name, amount)) = own(i, container) else { continue };
        let mut found = 0;
        for later in long_lived[i..].iter().flatten() {
            if found >= amount {
                break;
            }
            found += later.count;
            short_lived.push((mapping(container, &later.name), false));
        }
        if found < amount {
            short_lived.push((mapping(container, &name), true));
            let request = ExtendedRequest { name, count: amount - found };
            if largest.as_ref().is_none_or(|largest| largest.count < request.count) {
                largest = Some(request);
            }
        }
    }
    if let Some(largest) = &largest {
        for (mapping, _) in short_lived.iter_mut().filter(|(_, is_own)| *is_own) {
            mapping.request_name.clone_from(&largest.name);
        }
    }
    mappings.extend(short_lived.into_iter().map(|(mapping, _)| mapping));
    (largest.into_iter().chain(long_lived.into_iter().flatten()).collect(), mappings)
}
