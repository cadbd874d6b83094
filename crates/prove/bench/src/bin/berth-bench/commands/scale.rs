//! `berth-bench scale`.

use std::io::Write;

use berth_bench::scale::{self, Scale};
use berth_terminal::output::OutputArgs;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;

use crate::error::BenchError;
use crate::render::engine as render;

/// Schedule pods of forty templates in a generated cluster, and check the placement
///
/// The cluster has racks of 40 nodes in ten zones; some nodes have taints, sizes and disks differ. Pods come from the
/// templates in turn: with zone affinity, hostname anti-affinity, preferences, node affinity, spread constraints, or no
/// rules. At the end, a check that shares no code with the engine verifies all required rules, capacities and spread
/// constraints.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    nodes: u32,
    /// Number of pods
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=99_999_999))]
    pods: u32,
    /// Seed for node sizes, labels and taints, and for the order of pods
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Select pods by label ranges (Gt and Lt) instead of equal labels: the same decisions, for comparing the rates
    #[arg(long)]
    label_ranges: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the benchmark.
pub fn run(out: &mut impl Write, args: &Args) -> Result<ExitStatus, BenchError> {
    let scale = Scale {
        nodes: args.nodes as usize,
        pods: args.pods as usize,
        seed: args.seed,
        label_ranges: args.label_ranges,
    };
    let progress = progress::of_pods();
    progress.set_length(scale.pods as u64);
    let report = scale::run(scale, &mut |n_decided| progress.set_position(n_decided as u64));
    progress.finish_and_clear();
    args.output.write(out, &report, |out| render::scale(out, &report))?;
    Ok(if report.check.n_violations > 0 { ExitStatus::Failure } else { ExitStatus::Success })
}
