//! Benchmarks of the engine: Kubernetes' scheduler benchmark files ([`workload`]), generated clusters of any size
//! ([`scale`]), pods with claims ([`volumes`]), pods that are created and deleted round after round ([`churn`]), single
//! operations ([`ops`]), reading a dump ([`load`]), violation tracking ([`enforce`]), preemption ([`preempt`]) and pod groups ([`groups`]); the report of a soak test ([`soak`]),
//! and the latencies that an API server measures ([`latency`]). The program `berth-bench` runs them, and benchmarks of whole
//! clusters.
//!
//! [`check`] checks placements and shares no code with the engine's rules. This crate uses the clock and reads files,
//! which the engine must not do. The library prints nothing: reports are data.

pub mod bind;
pub mod check;
pub mod churn;
pub mod dra;
pub mod dump;
pub mod enforce;
pub mod groups;
pub mod latency;
pub mod load;
pub mod measure;
pub mod ops;
pub mod preempt;
pub mod rebalance;
pub mod scale;
pub mod soak;
pub mod volumes;
pub mod workload;

use std::ops::RangeInclusive;

use clap::builder::RangedU64ValueParser;

/// Parses a size of a benchmark.
pub fn count(range: RangeInclusive<u64>) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(range)
}
