//! `berth-bench enforce`.

use std::io::Write;

use berth_bench::enforce::{self, Enforce};
use berth_terminal::output::OutputArgs;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;

use crate::error::BenchError;
use crate::render::engine as render;

/// Measure how fast rule violations are detected after label changes on many nodes
///
/// Seven of ten pods have rules that are required during execution: a node label, a pod in the same zone, or no similar
/// pod on the same node. In each round the nodes lose the label, every second one also its zone, and then get both back.
/// Each result is compared with a check of all pods.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    nodes: u32,
    /// Number of pods
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    pods: u32,
    /// Number of nodes whose labels change in each round
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    changed: u32,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 21, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seed for node sizes and taints
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the benchmark.
pub fn run(out: &mut impl Write, args: &Args) -> Result<ExitStatus, BenchError> {
    let enforce = Enforce {
        nodes: args.nodes as usize,
        pods: args.pods as usize,
        changed: args.changed as usize,
        rounds: args.rounds.into(),
        seed: args.seed,
    };
    let progress = progress::of_rounds(args.rounds.into());
    let report = enforce::run(enforce, &mut |n_rounds| progress.set_position(n_rounds as u64));
    progress.finish_and_clear();
    args.output.write(out, &report, |out| render::enforce(out, &report))?;
    Ok(if report.is_right { ExitStatus::Success } else { ExitStatus::Failure })
}
