//! `berth-bench bind`.

use std::io::Write;

use berth_terminal::output::OutputArgs;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;

use super::interrupt::until_interrupted;
use crate::cluster::bind::{self, Bind};
use crate::error::BenchError;
use crate::render::cluster as render;

/// Compare the scheduler's binding rate with that of a bare client
///
/// The API server is a separate process. In turn, a bare client binds pods to predetermined nodes, a client that also
/// watches the pods does the same, and the scheduler selects nodes for the same pods, which have inter-pod rules, and
/// binds them. All use the same number of connections, and the same observer measures them, without the first tenth of
/// each round. At the end, a check that shares no code with the engine verifies the scheduler's placements.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=99_999))]
    nodes: u32,
    /// Number of pods in each round
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(2..=999_999))]
    pods: u32,
    /// Number of concurrent connections
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    connections: u16,
    /// Number of rounds of each side
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Also measure the scheduler while it records its decisions
    #[arg(long)]
    record: bool,
    /// Seed for node sizes, labels and taints
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the benchmark.
pub fn run(out: &mut impl Write, args: &Args) -> Result<ExitStatus, BenchError> {
    let size = Bind {
        n_nodes: args.nodes as usize,
        n_pods: args.pods as usize,
        n_connections: args.connections.into(),
        n_rounds: args.rounds.into(),
        records: args.record,
        seed: args.seed,
    };
    let progress = progress::of_pods();
    let show = |n_bound: usize, n_all: usize| {
        progress.set_length(n_all as u64);
        progress.set_position(n_bound as u64);
    };
    let report = until_interrupted(async |_| bind::run(size, &show).await)?;
    progress.finish_and_clear();
    args.output.write(out, &report, |out| render::bind(out, &report))?;
    Ok(if report.check.n_violations > 0 { ExitStatus::Failure } else { ExitStatus::Success })
}
