//! `berth-bench churn`.

use std::io::Write;

use berth_bench::churn::{self, Churn};
use berth_terminal::output::OutputArgs;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;

use super::interrupt::until_interrupted;
use crate::cluster;
use crate::error::BenchError;
use crate::render::engine as render;

/// Create and delete pods with their own rules, and show memory and decision rate after each round
///
/// The pods of a round have labels, selectors and namespaces that no other pod has. One of 50 nodes is replaced before
/// each round by a node with a new name, and every 40 new nodes have a new rack. With --scheduler, an API server and a
/// scheduler run as processes, and the memory shown is the scheduler's.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    nodes: u32,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Number of pods in each round
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    pods: u32,
    /// Run an API server and a scheduler as processes
    #[arg(long)]
    scheduler: bool,
    /// Seed for node sizes, labels and taints
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the benchmark.
pub fn run(out: &mut impl Write, args: &Args) -> Result<ExitStatus, BenchError> {
    let churn = Churn {
        nodes: args.nodes as usize,
        rounds: args.rounds.into(),
        pods: args.pods as usize,
        seed: args.seed,
    };
    let progress = progress::of_rounds(args.rounds.into());
    let show = |n_rounds| progress.set_position(n_rounds as u64);
    let report = if args.scheduler {
        until_interrupted(async |_| cluster::churn::run(churn, &show).await)?
    } else {
        churn::run(churn, &mut { show })
    };
    progress.finish_and_clear();
    args.output.write(out, &report, |out| render::churn(out, &report))?;
    Ok(ExitStatus::Success)
}
