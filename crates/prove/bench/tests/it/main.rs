//! The tests of the crate in one binary.

#![allow(clippy::unwrap_used)]

mod bind;
mod program;
mod scale;
mod workloads;
