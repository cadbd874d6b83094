//! The commands: each parses its arguments and runs a benchmark.

pub mod bind;
pub mod churn;
pub mod console;
pub mod dump;
pub mod enforce;
pub mod groups;
mod interrupt;
pub mod list;
pub mod load;
pub mod ops;
pub mod preempt;
pub mod scale;
pub mod soak;
pub mod up;
pub mod volumes;
pub mod webhook;
pub mod workloads;
