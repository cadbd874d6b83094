//! The enforcer in a whole cluster: an API server with controllers and simulated nodes, and the scheduler. The tests
//! change labels, delete pods and inject server failures.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;
mod going;
mod groups;
mod held;
mod leaders;
mod rebalancing;
mod staying;
mod support;
