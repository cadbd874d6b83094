//! `berth-bench dump`.

use std::io::Write;

use berth_bench::dump;
use berth_terminal::process::ExitStatus;

use crate::error::BenchError;

/// Print a generated cluster as kubectl does, including fields that do not affect placement
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    nodes: u32,
    /// Number of pods; they run on the nodes in turn
    #[arg(long, value_name = "N")]
    pods: u32,
    /// Seed for node sizes, labels and taints, and for the order of pods
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Writes the cluster.
pub fn run(out: &mut impl Write, args: &Args) -> Result<ExitStatus, BenchError> {
    dump::write(out, args.nodes as usize, args.pods as usize, args.seed)?;
    Ok(ExitStatus::Success)
}
