//! `berth-bench up`.

use std::io::Write;

use berth_terminal::output::OutputArgs;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;

use super::interrupt::until_interrupted;
use crate::cluster::settle::{self, Settle};
use crate::error::BenchError;
use crate::render::cluster as render;

/// Measure how long a `berth up` cluster takes to run Deployments with forty pod templates
///
/// The cluster with its simulated nodes is a separate process. The output has the time from the first Deployment until all
/// pods run, the memory of the process, and the latency of requests.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of simulated nodes
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=99_999))]
    nodes: u32,
    /// Total number of pods of all Deployments
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    pods: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the benchmark.
pub fn run(out: &mut impl Write, args: &Args) -> Result<ExitStatus, BenchError> {
    let size = Settle { n_nodes: args.nodes as usize, n_pods: args.pods as usize };
    let progress = progress::of_pods();
    progress.set_length(size.n_pods as u64);
    let show = |n_settled: usize| progress.set_position(n_settled as u64);
    let report = until_interrupted(async |_| settle::run(size, &show).await)?;
    progress.finish_and_clear();
    args.output.write(out, &report, |out| render::settle(out, &report))?;
    Ok(ExitStatus::Success)
}
