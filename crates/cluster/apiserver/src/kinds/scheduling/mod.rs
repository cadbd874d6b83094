//! Priorities, pod groups and devices.

mod device;
pub mod group_forms;
mod groups;
mod pod_group;
mod priority_class;
mod workload;

use berth_schema::resource::*;

pub use self::device::names::validate_declared_driver;
pub use self::groups::{CONSTRAINTS, DISRUPTION, claims};
use crate::kinds::kind::{NoRules, kinds};
use crate::kinds::prelude::*;

kinds! {
    DEVICE_CLASSES: device::CLASS, &[NAME, AGE], has_generation: true;
    DEVICE_TAINT_RULES: device::TAINT_RULE, device::TAINT_RULE_COLUMNS, has_generation: true, needs_version: true;
    RESOURCE_CLAIMS: device::CLAIM, device::CLAIM_COLUMNS;
    RESOURCE_CLAIM_TEMPLATES: device::CLAIM_TEMPLATE, &[NAME, AGE];
    RESOURCE_SLICES: device::Slice, device::SLICE_COLUMNS, has_generation: true;
    PRIORITY_CLASSES: priority_class::PriorityClass, priority_class::COLUMNS;
    COMPOSITE_POD_GROUPS: groups::GROUPS, pod_group::COMPOSITE_COLUMNS, needs_version: true;
    POD_GROUPS: NoRules, pod_group::COLUMNS, needs_version: true;
    POD_GROUPS_V1ALPHA3: NoRules, pod_group::COLUMNS, needs_version: true;
    POD_GROUPS_V1BETA1: groups::PODS, pod_group::COLUMNS, needs_version: true;
    WORKLOADS: NoRules, &[NAME, AGE], needs_version: true;
    WORKLOADS_V1ALPHA3: NoRules, &[NAME, AGE], needs_version: true;
    WORKLOADS_V1BETA1: groups::Workload, &[NAME, AGE], needs_version: true;
}
