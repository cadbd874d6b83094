//! `berth-bench soak`.

use std::io::Write;
use std::time::Duration;

use berth_bench::soak::Sample;
use berth_terminal::output::OutputArgs;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;

use super::interrupt::until_interrupted;
use crate::cluster::soak::{self, Soak};
use crate::error::BenchError;
use crate::render::engine as render;

/// Load a `berth up` cluster at a constant rate, and show whether memory, latency, file descriptors and disk size stay flat
///
/// The cluster is a process with a data directory. The load rolls Deployments out, scales them, evicts and relabels pods,
/// and relabels and replaces nodes, in turn. The trends leave out the first quarter of the time.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Length of the test in minutes
    #[arg(long, value_name = "M", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    minutes: u32,
    /// Number of simulated nodes
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=9_999))]
    nodes: u32,
    /// Number of Deployments, with ten pods each on average
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=9_999))]
    deployments: u32,
    /// Actions per second
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rate: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the test.
pub fn run(out: &mut impl Write, args: &Args) -> Result<ExitStatus, BenchError> {
    let minutes = u64::from(args.minutes);
    let soak = Soak {
        duration: Duration::from_secs(60 * minutes),
        nodes: args.nodes as usize,
        deployments: args.deployments as usize,
        actions_per_second: args.rate,
    };
    let progress = progress::of_rounds(60 * minutes);
    let show = |sample: &Sample| progress.set_position(sample.seconds as u64);
    let report = until_interrupted(async |_| soak::run(soak, &show).await)?;
    progress.finish_and_clear();
    args.output.write(out, &report, |out| render::soak(out, &report))?;
    Ok(if report.is_flat { ExitStatus::Success } else { ExitStatus::Failure })
}
