//! `berth-bench console`.

use std::io::Write;

use berth_terminal::output::{self, OutputArgs};
use berth_terminal::process::ExitStatus;

use super::interrupt::until_interrupted;
use crate::cluster::console::{self, ConsoleBench};
use crate::error::BenchError;
use crate::render::console as render;

/// Measure the console on a large cluster
///
/// Builds the engine's state of a generated cluster, then that of the console, and compares their memory. Then each page is
/// requested twice: the first time it is rendered. At the end, pods change once a second while pages are open, and every
/// page is requested again after each event about a change. Server and clients share the process.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=99_999))]
    nodes: u32,
    /// Number of pods
    #[arg(long, value_name = "N", default_value_t = 150_000, value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    pods: u32,
    /// Number of open pages
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=200))]
    open: u16,
    /// Number of changes while the pages are open
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    changes: u16,
    /// Seed for nodes and pods
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the benchmark.
pub fn run(out: &mut impl Write, args: &Args) -> Result<ExitStatus, BenchError> {
    let bench = ConsoleBench {
        n_nodes: args.nodes as usize,
        n_pods: args.pods as usize,
        n_open: args.open.into(),
        n_changes: args.changes.into(),
        seed: args.seed,
    };
    let report =
        until_interrupted(async |stop| console::run(bench, stop, &|text| output::note(&text)).await)?;
    args.output.write(out, &report, |out| render::write(out, &report))?;
    Ok(ExitStatus::Success)
}
