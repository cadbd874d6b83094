//! The rules of placement: one folder and one line in the [`registry`] for each.
//!
//! docs/add-a-rule.md says how to add one.

mod dynamic_resources;
mod feasibility;
mod hints;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_resources_balanced_allocation;
mod node_resources_fit;
mod node_unschedulable;
mod node_volume_limits;
mod pod_topology_spread;
mod registry;
mod rule;
mod taint_toleration;
#[cfg(test)]
mod tests;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;
mod volumes;

pub(crate) use hints::{Hints, QueueingHint};
pub(crate) use image_locality::images_in_use;
pub(crate) use inter_pod_affinity::{
    REASON_AFFINITY, REASON_ANTI_AFFINITY, rejects, requires, requires_together,
    view as inter_pod_affinity_view,
};
pub(crate) use node_affinity::required_verdict as node_affinity_verdict;
pub(crate) use node_resources_fit::{is_extended_resource, placement};
pub(crate) use pod_topology_spread::{HardConstraints, view as pod_topology_spread_view};
pub use registry::reads_volumes;
pub(crate) use registry::{
    Filters, N_RAW_SCORES, RAW_SCORES, Weighted, filter, filtering, filters, filters_of, fit_a_view,
    pre_filter, rule, scorers,
};
pub(crate) use rule::{Filter, PreFilter, Reads, Scorer};
pub(crate) use taint_toleration::tolerate;
pub(crate) use volumes::volume_hint;
