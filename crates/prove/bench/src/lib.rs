//! Benchmarks of the engine: Kubernetes' scheduler benchmark files ([`workload`]), generated clusters of any size
//! ([`scale`]), and reading a dump ([`load`]). The program `berth-bench` runs them, and benchmarks of whole clusters.
//!
//! This crate uses the clock and reads files, which the engine must not do. The library prints nothing: reports are data.

pub mod bind;
pub mod dump;
pub mod load;
pub mod measure;
pub mod scale;
pub mod workload;

use std::ops::RangeInclusive;

use clap::builder::RangedU64ValueParser;

/// Parses a size of a benchmark.
pub fn count(range: RangeInclusive<u64>) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(range)
}
