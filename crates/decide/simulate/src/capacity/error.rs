//! Why the capacity cannot be found.

use berth_control::expand::ExpandError;

use super::price::PRICE_ANNOTATION;
use super::read_label::ReadLabel;
use crate::simulation::SimulationError;
use crate::what_if::ChangeError;

/// Why the capacity cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum CapacityError {
    /// The objects are not valid.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A workload cannot be expanded.
    #[error(transparent)]
    Expand(#[from] ExpandError),
    /// The workload or the node does not exist, or has no replicas.
    #[error(transparent)]
    Subject(#[from] ChangeError),
    /// The price of a node type is not a number.
    #[error(
        "Node {node}: metadata.annotations[{PRICE_ANNOTATION}]: must be a price such as 0.40, not `{price}`"
    )]
    Price {
        /// The node type.
        node: String,
        /// The annotation.
        price: String,
    },
    /// New nodes of the type would escape a rule.
    #[error(
        "Node {node}: metadata.labels has no {}, which {} reads: add the label to the node type, or {}",
        .label.key,
        .label.term,
        if *.is_zone { "give the number of zones with --zones" } else { "give the key with --topology-key" }
    )]
    NoLabel {
        /// The node type.
        node: String,
        /// The missing label.
        label: ReadLabel,
        /// Whether it is that of the zone.
        is_zone: bool,
    },
}
