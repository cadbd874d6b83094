//! `berth mcp`.

use berth_terminal::process::ExitStatus;
use berth_terminal::runtime;

use super::cluster_args::ClusterArgs;
use crate::error::CliError;
use crate::mcp;

/// Answer agents over the Model Context Protocol
///
/// Serves the tools explain, what_if, capacity, lint, rebalance and audit on standard input and output, for clients that start the command. The
/// tools read the cluster of the options anew with each call, and change nothing. A call ends after 60 s, an answer has at most 1 MiB.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth mcp --live
  berth mcp --dump cluster.json.gz

Exit codes: 0 the client closed standard input, 2 invalid input or usage

See docs/mcp.md for the tools and the configuration of clients.")]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    if args.cluster.reads_stdin()? {
        let text = "-: standard input is for the messages of the client: name a file";
        return Err(CliError::Usage(text.to_owned()));
    }
    let mut words: Vec<_> = std::env::args_os().skip(1).collect();
    // The plugin of kubectl reads the cluster of kubectl without saying so.
    if args.cluster.live_cluster().is_some() && !words.iter().any(|word| word == "--live") {
        words.push("--live".into());
    }
    runtime::run(|stop| async move {
        tokio::select! {
            served = mcp::serve(words) => served.map_err(CliError::Output)?,
            () = stop.cancelled() => {}
        }
        Ok(ExitStatus::Success)
    })
}
