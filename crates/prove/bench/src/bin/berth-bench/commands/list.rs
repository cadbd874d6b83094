//! `berth-bench list`.

use std::io::Write;

use berth_terminal::output::OutputArgs;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;

use super::interrupt::until_interrupted;
use crate::cluster::list::{self, ListBench};
use crate::error::BenchError;
use crate::render::list as render;

/// Measure how long the API server takes to list many pods, page by page and at once
///
/// Server and client share the process. Pages are requested as JSON and as the tables that `kubectl get pods -A` requests.
/// The time of a page depends on its own size, not on the number of pods: compare the first page, the median and the last.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of pods
    #[arg(long, value_name = "N", default_value_t = 150_000, value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    pods: u32,
    /// Number of pods on a page
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    page: u32,
    /// Seed for the pods
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the benchmark.
pub fn run(out: &mut impl Write, args: &Args) -> Result<ExitStatus, BenchError> {
    let bench = ListBench { n_pods: args.pods as usize, page: args.page as usize, seed: args.seed };
    let progress = progress::of_pods();
    progress.set_length(bench.n_pods as u64);
    let show = |n_stored: usize| progress.set_position(n_stored as u64);
    let report = until_interrupted(async |_| list::run(bench, &show).await)?;
    progress.finish_and_clear();
    args.output.write(out, &report, |out| render::write(out, &report))?;
    Ok(ExitStatus::Success)
}
