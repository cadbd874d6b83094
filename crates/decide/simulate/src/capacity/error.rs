//! Why the capacity cannot be found.

use berth_api::expand::ExpandError;

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
}
