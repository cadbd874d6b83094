//! `berth console`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use berth_client::WatchGroup;
use berth_client::delegated::DelegatedAuthorizer;
use berth_client::ledger::LedgerClient;
use berth_console::{EnforcerRules, LimitsInUse, State};
use berth_console_server::{
    AccessToken, Authenticator, Bound, Console, EvictionRetries, ServerOptions, live, writer,
};
use berth_enforcer::{
    EnforcerOptions, Graces, HoldForecast, HoldOptions, STATUS_KEY, STATUS_NAME, grace_period, limits_in_use,
};
use berth_engine::{Remedy, RemedyOptions};
use berth_input::inventory::Inventory;
use berth_simulate::SimulationOptions;
use berth_terminal::output;
use berth_terminal::process::ExitStatus;
use berth_terminal::runtime;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cache_args::CacheArgs;
use super::cluster_args::{ClusterArgs, warn_about};
use super::serving_args::BindArgs;
use crate::cluster::log::LogArgs;
use crate::error::CliError;
use crate::live::{LiveCluster, sources};

/// The address without --address and --console=.
pub const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// Timeout of reading the ledger of the enforcer.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(10);

/// Show a cluster in the browser
///
/// Serves pages about the cluster: its topology, pending pods and why they are pending, single pods, workloads, rules, and what
/// changes of the cluster would do. With --live, the pages follow the cluster. Nothing in the cluster is changed without
/// --allow-changes. Prints the URL, which contains a token that is valid until the command ends; without it, no page is shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth console --dump cluster.yaml
  berth console -f examples/redis-web --nodes 3 --zones 3
  berth console --live --address 127.0.0.1:0
  berth console --live --allow-changes
  berth console --live --secure-port 8443 --host console.example

Exit codes: 0 stopped by SIGINT or SIGTERM, 2 invalid input or usage

See docs/console.md for the pages and the protection.")]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Loopback address to serve the console on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = ADDRESS, conflicts_with = "secure_port")]
    address: SocketAddr,
    #[command(flatten)]
    secure: SecureArgs,
    /// Another name under which browsers reach the console, such as that of a proxy, with or without a port; can be repeated
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Let viewers apply the changes of a what-if to the cluster, after a confirmation; requires --live
    ///
    /// The changes are written as the user of the kubeconfig; with --secure-port, with the token of each viewer.
    #[arg(long)]
    allow_changes: bool,
    /// With --live: namespace of the ConfigMaps `berth-enforcer` and `berth-rebalance`, in which the enforcer counts evictions and has its plan
    #[arg(long, value_name = "NAMESPACE", default_value_t = EnforcerOptions::default().ledger_namespace)]
    ledger_namespace: String,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Serving in a cluster.
#[derive(Debug, clap::Args)]
struct SecureArgs {
    /// Serve over HTTPS at this port, with delegated authorization; 0 selects a free port; requires --live
    ///
    /// The API server decides who may see the console: tokens are checked with TokenReviews, and SubjectAccessReviews tell
    /// whether their users may list nodes and pods in the whole cluster. No token is printed.
    #[arg(long, value_name = "PORT")]
    secure_port: Option<u16>,
    #[command(flatten)]
    bind: BindArgs,
}

/// Serves until SIGINT or SIGTERM.
pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    args.log.start();
    let state = match args.cluster.live_cluster() {
        None if args.secure.secure_port.is_some() => {
            let text = "--secure-port requires --live: the API server of the cluster decides who may see the console";
            return Err(CliError::Usage(text.to_owned()));
        }
        None if args.allow_changes => {
            let text =
                "--allow-changes requires --live: a dump or a simulated cluster has nothing to write to";
            return Err(CliError::Usage(text.to_owned()));
        }
        Some(_) if !args.cluster.files.is_empty() => {
            let text = "-f cannot be combined with --live here: the what-if page takes manifests that change the cluster";
            return Err(CliError::Usage(text.to_owned()));
        }
        Some(live) => (args.live_state()?, Some(live)),
        None => (args.state()?, None),
    };
    runtime::run(async |stop| {
        let (state, live) = state;
        match live {
            Some(live) => {
                let group = args.cache.group();
                tokio::select! {
                    served = args.serve_live(state, &live, &group, &stop) => served?,
                    failure = group.exceeded() => return Err(failure.into()),
                }
                return match stop.run_until_cancelled(group.exceeded()).await {
                    Some(failure) => Err(failure.into()),
                    None => Ok(ExitStatus::Success),
                };
            }
            None => {
                let hosts = args.hosts.clone();
                let options = ServerOptions { hosts, ..loopback(args.address, false)? };
                serve(Console::new(state), options, stop.clone()).await?;
            }
        }
        stop.cancelled().await;
        Ok(ExitStatus::Success)
    })
}

impl Args {
    fn state(&self) -> Result<State, CliError> {
        let cluster = &self.cluster;
        let inventory = cluster.inventory_without_raw_pods()?;
        cluster.check(&inventory)?;
        let options = cluster.options(cluster.settings(&inventory)?);
        let mut state = State::new(cluster.name(), inventory, options)?;
        warn_about(state.simulation());
        state.enforcer = Some(enforcer_rules());
        Ok(state)
    }

    fn live_state(&self) -> Result<State, CliError> {
        let cluster = &self.cluster;
        let server_version = cluster.live_cluster().and_then(|live| live.server_version());
        let mut version_alone = Inventory::default();
        version_alone.server_version = server_version;
        let options = cluster.options(cluster.settings(&version_alone)?);
        live_state(cluster.name(), options)
    }

    async fn serve_live(
        &self,
        state: State,
        live: &LiveCluster,
        group: &WatchGroup,
        stop: &CancellationToken,
    ) -> Result<(), CliError> {
        let client = live.checked_client().await?;
        let console = Console::new(state);
        let ledger = self.ledger_namespace.clone();
        let mut ready = follow(console.clone(), client.clone(), group.clone(), ledger, stop.clone());
        let Some(Ok(_)) = stop.run_until_cancelled(ready.wait_for(|ready| *ready)).await else {
            return Ok(());
        };
        let SecureArgs { secure_port, bind } = &self.secure;
        let hosts = self.hosts.clone();
        let Some(port) = *secure_port else {
            let write = self.allow_changes.then(|| writer::as_client(client));
            let options = ServerOptions { hosts, write, ..loopback(self.address, true)? };
            return serve(console, options, stop.clone()).await;
        };
        let options = ServerOptions {
            address: bind.address(port),
            certificate: Some(bind.certificate("berth-console", &self.hosts)),
            hosts,
            authenticator: Authenticator::Delegated(Arc::new(DelegatedAuthorizer::new(client, Vec::new()))),
            is_live: true,
            write: match self.allow_changes {
                // Never as the console: the API server decides what a viewer may change.
                true => Some(writer::as_viewers(live.anonymous_client().await?)),
                false => None,
            },
            retries: EvictionRetries::default(),
        };
        serve(console, options, stop.clone()).await
    }
}

/// A live cluster without objects yet.
pub fn live_state(name: impl Into<String>, options: SimulationOptions) -> Result<State, CliError> {
    let mut state = State::live(name, options)?;
    state.enforcer = Some(enforcer_rules());
    Ok(state)
}

fn enforcer_rules() -> EnforcerRules {
    EnforcerRules {
        delays: |simulation, remedies| {
            HoldForecast::new(&HoldOptions::default(), simulation.pods().iter().map(|pod| &pod.pod))
                .delays(&EnforcerOptions::default().limits, remedies)
        },
        remedy_options: |simulation, now| {
            let holds = HoldOptions::default();
            let hold_forecast = HoldForecast::new(&holds, simulation.pods().iter().map(|pod| &pod.pod));
            let evict_without_target = hold_forecast.released(now.unwrap_or_default());
            RemedyOptions { evict_without_target, ..RemedyOptions::default() }
        },
        leave_out_blocked: |simulation, remedies| {
            HoldForecast::new(&HoldOptions::default(), simulation.pods().iter().map(|pod| &pod.pod))
                .leave_out_blocked(remedies);
        },
        evicted_without_target: |simulation| {
            HoldForecast::new(&HoldOptions::default(), simulation.pods().iter().map(|pod| &pod.pod))
                .not_for_ever()
        },
        held: |simulation, remedies| {
            let holds = HoldOptions::default();
            let hold_forecast = HoldForecast::new(&holds, simulation.pods().iter().map(|pod| &pod.pod));
            let held = |remedy: &&Remedy| hold_forecast.of(&remedy.victim.namespace, &remedy.victim.name);
            remedies.iter().map(|r| held(r).map_or_else(String::new, |held| held.to_string())).collect()
        },
        grace: |pod, rule| grace_period(&Graces::default(), pod, rule),
        limits: |simulation, ledger, now| {
            let pods = simulation.pods().iter().map(|pod| &pod.pod);
            let in_use = limits_in_use(&EnforcerOptions::default().limits, pods, ledger, now);
            let in_use =
                in_use.map_err(|error| format!("the ledger of the enforcer cannot be read: {error}"))?;
            let limits = in_use.limits.into_iter().map(|of| (of.limited, of.n_evictions, of.most, of.next));
            Ok(LimitsInUse { stopped_until: in_use.stopped_until, limits: limits.collect() })
        },
    }
}

/// Follows the cluster of a client, and the ledger of its enforcer in a namespace. The result becomes true when the cluster has been
/// read.
pub fn follow(
    console: Arc<Console>,
    client: Client,
    group: WatchGroup,
    ledger_namespace: String,
    stop: CancellationToken,
) -> watch::Receiver<bool> {
    let (sender, ready) = watch::channel(false);
    let ledger = LedgerClient {
        client: client.clone(),
        namespace: ledger_namespace,
        name: EnforcerOptions::default().ledger_name,
        key: berth_client::ledger::KEY,
        description: "",
        timeout: LEDGER_TIMEOUT,
    };
    let status = LedgerClient { name: STATUS_NAME.to_owned(), key: STATUS_KEY, ..ledger.clone() };
    tokio::spawn(live::follow_ledger(console.clone(), ledger, State::set_ledger, stop.clone()));
    tokio::spawn(live::follow_ledger(console.clone(), status, State::set_rebalance_status, stop.clone()));
    tokio::spawn(live::follow(console, client, group, sources(), sender, stop));
    ready
}

/// Serving on a loopback address, for viewers with a new token.
pub fn loopback(address: SocketAddr, is_live: bool) -> Result<ServerOptions, CliError> {
    Ok(ServerOptions {
        address,
        certificate: None,
        hosts: Vec::new(),
        authenticator: Authenticator::Token(AccessToken::random()?),
        is_live,
        write: None,
        retries: EvictionRetries::default(),
    })
}

/// Serves a console, and prints the URL.
pub async fn serve(
    console: Arc<Console>,
    options: ServerOptions,
    stop: CancellationToken,
) -> Result<(), CliError> {
    serve_at(console, Bound::new(options).await?, stop).await
}

/// The same on an address that is bound already.
pub async fn serve_at(console: Arc<Console>, bound: Bound, stop: CancellationToken) -> Result<(), CliError> {
    let authenticator = bound.options.authenticator.clone();
    let address = berth_console_server::start_at(console, bound, stop).await?;
    output::note(&match authenticator {
        Authenticator::Token(token) => {
            format!("serving the console at http://{address}/?token={}", token.secret())
        }
        Authenticator::Delegated(_) => format!("serving the console at https://{address}/"),
    });
    Ok(())
}
