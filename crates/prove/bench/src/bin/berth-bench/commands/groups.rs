//! `berth-bench groups`.

use std::io::Write;

use berth_bench::groups::{self, Groups};
use berth_terminal::output::OutputArgs;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;

use crate::error::BenchError;
use crate::render::engine as render;

/// Schedule pod groups whose members share a zone and avoid each other's nodes, and check the placement
///
/// The groups are decided one after the other, each as a unit. At the end, the output has the groups of which only some
/// members are placed (there must be none), and a check that shares no code with the engine verifies all required rules.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    nodes: u32,
    /// Number of groups
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=99_999))]
    groups: u32,
    /// Number of members of each group
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=9_999))]
    members: u16,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the benchmark.
pub fn run(out: &mut impl Write, args: &Args) -> Result<ExitStatus, BenchError> {
    let size =
        Groups { nodes: args.nodes as usize, groups: args.groups as usize, members: args.members.into() };
    let progress = progress::of_pods();
    progress.set_length(size.groups as u64);
    let report = groups::run(size, &mut |n_decided| progress.set_position(n_decided as u64));
    progress.finish_and_clear();
    args.output.write(out, &report, |out| render::groups(out, &report))?;
    let is_good = report.broken == 0 && report.check.n_violations == 0;
    Ok(if is_good { ExitStatus::Success } else { ExitStatus::Failure })
}
