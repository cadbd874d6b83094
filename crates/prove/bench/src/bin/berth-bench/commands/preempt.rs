//! `berth-bench preempt`.

use std::io::Write;

use berth_bench::preempt::{self, Preempt};
use berth_terminal::output::OutputArgs;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;

use crate::error::BenchError;
use crate::render::engine as render;

/// Measure how fast pods of high priority preempt others in a full cluster
///
/// Every node is full of pods of low priority, and each incoming pod needs one of them to be evicted. The time of a pod is
/// that of the decision that finds no node, the selection of the victim, its removal, and the second decision. The pods
/// have no rules, inter-pod rules, victims with disruption budgets, or requests that differ from those of all other pods.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    nodes: u32,
    /// Number of incoming pods of each kind; at most one per node is sensible
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    pods: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the benchmark.
pub fn run(out: &mut impl Write, args: &Args) -> Result<ExitStatus, BenchError> {
    let preempt = Preempt { nodes: args.nodes as usize, pods: args.pods as usize };
    let progress = progress::of_pods();
    progress.set_length((preempt.pods * preempt::Kind::ALL.len()) as u64);
    let report = preempt::run(preempt, &mut |n_done| progress.set_position(n_done as u64));
    progress.finish_and_clear();
    args.output.write(out, &report, |out| render::preempt(out, &report))?;
    Ok(ExitStatus::Success)
}
