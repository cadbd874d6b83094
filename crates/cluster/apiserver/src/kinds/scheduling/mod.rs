//! Priorities, pod groups and devices.

mod device;
mod pod_group;
mod priority_class;

use berth_schema::resource::*;

use crate::kinds::kind::kinds;
use crate::table::columns::{DEFAULT, NAME_AND_AGE};

kinds! {
    DEVICE_CLASSES: device::CLASS, NAME_AND_AGE;
    RESOURCE_CLAIMS: device::CLAIM, device::CLAIM_COLUMNS;
    RESOURCE_CLAIM_TEMPLATES: device::CLAIM_TEMPLATE, NAME_AND_AGE;
    RESOURCE_SLICES: device::SLICE, device::SLICE_COLUMNS, with_generation;
    PRIORITY_CLASSES: priority_class::PriorityClass, priority_class::COLUMNS;
    POD_GROUPS: pod_group::POD_GROUP, pod_group::COLUMNS;
    WORKLOADS: pod_group::WORKLOAD, DEFAULT;
}
