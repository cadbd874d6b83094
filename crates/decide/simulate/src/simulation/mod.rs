//! Simulations: the objects of an inventory become the state of a cluster, and the pending pods are placed.
//!
//! Workloads are expanded to the pods that their controllers would create, and pods are admitted as in the API server.
//! Running pods keep their nodes, unless they are preempted. Pods that name their node arrive there and run if it admits them
//! (`node_admission`). Pending pods are placed by priority, then in input order. Unschedulable pods are
//! tried again as long as other pods are placed, as in the queue of a scheduler.

mod add_pods;
mod admission;
mod build;
mod created_claims;
mod creating;
pub(crate) mod creation;
mod daemons;
mod departure;
mod devices;
mod error;
mod group_placement;
mod groups;
mod live;
mod new_node;
mod node_admission;
mod options;
mod pending;
mod place;
mod pod;
mod pods;
mod preemption;
mod progress;
mod rescheduling;
mod rollout;
mod state;
mod steps;
mod take_over;
mod turn;
mod unadmitted;
mod volumes;
pub(crate) mod workloads;

pub use build::add_simulated_nodes;
pub use departure::evicted_by_drain;
pub(crate) use departure::{Contact, Fate, NAMES_UNREACHABLE, TOLERATES, recreate, replica, unreachable};
pub(crate) use devices::Devices;
pub use devices::{PodClaim, PodDevice};
pub use error::{InvalidObject, SimulationError};
pub use group_placement::{DomainMembers, FailingMember, GroupMember, GroupPlacement, LevelPlacement};
pub(crate) use groups::Unit;
pub(crate) use new_node::{new_node_name, node_like, slices_like, slices_of};
pub use options::{PendingFor, SimulationOptions};
pub use pending::PendingDecision;
pub use pod::SimulatedPod;
pub use pods::Pods;
pub use preemption::PodPreemption;
pub(crate) use preemption::preempt;
pub(crate) use rescheduling::{Loss, LostContact};
pub(crate) use rollout::{
    DaemonNodes, Members, RolledPods, Rollout, Strategy, UpdateRule, ordinal, replica_sets,
};
pub use state::Simulation;
pub use steps::BlockedEviction;
pub(crate) use steps::{Eviction, Leaving, counted_budgets, exhausted};
pub use unadmitted::{NotRunning, Unadmitted, UnadmittedState};
pub use volumes::volume_claims;
