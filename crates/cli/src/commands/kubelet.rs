//! `berth kubelet`.

use berth_kubelet::KubeletOptions;

use super::connection_args::ConnectionArgs;
use super::node_args::{AdoptArgs, MAX_NODES, NodeArgs, TimingArgs};
use crate::Answer;
use crate::cluster::log::LogArgs;
use crate::cluster::runtime;
use crate::error::CliError;

/// Run simulated nodes in a cluster
///
/// Each registers itself, sends heartbeats, admits pods as a kubelet does, and lets them run and end. No container is
/// run. The kubeconfig must allow to impersonate `system:node:NAME`, as an admin's does.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth kubelet --nodes 12 --zones 3
  berth kubelet --nodes 1000 --node-cpu 16 --node-memory 64Gi --start-after 2s --jitter 0.5
  berth kubelet --adopt --kubeconfig ./kubeconfig

Exit codes: 0 ended by SIGINT or SIGTERM, 2 it could not start or go on")]
pub struct Args {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Simulate this many nodes
    #[arg(long, value_name = "N", required_unless_present_any = ["adopt", "adopt_selector"],
          value_parser = clap::value_parser!(u64).range(1..=MAX_NODES))]
    nodes: Option<u64>,
    #[command(flatten)]
    made: NodeArgs,
    #[command(flatten)]
    adopt: AdoptArgs,
    #[command(flatten)]
    timing: TimingArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Runs them until told to stop.
pub fn run(args: &Args) -> Result<Answer, CliError> {
    args.log.start();
    let options = KubeletOptions {
        make: args.nodes.map(|n_nodes| args.made.template(n_nodes)).into_iter().collect(),
        adopt: args.adopt.adopt(),
        ..args.timing.options()
    };
    runtime::run(async |stop| {
        let config = args.connection.options().config().await?;
        berth_kubelet::run(config, options, stop).await?;
        Ok(Answer::Good)
    })
}
