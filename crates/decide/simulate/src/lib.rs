//! Simulations: questions to the engine about clusters that exist only as text.
//!
//! [`Simulation`] builds a cluster from manifests, places the pending pods and explains single pods with the changes that
//! would help ([`PodExplanation`], [`Repair`]). [`what_if`] changes the cluster and reports what happens to its pods.
//! [`capacity`] counts how many more replicas fit, and [`compare`] compares two placements. [`replay`] repeats the decisions of
//! a recording and compares the answers.
//!
//! This crate does no I/O and has no clock: callers read files and parse command lines. It never decides about
//! placement itself, it asks [`berth_engine`].

pub mod capacity;
pub mod compare;
mod device_hints;
mod explanation;
mod rebalance;
mod repairs;
pub mod replay;
mod rolling_update;
pub mod sets;
mod simulation;
pub mod upgrade;
pub mod what_if;

pub use explanation::PodExplanation;
pub use repairs::{Change, CoreTerm, FittingPods, Reach, Repair, has_rollouts};
pub use simulation::workloads::Workloads;
pub use simulation::{
    DomainMembers, FailingMember, GroupMember, GroupPlacement, InvalidObject, LevelPlacement, NotRunning,
    PendingDecision, PendingFor, PodClaim, PodDevice, PodPreemption, Pods, SimulatedPod, Simulation,
    SimulationError, SimulationOptions, Unadmitted, UnadmittedState, add_simulated_nodes, volume_claims,
};
