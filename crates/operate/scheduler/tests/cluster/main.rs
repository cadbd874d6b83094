//! The scheduler against an API server: bindings, events and conditions, and server failures.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod composite_groups;
mod devices;
mod devices_faults;
mod devices_of_groups;
mod devices_of_nodes;
mod devices_preempting;
mod events;
mod faults;
mod groups_preempting;
mod groups_recorded;
mod leaders;
mod placing;
mod pod_groups;
mod preempting;
mod preempting_across_nodes;
mod relaxing;
mod resizes;
mod serving;
mod support;
mod volumes;
mod waiting;
