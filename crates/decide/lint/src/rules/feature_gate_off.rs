//! Fields of devices and of pod groups that need a feature gate which is off.

use std::collections::HashSet;

use berth_api::object::device::DeviceObject;

use crate::devices::linted;
use crate::finding::Findings;
use crate::input::LintInput;
use crate::severity::Severity;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let gates = input.settings.config.feature_gates;
    if !gates.dra_workload_resource_claims {
        let groups = input.inventory.pod_groups.iter();
        let with_claims = groups.filter(|entry| !entry.object.spec.resource_claims.is_empty());
        let orders: HashSet<usize> = with_claims.map(|entry| entry.order).collect();
        for object in input.objects.iter().filter(|object| orders.contains(&object.order)) {
            let message =
                "the pods of the group stay pending without the feature gate DRAWorkloadResourceClaims";
            findings.add(object, "spec.resourceClaims".to_owned(), message);
        }
    }
    if !gates.dra_node_allocatable_resources {
        for (object, typed) in linted(input) {
            let DeviceObject::ResourceSlice(slice) = typed else { continue };
            let mut devices = slice.spec.devices.iter();
            let Some(i) = devices.position(|of| !of.node_allocatable_resource_mappings.is_empty()) else {
                continue;
            };
            let path = format!("spec.devices[{i}].nodeAllocatableResourceMappings");
            let message = "without the feature gate DRANodeAllocatableResources, devices take nothing of the allocatable \
                           resources of their node: it can be overcommitted";
            findings.add(object, path, message).severity(Severity::Warning);
        }
    }
}
