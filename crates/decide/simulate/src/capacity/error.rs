//! Why the capacity cannot be found.

use berth_control::expand::ExpandError;

use super::price::PRICE_ANNOTATION;
use super::read_label::ReadLabel;
use crate::simulation::SimulationError;
use crate::what_if::ChangeError;

/// Why the capacity cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum CapacityError {
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    #[error(transparent)]
    Expand(#[from] ExpandError),
    /// The workload or the node does not exist, or has no replicas.
    #[error(transparent)]
    Subject(#[from] ChangeError),
    #[error(
        "Node {node}: metadata.annotations[{PRICE_ANNOTATION}]: must be a price such as 0.40, not `{price}`"
    )]
    Price { node: String, price: String },
    #[error(
        "Node {node}: metadata.labels has no {}, which {} reads: add the label to the node type, or {}",
        .label.key,
        .label.term,
        if *.is_zone { "give the number of zones with --zones" } else { "give the key with --topology-key" }
    )]
    NoLabel { node: String, label: ReadLabel, is_zone: bool },
}
