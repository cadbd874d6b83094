//! `berth up`.

use std::collections::HashSet;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_admission::AdmissionController;
use berth_api::object::NamespacedName;
use berth_api::read::{Kind, Manifest};
use berth_api::resource::PODS;
use berth_api::syntax::format::{counted, elapsed};
use berth_apiserver::ApiServer;
use berth_client::apply::{Applied, apply};
use berth_client::{ObservedObject, WatchGroup, WatchOptions, connect, list};
use berth_console_server::{Bound, Console, writer};
use berth_enforcer::EnforcerOptions;
use berth_engine::Settings;
use berth_input::config::DEFAULT_SCHEDULER_NAME;
use berth_input::inventory::Inventory;
use berth_kubelet::{Adopt, DeviceTemplate, KubeletOptions, NodeCredentials};
use berth_scheduler::{QueueCounts, SCHEDULER_NAME, Status};
use berth_simulate::{PendingFor, Simulation, SimulationOptions};
use berth_terminal::input::find_inputs;
use berth_terminal::output;
use berth_terminal::process::ExitStatus;
use berth_terminal::runtime;
use futures::FutureExt;
use indicatif::ProgressBar;
use kube::Client;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::admission_args::{self, AdmissionArgs};
use super::hold_args::HoldArgs;
use super::node_args::{MAX_NODES, NodeArgs, TimingArgs, duration};
use super::provisioner_args::ProvisionerArgs;
use super::read_inputs::{UnknownFields, read_dump_objects, read_each};
use super::rebalance_args::RebalanceArgs;
use super::record_args::RecordArgs;
use super::rules_args::RulesArgs;
use super::server_args::ServerArgs;
use super::{console, enforcer, scheduler};
use crate::cluster::apply::apply_after_policies;
use crate::cluster::components::Components;
use crate::cluster::log::LogArgs;
use crate::cluster::outcome::{Outcome, preemptions};
use crate::cluster::overview::{Overview, SettleCriteria, SettleResult};
use crate::cluster::status_line::StatusLine;
use crate::error::CliError;
use crate::installation;
use crate::live;
use crate::render::placement::{self, Columns, PreemptionRow, Reasons};
use crate::render::report::{write, write_parts};
use crate::summary;

/// Number of simulated nodes without --nodes and --from.
const DEFAULT_NODES: u64 = 3;

/// Run a Kubernetes cluster with simulated nodes in one process
///
/// The process runs the API server with its controllers, simulated nodes, the scheduler for pods with the schedulerName
/// `default-scheduler` or `berth`, and the enforcer. It prints the shell command that makes kubectl use the cluster, and runs
/// until Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth up
  berth up --nodes 12 --zones 3 --data-dir ~/.local/share/berth
  berth up --nodes 3 --zones 3 -f examples/redis-web --exit-when-settled
  berth dump cluster.json.gz; berth up --from cluster.json.gz
  berth up --from cluster.yaml -f new-deployment.yaml --exit-when-settled
  berth up --from cluster.yaml --rebalance required,spread --rebalance-settle 0s

Exit codes: 0 stopped by SIGINT or SIGTERM, or settled with all pods placed; 1 settled with unplaced pods, or timed out; 2 \
invalid input or usage, or a component failed")]
pub struct Args {
    /// Number of simulated nodes [default: 3, or 0 with --from]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=MAX_NODES))]
    nodes: Option<u64>,
    #[command(flatten)]
    template: NodeArgs,
    /// Import the objects of a real cluster, as printed by kubectl: files, directories or - for standard input
    ///
    /// The nodes are simulated under their own names, and the pods keep running on them.
    #[arg(long, num_args = 1.., value_name = "DUMP")]
    from: Vec<String>,
    /// Apply these manifests at startup: files, directories or - for standard input
    #[arg(short, long = "filename", num_args = 1.., value_name = "FILE")]
    files: Vec<String>,
    /// Simulate the devices of these objects SimulatedDevices for dynamic resource allocation: files, directories or - for
    /// standard input
    #[arg(long, num_args = 1.., value_name = "FILE")]
    devices: Vec<String>,
    /// Exit when every pod runs or is known to be unschedulable, and show the placement
    #[arg(long)]
    exit_when_settled: bool,
    /// With --exit-when-settled: exit with code 1 after this time
    #[arg(long, value_name = "DURATION", requires = "exit_when_settled", value_parser = duration)]
    timeout: Option<Duration>,
    /// With --exit-when-settled: node label whose values are the columns of the summary
    #[arg(long, value_name = "KEY", default_value = "topology.kubernetes.io/zone")]
    topology_key: String,
    /// Schedule pods with this schedulerName; can be repeated [default: default-scheduler and berth, or the profiles of
    /// --config]
    #[arg(long, value_name = "NAME")]
    scheduler_name: Vec<String>,
    #[command(flatten)]
    limits: scheduler::LimitArgs,
    /// Do not run the enforcer
    #[arg(long, conflicts_with_all = ["rebalance", "descheduler_policy"])]
    no_enforcer: bool,
    #[command(flatten)]
    rebalance: RebalanceArgs,
    #[command(flatten)]
    hold: HoldArgs,
    #[command(flatten)]
    rules: RulesArgs,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    admission: AdmissionArgs,
    #[command(flatten)]
    timing: TimingArgs,
    #[command(flatten)]
    provisioner: ProvisionerArgs,
    /// Serve the console of the cluster, which shows it in the browser, at this loopback address
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:8080")]
    console: Option<SocketAddr>,
    /// Let viewers of the console apply the changes of a what-if to the cluster, after a confirmation
    #[arg(long, requires = "console")]
    allow_changes: bool,
    /// Do not show the live summary
    #[arg(long)]
    no_summary: bool,
    #[command(flatten)]
    log: LogArgs,
}

/// The input, read before the cluster starts.
struct Input {
    settings: Settings,
    is_configured: bool,
    dump: Vec<Value>,
    manifests: Vec<Manifest>,
    devices: Vec<DeviceTemplate>,
}

/// Runs the cluster until SIGINT or SIGTERM, or until it has settled.
pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    args.log.start();
    let dump = read_dump_objects(&args.from)?;
    let (mut configurations, mut manifests) = (Vec::new(), Vec::new());
    let mut unknown = UnknownFields::default();
    read_each(&args.files, |manifest| {
        unknown.find(&manifest);
        match Kind::of(&manifest.api_version, &manifest.kind) {
            Some(Kind::KubeSchedulerConfiguration) => configurations.push(manifest),
            _ => manifests.push(manifest),
        };
    })?;
    let mut devices = Vec::new();
    read_each(&args.devices, |manifest| devices.push(manifest))?;
    let devices = devices.iter().map(|manifest| {
        let place = manifest.source.clone();
        DeviceTemplate::read(manifest).map_err(|error| CliError::Devices { place, error: error.into() })
    });
    let devices = devices.collect::<Result<_, _>>()?;
    // The API server would refuse their objects when the cluster runs.
    let unknown = unknown.messages(&find_inputs(&args.files)?);
    if !unknown.is_empty() {
        return Err(CliError::UnknownFields(unknown));
    }
    let settings = args.rules.settings(&configurations, None)?;
    let is_configured = args.rules.is_configured() || !configurations.is_empty();
    let input = Input { settings, is_configured, dump, manifests, devices };
    let begin = Instant::now();
    runtime::run(async move |stop| up(args, input, begin, stop).await)
}

async fn up(
    args: &Args,
    input: Input,
    begin: Instant,
    stop: CancellationToken,
) -> Result<ExitStatus, CliError> {
    let Input { settings, is_configured, dump, manifests, devices } = input;
    let names = &args.scheduler_name;
    let mut scheduler = scheduler::options(
        settings.clone(),
        names,
        is_configured,
        &[DEFAULT_SCHEDULER_NAME, SCHEDULER_NAME],
    )?;
    scheduler.record = args.record.options();
    scheduler.cache_limit = usize::MAX;
    scheduler.pod_limits = args.limits.limits();
    let mut server = args.server.options(settings.extensions, settings.config.feature_gates);
    let served: Vec<_> =
        scheduler.settings.config.profiles.iter().map(|profile| profile.scheduler_name.clone()).collect();
    let admission = args.admission.put_into(&mut server, &served)?;
    let rules = scheduler.settings.clone();
    let holds = args.hold.holds()?;
    let rebalance = args.rebalance.options(&served)?;
    // First: with an address that cannot be used, nothing starts.
    let mut console_address = match args.console {
        Some(address) => Some(Bound::new(console::loopback(address, true)?).await?),
        None => None,
    };
    let server = ApiServer::start(server).await?;
    let mut components = Components::new(stop.child_token());
    let outcome = async {
        server.import(dump).await?;
        let client = connect::client(server.admin_config())?;
        if let Some(admission) = &admission {
            apply(&client, installation::placement_policy_definitions()?).await?;
            let config = server.component_config("berth-admission");
            admission_args::follow(admission.clone(), config, &mut components).await?;
        }
        args.provisioner.install(client.clone()).await?;
        let enforcer = || EnforcerOptions {
            holds: holds.clone(),
            rebalance: rebalance.clone(),
            cache_limit: usize::MAX,
            ..enforcer::options(settings.clone())
        };
        let enforcer = (!args.no_enforcer).then(enforcer);
        let ran = if args.exit_when_settled { placed_pods(&client).await? } else { HashSet::new() };
        start_components(args, settings, devices, &server, &mut components)?;
        let scheduler = berth_scheduler::start(
            server.component_config("kube-scheduler"),
            scheduler,
            components.stop_token(),
        )
        .await?;
        let scheduled = scheduler.status();
        components.start("scheduler", |_| scheduler.stopped());
        let enforced = match enforcer {
            Some(options) => {
                let config = server.component_config("berth-enforcer");
                let enforcer = berth_enforcer::start(config, options, components.stop_token()).await?;
                let enforced = enforcer.status();
                components.start("enforcer", |_| enforcer.stopped());
                Some(enforced)
            }
            None => None,
        };
        if !args.exit_when_settled {
            output::kubeconfig_line(server.kubeconfig_path())?;
        }
        output::note(&format!("ready in {} at {}", elapsed(begin.elapsed()), server.url()));
        if let Some(mut bound) = console_address.take() {
            let options = SimulationOptions {
                settings: rules.clone(),
                pending_for: PendingFor::Until(jiff::Timestamp::now()),
                ..SimulationOptions::default()
            };
            let state = Console::new(console::live_state("berth up", options)?);
            let ledger = EnforcerOptions::default().ledger_namespace;
            console::follow(
                state.clone(),
                client.clone(),
                WatchGroup::new(usize::MAX),
                ledger,
                components.stop_token(),
            );
            bound.options.write = args.allow_changes.then(|| writer::as_client(client.clone()));
            console::serve_at(state, bound, components.stop_token()).await?;
        }
        let statuses = Statuses { scheduler: scheduled, enforcer: enforced };
        let work = attend(args, client, manifests, admission, (ran, rules), statuses, &stop);
        tokio::select! {
            answer = work => answer,
            failed = components.failed() => failed.map(|()| ExitStatus::Success).map_err(CliError::from),
        }
    };
    let outcome = outcome.await;
    components.stop().await;
    server.shutdown().await;
    outcome
}

fn start_components(
    args: &Args,
    settings: Settings,
    devices: Vec<DeviceTemplate>,
    server: &ApiServer,
    components: &mut Components,
) -> Result<(), CliError> {
    let client = connect::client(server.component_config("kube-controller-manager"))?;
    let controllers = args.provisioner.controllers(settings.config.feature_gates);
    let running = |stop| berth_controllers::run(client, controllers, stop).map(Ok::<(), String>);
    components.start("controllers", running);
    let kubelet = KubeletOptions {
        templates: args.n_simulated_nodes().map(|n| args.template.template(n)).into_iter().collect(),
        // No other kubelet runs the nodes of a dump, of manifests, or of an earlier run.
        adopt: Adopt::All,
        csi_drivers: args.template.csi_drivers(),
        credentials: NodeCredentials::Tokens(Arc::new(server.node_tokens())),
        admission: settings,
        ..args.timing.options()
    };
    let config = server.component_config("berth-kubelet");
    components.start("kubelet", |stop| berth_kubelet::run(config, kubelet, stop));
    if !devices.is_empty() {
        let config = server.component_config("berth-device-driver");
        components.start("device driver", |stop| berth_kubelet::run_device_driver(config, devices, stop));
    }
    Ok(())
}

impl Args {
    fn n_simulated_nodes(&self) -> Option<u64> {
        let default = if self.from.is_empty() { DEFAULT_NODES } else { 0 };
        Some(self.nodes.unwrap_or(default)).filter(|n| *n > 0)
    }
}

/// Statuses that the components publish.
struct Statuses {
    scheduler: watch::Receiver<Status>,
    enforcer: Option<watch::Receiver<berth_enforcer::Status>>,
}

/// Applies the manifests and shows the summary while the components run.
async fn attend(
    args: &Args,
    client: Client,
    manifests: Vec<Manifest>,
    admission: Option<Arc<AdmissionController>>,
    (ran, rules): (HashSet<NamespacedName>, Settings),
    statuses: Statuses,
    stop: &CancellationToken,
) -> Result<ExitStatus, CliError> {
    if args.no_summary && !args.exit_when_settled {
        print_notes(apply_after_policies(&client, manifests, admission.as_deref()).await?);
        stop.cancelled().await;
        return Ok(ExitStatus::Success);
    }
    let Statuses { scheduler, enforcer } = statuses;
    let mut overview = Overview::start(client.clone(), StatusLine::new(!args.no_summary), enforcer);
    let work = async {
        let applied = overview.until(apply_after_policies(&client, manifests, admission.as_deref())).await?;
        overview.suspend(|| print_notes(applied));
        let criteria = || SettleCriteria {
            n_nodes: args.n_simulated_nodes().unwrap_or(0) as usize,
            is_scheduler_idle: || std::future::ready(is_idle(&scheduler.borrow())),
            timeout: args.timeout,
        };
        if !args.exit_when_settled {
            let (mut reported, mut known) = (Default::default(), 0);
            loop {
                overview.until_failures(known).await;
                overview.until_settled(criteria()).await?;
                known = overview.observed().history().version;
                let (Outcome { failures, not_running, .. }, preemptions) =
                    outcome(args, &client, &overview, (&ran, rules.clone())).await?;
                let (mut text, mut unplaced) = (Vec::new(), Vec::new());
                let reasons =
                    Reasons { failures: &failures, not_running: &not_running, preemptions: &preemptions };
                output::text(&mut text, |out| write_parts(out, &placement::running(reasons).parts))?;
                let reasons = Reasons { not_running: &[], ..reasons };
                output::text(&mut unplaced, |out| write_parts(out, &placement::running(reasons).parts))?;
                // Each attempt of a controller has other pods.
                let groups = not_running.into_iter();
                let groups: Vec<_> = groups.map(|g| (g.workload, g.why.short(), g.pods.len())).collect();
                let report = (unplaced, groups);
                if !text.is_empty() && report != reported {
                    overview.suspend(|| _ = anstream::stderr().write_all(&text));
                    reported = report;
                }
            }
        }
        let result = overview.until_settled(criteria()).await?;
        overview.clear();
        show(args, &client, &overview, (&ran, rules), &result).await
    };
    tokio::select! {
        answer = work => answer,
        () = stop.cancelled() => Ok(if args.exit_when_settled { ExitStatus::Failure } else { ExitStatus::Success }),
    }
}

/// Whether no pod is queued for a scheduling attempt.
fn is_idle(scheduler: &Status) -> bool {
    let QueueCounts { active, backoff, in_flight, .. } = scheduler.queue;
    scheduler.is_ready() && active + backoff + in_flight == 0
}

/// Prints notes about the applied manifests.
fn print_notes(applied: Applied) {
    let Applied { n_objects, warnings, skipped, namespaces } = applied;
    warnings.iter().for_each(output::warning);
    if !namespaces.is_empty() {
        output::note(&format!("created missing namespaces: {}", namespaces.join(", ")));
    }
    if !skipped.is_empty() {
        let kinds: Vec<_> = skipped.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        output::note(&format!("ignored kinds that the API server does not serve: {}", kinds.join(", ")));
    }
    if n_objects > 0 {
        output::note(&format!("{} applied", counted(n_objects, "object")));
    }
}

/// The placement of all pods, with explained failures, and the preemptions.
async fn outcome(
    args: &Args,
    client: &Client,
    overview: &Overview,
    (ran, rules): (&HashSet<NamespacedName>, Settings),
) -> Result<(Outcome, Vec<PreemptionRow>), CliError> {
    // Before anything is waited for: the controllers go on.
    let mut outcome = Outcome::new(overview.observed(), overview.workloads(), ran, &args.topology_key);
    if !outcome.failures.is_empty() {
        let mut inventory = Inventory::default();
        live::read(client, "the cluster", &mut inventory, &ProgressBar::hidden()).await?;
        let pending_for = PendingFor::Until(jiff::Timestamp::now());
        let options = SimulationOptions { settings: rules, pending_for, ..SimulationOptions::default() };
        match Simulation::new(inventory, options) {
            Ok(mut simulation) => summary::explain(&mut outcome.failures, &mut simulation),
            Err(error) => output::warning(&format!("the unplaced pods are not explained: {error}")),
        }
    }
    Ok((outcome, preemptions(overview.observed())))
}

/// Shows the placement of all pods.
async fn show(
    args: &Args,
    client: &Client,
    overview: &Overview,
    cluster: (&HashSet<NamespacedName>, Settings),
    result: &SettleResult,
) -> Result<ExitStatus, CliError> {
    let (outcome, preemptions) = outcome(args, client, overview, cluster).await?;
    let Outcome { rows, summary, failures, not_running } = &outcome;
    let mut out = output::stdout();
    let reasons = Reasons { failures, not_running, preemptions: &preemptions };
    let report = placement::report(rows, Columns::Narrow, summary, &[], reasons);
    output::text(&mut out, |out| write(out, &report))?;
    out.flush()?;
    if let SettleResult::TimedOut(why) = result {
        output::warning(&format!("timed out before the cluster settled: {why}"));
    }
    let is_good = *result == SettleResult::Settled && outcome.summary.n_not_running() == 0;
    Ok(if is_good { ExitStatus::Success } else { ExitStatus::Failure })
}

/// The pods that already have a node.
async fn placed_pods(client: &Client) -> Result<HashSet<NamespacedName>, CliError> {
    let pods: Vec<ObservedObject> = list(client, &WatchOptions::new(PODS.path(""))).await?;
    Ok(pods.iter().filter(|p| p.node().is_some()).map(|p| p.metadata.namespaced_name()).collect())
}
