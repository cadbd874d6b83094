//! Text output of benchmarks.

pub mod bind;
pub mod engine;
