//! The tests of the crate in one binary.

#![allow(clippy::unwrap_used)]

mod bind;
mod enforce;
mod groups;
mod preempt;
mod program;
mod scale;
mod volumes;
mod workloads;
