//! The enforcer in a whole cluster: an API server with controllers and simulated nodes, the scheduler, and what the
//! enforcer makes of labels that change, pods that go, and a server that fails.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;
mod going;
mod leaders;
mod staying;
mod support;
