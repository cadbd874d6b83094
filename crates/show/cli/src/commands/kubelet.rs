//! `berth kubelet`.

use berth_kubelet::KubeletOptions;
use berth_terminal::process::ExitStatus;
use berth_terminal::runtime;

use super::connection_args::ConnectionArgs;
use super::node_args::{AdoptArgs, MAX_NODES, NodeArgs, TimingArgs};
use crate::cluster::log::LogArgs;
use crate::error::CliError;

/// Run simulated nodes in a cluster
///
/// Each node registers itself, sends heartbeats, admits pods as a kubelet does, and reports them as running and finished. It
/// runs no containers. The kubeconfig must allow impersonation of `system:node:NAME`; an administrator's kubeconfig does.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth kubelet --nodes 12 --zones 3
  berth kubelet --nodes 1000 --node-cpu 16 --node-memory 64Gi --start-after 2s --jitter 0.5
  berth kubelet --adopt --kubeconfig ./kubeconfig

Exit codes: 0 stopped by SIGINT or SIGTERM, 2 failed to start or to continue")]
pub struct Args {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Number of simulated nodes
    #[arg(long, value_name = "N", required_unless_present_any = ["adopt", "adopt_selector"],
          value_parser = clap::value_parser!(u64).range(1..=MAX_NODES))]
    nodes: Option<u64>,
    #[command(flatten)]
    template: NodeArgs,
    #[command(flatten)]
    adopt: AdoptArgs,
    #[command(flatten)]
    timing: TimingArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Runs the nodes until SIGINT or SIGTERM.
pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    args.log.start();
    let options = KubeletOptions {
        templates: args.nodes.map(|n_nodes| args.template.template(n_nodes)).into_iter().collect(),
        adopt: args.adopt.adopt(),
        csi_drivers: args.template.csi_drivers(),
        ..args.timing.options()
    };
    runtime::run(async |stop| {
        let config = args.connection.options().config().await?;
        berth_kubelet::run(config, options, stop).await?;
        Ok(ExitStatus::Success)
    })
}
