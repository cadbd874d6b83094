//! Tests whole clusters as processes: the `berth` binary, `kubectl` and signals.
//!
//! `scripts/` has commands with their output; `faults` kills processes; `volumes` and `volume_faults` are
//! about claims; `examples` checks all bindings of the examples. Each
//! server listens on a free port, and each process is killed at the end of its test.

#![allow(clippy::unwrap_used)]

mod check;
mod client;
mod cluster;
mod commands;
mod console;
mod enforcer;
mod examples;
#[path = "../it/expected/mod.rs"]
mod expected;
mod faults;
mod idle;
mod manifests;
mod policies;
mod process;
mod record;
mod recording;
mod script;
mod survival;
mod volume_faults;
mod volumes;
mod webhook;
