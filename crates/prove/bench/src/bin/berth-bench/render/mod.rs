//! Text output of benchmarks.

pub mod cluster;
pub mod console;
pub mod engine;
pub mod list;
pub mod webhook;
