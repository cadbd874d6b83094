//! Text output of benchmarks.

pub mod cluster;
pub mod engine;
