//! `berth-bench volumes`.

use std::io::Write;

use berth_bench::volumes::{self, Case, Volumes};
use berth_terminal::output::OutputArgs;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;

use crate::error::BenchError;
use crate::render::engine as render;

/// Schedule pods with one claim each, and check the placement and the volumes
///
/// The cluster is that of `berth-bench scale`; every node can attach 32 volumes. Each case has its own engine: claims that
/// are bound to zonal volumes, claims whose volumes are to be provisioned (half of them in half of the zones), and claims
/// that need one of as many existing zonal volumes. At the end, a check that shares no code with the engine verifies the
/// nodes of the pods, and the claims and volumes with all decisions carried out.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    nodes: u32,
    /// Number of pods of each case
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(0..=9_999_999))]
    pods: u32,
    /// Seed for node sizes, labels and taints
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the benchmark.
pub fn run(out: &mut impl Write, args: &Args) -> Result<ExitStatus, BenchError> {
    let size = Volumes { nodes: args.nodes as usize, pods: args.pods as usize, seed: args.seed };
    let progress = progress::of_pods();
    progress.set_length((size.pods * Case::ALL.len()) as u64);
    let report = volumes::run(size, &mut |n_decided| progress.set_position(n_decided as u64));
    progress.finish_and_clear();
    args.output.write(out, &report, |out| render::volumes(out, &report))?;
    Ok(if report.n_violations() > 0 { ExitStatus::Failure } else { ExitStatus::Success })
}
