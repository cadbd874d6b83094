//! `berth console`.

use std::net::{Ipv4Addr, SocketAddr};

use berth_console::State;
use berth_console_server::{AccessToken, Authenticator, Console, ServerOptions};

use super::cluster_args::{ClusterArgs, warn_about};
use crate::ExitStatus;
use crate::cluster::log::LogArgs;
use crate::cluster::runtime;
use crate::error::CliError;
use crate::output;

/// Show a cluster in the browser
///
/// Serves pages about the cluster: its topology, pending pods and why they are pending, single pods, workloads, rules, and what
/// changes of the cluster would do. Nothing in the cluster is changed. Prints the URL, which contains a token that is valid until
/// the command ends; without it, no page is shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth console --dump cluster.yaml
  berth console -f examples/redis-web --nodes 3 --zones 3
  berth console --live --address 127.0.0.1:0

Exit codes: 0 stopped by SIGINT or SIGTERM, 2 invalid input or usage

See docs/console.md for the pages and the protection.")]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    serving: ConsoleServingArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Where the console is served.
#[derive(Debug, clap::Args)]
struct ConsoleServingArgs {
    /// Loopback address to serve the console on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 8080))]
    address: SocketAddr,
    /// Another name under which browsers reach the console, such as that of a proxy, with or without a port; can be repeated
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
}

/// Serves until SIGINT or SIGTERM.
pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    args.log.start();
    let cluster = &args.cluster;
    let inventory = cluster.inventory(false)?;
    cluster.check(&inventory)?;
    let options = cluster.options(cluster.settings(&inventory)?);
    let mut state = State::new(cluster.name(), inventory, options)?;
    warn_about(state.simulation());
    runtime::run(async |stop| {
        let token = AccessToken::random()?;
        let options = ServerOptions {
            address: args.serving.address,
            hosts: args.serving.hosts.clone(),
            authenticator: Authenticator::Token(token.clone()),
            is_live: false,
        };
        let address = berth_console_server::start(Console::new(state), options, stop.clone()).await?;
        output::note(&format!("serving the console at {}", url(address, &token)));
        stop.cancelled().await;
        Ok(ExitStatus::Success)
    })
}

/// The URL that gives access to the console.
pub fn url(address: SocketAddr, token: &AccessToken) -> String {
    format!("http://{address}/?token={}", token.secret())
}
