//! The tests of the crate in one binary.

#![allow(clippy::unwrap_used)]

mod enforce;
mod scale;
mod workloads;
