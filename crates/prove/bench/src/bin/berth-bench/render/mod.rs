//! Text output of benchmarks.

pub mod bind;
pub mod cluster;
pub mod engine;
