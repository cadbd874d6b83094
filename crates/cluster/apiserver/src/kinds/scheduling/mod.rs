//! Priorities, pod groups and devices.

mod composite_pod_group;
mod device;
mod pod_group;
mod priority_class;
mod workload;

use berth_schema::resource::*;

pub use self::pod_group::validate_union;
use crate::kinds::kind::{NoRules, kinds};
use crate::kinds::prelude::*;

kinds! {
    DEVICE_CLASSES: device::CLASS, &[NAME, AGE], has_generation: true;
    DEVICE_TAINT_RULES: device::TAINT_RULE, &[NAME, AGE], has_generation: true;
    RESOURCE_CLAIMS: device::CLAIM, device::CLAIM_COLUMNS;
    RESOURCE_CLAIM_TEMPLATES: device::CLAIM_TEMPLATE, &[NAME, AGE];
    RESOURCE_SLICES: device::Slice, device::SLICE_COLUMNS, has_generation: true;
    PRIORITY_CLASSES: priority_class::PriorityClass, priority_class::COLUMNS;
    COMPOSITE_POD_GROUPS: composite_pod_group::COMPOSITE_POD_GROUP, composite_pod_group::COLUMNS, has_generation: true, needs_version: true;
    POD_GROUPS: pod_group::POD_GROUP, pod_group::COLUMNS, needs_version: true;
    POD_GROUPS_V1BETA1: NoRules, pod_group::COLUMNS, needs_version: true;
    WORKLOADS: workload::WORKLOAD, DEFAULT, needs_version: true;
    WORKLOADS_V1BETA1: NoRules, DEFAULT, needs_version: true;
}
