//! `berth-bench webhook`.

use std::io::Write;

use berth_terminal::output::OutputArgs;
use berth_terminal::process::ExitStatus;

use super::interrupt::until_interrupted;
use crate::cluster::webhook::{self, WebhookBench};
use crate::error::BenchError;
use crate::render::webhook as render;

/// Measure the review rate of the webhook over persistent TLS connections
///
/// The webhook and the API server that it watches are separate processes. The output has the reviews per second, by wall
/// clock and by processor time of the webhook, for each kind of review and for a mix of all.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of nodes of the cluster
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(0..=99_999))]
    nodes: u32,
    /// Number of reviews of each kind
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    reviews: u32,
    /// Number of concurrent connections
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    connections: u16,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the benchmark.
pub fn run(out: &mut impl Write, args: &Args) -> Result<ExitStatus, BenchError> {
    let bench = WebhookBench {
        n_nodes: args.nodes as usize,
        n_reviews: args.reviews as usize,
        n_connections: args.connections.into(),
    };
    let report = until_interrupted(async |_| webhook::run(bench).await)?;
    args.output.write(out, &report, |out| render::write(out, &report))?;
    Ok(ExitStatus::Success)
}
