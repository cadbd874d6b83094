//! The scheduler against an API server: what it binds, what it tells, and what it makes of a server that fails.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod events;
mod faults;
mod leaders;
mod placing;
mod preempting;
mod support;
mod waiting;
