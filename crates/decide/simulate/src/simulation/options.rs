//! The options of a simulation.

use core::time::Duration;

use berth_api::object::Pod;
use berth_api::simulated_nodes::SimulatedNodes;
use berth_engine::Settings;
use jiff::Timestamp;

#[derive(Clone, Debug, Default)]
pub struct SimulationOptions {
    pub settings: Settings,
    /// Nodes of the cluster if the inventory has none.
    pub simulated_nodes: Option<SimulatedNodes>,
    /// How long pending pods have been pending; for rules with `relax-after`.
    pub pending_for: PendingFor,
}

/// How long pods have been pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingFor {
    /// All pods for so long.
    All(Duration),
    /// Pods with a creation timestamp until this moment; others have just been created.
    Until(Timestamp),
}

impl Default for PendingFor {
    fn default() -> Self {
        PendingFor::All(Duration::ZERO)
    }
}

impl PendingFor {
    /// The current time, as far as it is known: otherwise all pods have started long ago.
    pub(crate) fn now(self) -> Timestamp {
        match self {
            PendingFor::All(_) => Timestamp::MAX,
            PendingFor::Until(now) => now,
        }
    }

    pub(crate) fn of(self, pod: &Pod) -> Duration {
        match self {
            PendingFor::All(duration) => duration,
            PendingFor::Until(now) => pod
                .metadata
                .creation_timestamp
                .map_or(Duration::ZERO, |created| now.duration_since(created).try_into().unwrap_or_default()),
        }
    }
}
