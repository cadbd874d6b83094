//! Tests whole clusters as processes: the `berth` binary, `kubectl` and signals.
//!
//! `scripts/` has commands with their output; `faults` kills processes; `volumes` and `volume_faults` are
//! about claims; `examples` checks all bindings of the examples. Each
//! server listens on a free port, and each process is killed at the end of its test.

mod check;
mod commands;
pub mod console;
mod enforcer;
mod examples;
mod faults;
mod idle;
mod manifests;
mod policies;
mod record;
mod recording;
mod repair_commands;
mod running;
mod script;
mod survival;
mod volume_faults;
mod volumes;
mod webhook;
