//! `berth bench webhook`.

use std::io::Write;

use crate::Answer;
use crate::cluster::runtime;
use crate::cluster_bench::webhook::{self, WebhookBench};
use crate::error::CliError;
use crate::output::OutputArgs;
use crate::render::webhook_bench as render;

/// Ask a webhook about pods, over TLS with connections that are kept
///
/// The webhook is a process of its own, and so is the API server whose nodes it follows. Shown is how much it answers a
/// second, by the clock and by its own processor time, for each kind of question and for all in turn.
#[derive(Debug, clap::Args)]
pub struct WebhookArgs {
    /// Nodes of the cluster that the webhook follows
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(0..=99_999))]
    nodes: u32,
    /// Reviews of each kind
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    reviews: u32,
    /// Connections that ask at a time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    connections: u16,
    #[command(flatten)]
    output: OutputArgs,
}

/// Measures.
pub fn run(out: &mut impl Write, args: &WebhookArgs) -> Result<Answer, CliError> {
    let bench = WebhookBench {
        n_nodes: args.nodes as usize,
        n_reviews: args.reviews as usize,
        n_connections: args.connections.into(),
    };
    let report = runtime::run(async |stop| {
        tokio::select! {
            report = webhook::run(bench) => Ok(report?),
            () = stop.cancelled() => Err(CliError::Interrupted),
        }
    })?;
    args.output.write(out, &report, |out| render::write(out, &report))?;
    Ok(Answer::Good)
}
