//! Whole clusters, from outside: the `berth` binary in processes of its own, `kubectl`, and signals.
//!
//! `scripts/` has what is typed and what comes back; `faults` kills processes; `examples` has every binding of the
//! examples judged. Every server listens on a port that was free, and every process is ended with its test, passed or
//! failed.

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
