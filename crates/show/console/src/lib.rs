//! The console: pages about the placement of a cluster, and the pictures in them and in reports.
//!
//! A page is a pure function of a [`Request`] and a [`State`]: [`respond`] is the whole application. This crate does no I/O and
//! has no clock; servers and browsers run it: `berth console` over HTTP, the playground as WebAssembly. A picture is a pure function
//! of a simulation or an answer of the engine. The numbers of both are those of the reports.

mod broken_since;
mod cluster_event;
mod components;
mod enforcer_rules;
mod explain;
mod layout;
mod links;
mod live_timeline;
mod overview;
mod pages;
mod pending_groups;
pub mod pictures;
mod places;
mod pod_table;
pub mod report;
pub mod reports;
mod request;
mod state;
#[cfg(test)]
mod tests;
mod update;
mod verdicts;
mod workloads;
pub mod writes;

pub use cluster_event::ClusterEvent;
pub use enforcer_rules::{EnforcerRules, LimitsInUse};
pub use pages::{APPLIED, APPLY, CONFIRM, STOP, reads_objects, respond, shows_broken_rules};
pub use request::{Request, Response};
pub use state::State;
pub use update::Update;
