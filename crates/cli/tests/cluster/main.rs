//! Tests whole clusters as processes: the `berth` binary, `kubectl` and signals.
//!
//! `scripts/` has commands with their output; `faults` kills processes; `examples` checks all bindings of the examples. Each
//! server listens on a free port, and each process is killed at the end of its test.

#![allow(clippy::unwrap_used)]

mod check;
mod client;
mod commands;
mod enforcer;
mod examples;
mod faults;
mod idle;
mod process;
mod record;
mod script;
mod webhook;
