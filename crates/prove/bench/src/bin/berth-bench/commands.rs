//! The commands: each runs a benchmark, whose parameters are its arguments, and writes the report.

use std::future::Future;
use std::io::Write;

use berth_bench::churn::{self, Churn};
use berth_bench::dra::{self, Dra, DraCase};
use berth_bench::enforce::{self, Enforce};
use berth_bench::groups::{self, Groups};
use berth_bench::load::Loader;
use berth_bench::ops::{Bench, Op};
use berth_bench::preempt::{self, Preempt};
use berth_bench::rebalance::{self, Rebalance};
use berth_bench::scale::{self, Scale};
use berth_bench::volumes::{self, VolumeCase, Volumes};
use berth_bench::{count, dump, measure};
use berth_terminal::input::find_inputs;
use berth_terminal::output::{self, OutputArgs};
use berth_terminal::process::ExitStatus;
use berth_terminal::progress::{self, ProgressBar};
use berth_terminal::runtime;
use clap::Subcommand;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::cluster;
use crate::cluster::bind::{self, Bind};
use crate::cluster::console::{self, ConsoleBench};
use crate::cluster::list::{self, ListBench};
use crate::cluster::settle::{self, Settle};
use crate::cluster::soak::{self, Soak};
use crate::cluster::webhook::{self, WebhookBench};
use crate::error::BenchError;
use crate::render::{bind as of_bind, cluster as of_cluster, engine as of_engine};

/// The commands beside the workloads of a file.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Schedule pods of forty templates in a generated cluster, and check the placement
    ///
    /// The cluster has racks of 40 nodes in ten zones; some nodes have taints, sizes and disks differ. Pods come from the
    /// templates in turn: with zone affinity, hostname anti-affinity, preferences, node affinity, spread constraints, or no
    /// rules. At the end, a check that shares no code with the engine verifies all required rules, capacities and spread
    /// constraints.
    Scale(Args<Scale>),
    /// Schedule pods with one claim each, and check the placement and the volumes
    ///
    /// The cluster is that of `berth-bench scale`; every node can attach 32 volumes. Each case has its own engine: claims that
    /// are bound to zonal volumes, claims whose volumes are to be provisioned (half of them in half of the zones), and claims
    /// that need one of as many existing zonal volumes. At the end, a check that shares no code with the engine verifies the
    /// nodes of the pods, and the claims and volumes with all decisions carried out.
    Volumes(Args<Volumes>),
    /// Schedule pods with one claim of devices each, and check the allocations
    ///
    /// The nodes are those of `berth-bench scale`, each with some devices. Each case has its own engine: one device by the
    /// selectors of its class and of the request, two devices with an attribute in common, and partitions of devices with shared
    /// counters. A check that shares no code with the engine verifies that no device is allocated twice, and counters and
    /// attributes.
    Dra(Args<Dra>),
    /// Create and delete pods with their own rules, and show memory and decision rate after each round
    ///
    /// The pods of a round have labels, selectors and namespaces that no other pod has. One of 50 nodes is replaced before
    /// each round by a node with a new name, and every 40 new nodes have a new rack. With --scheduler, an API server and a
    /// scheduler run as processes, and the memory shown is the scheduler's.
    Churn(Args<ChurnArgs>),
    /// Measure how fast objects are read into an engine
    Load(Args<LoadArgs>),
    /// Print a generated cluster as kubectl does, including fields that do not affect placement
    Dump(DumpArgs),
    /// Repeat one engine operation, for tools that count instructions
    Ops(Args<OpsArgs>),
    /// Measure how fast rule violations are detected after label changes on many nodes
    ///
    /// Seven of ten pods have rules that are required during execution: a node label, a pod in the same zone, or no similar
    /// pod on the same node. In each round the nodes lose the label, every second one also its zone, and then get both back.
    /// Each result is compared with a check of all pods.
    Enforce(Args<Enforce>),
    /// Measure how fast pods of high priority preempt others in a full cluster
    ///
    /// Every node is full of pods of low priority, and each incoming pod needs one of them to be evicted. The time of a pod is
    /// that of the decision that finds no node, the selection of the victim, its removal, and the second decision. The pods
    /// have no rules, inter-pod rules, victims with disruption budgets, or requests that differ from those of all other pods.
    Preempt(Args<Preempt>),
    /// Schedule pod groups whose members share a zone and avoid each other's nodes, and check the placement
    ///
    /// The groups are decided one after the other, each as a unit. At the end, the output has the groups of which only some
    /// members are placed (there must be none), and a check that shares no code with the engine verifies all required rules.
    Groups(Args<Groups>),
    /// Measure plans of moves: workloads with displaced pods, room for one pending pod, and nodes to be emptied
    ///
    /// Each workload has a hard zone constraint and a soft host name constraint. The output has the time of the plan without reading
    /// the cluster, the values of the goal before and after, the bound, and the number of moves that a plan for the result has (none).
    Rebalance(Args<Rebalance>),
    /// Measure how fast the scheduler binds pods of forty templates through an API server
    ///
    /// API server and scheduler are processes, and every binding is durable before it is acknowledged. Nodes and pending pods
    /// are created first; then the scheduler starts. The output has the times from the start of the scheduler, and the
    /// processor time for each binding by part, without the first tenth of the bindings. At the end, a check that shares no
    /// code with the engine verifies the placement.
    Bind(Args<Bind>),
    /// Measure how long a `berth up` cluster takes to run Deployments with forty pod templates
    ///
    /// The cluster with its simulated nodes is a separate process. The output has the time from the first Deployment until all
    /// pods run, the memory of the process, and the latency of requests.
    Up(Args<Settle>),
    /// Measure how long the API server takes to list many pods, page by page and at once
    ///
    /// Server and client share the process. Pages are requested as JSON and as the tables that `kubectl get pods -A` requests.
    /// The time of a page depends on its own size, not on the number of pods: compare the first page, the median and the last.
    List(Args<ListBench>),
    /// Measure the review rate of the webhook over persistent TLS connections
    ///
    /// The webhook and the API server that it watches are separate processes. The output has the reviews per second, by wall
    /// clock and by processor time of the webhook, for each kind of review and for a mix of all.
    Webhook(Args<WebhookBench>),
    /// Measure the console on a large cluster
    ///
    /// Builds the engine's state of a generated cluster, then that of the console, and compares their memory. Then each page is
    /// requested twice: the first time it is rendered. At the end, pods change once a second while pages are open, and every
    /// page is requested again after each event about a change. Server and clients share the process.
    Console(Args<ConsoleBench>),
    /// Load a `berth up` cluster at a constant rate, and show whether memory, latency, file descriptors and disk size stay flat
    ///
    /// The cluster is a process with a data directory. The load rolls Deployments out, scales them, evicts and relabels pods,
    /// and relabels and replaces nodes, in turn. The trends leave out the first quarter of the time.
    Soak(Args<Soak>),
}

/// The parameters of a benchmark, and the format of its report.
#[derive(Debug, clap::Args)]
pub struct Args<P: clap::Args> {
    #[command(flatten)]
    size: P,
    #[command(flatten)]
    output: OutputArgs,
}

/// The size of a churn benchmark, and what is measured.
#[derive(Debug, clap::Args)]
pub struct ChurnArgs {
    #[command(flatten)]
    churn: Churn,
    /// Run an API server and a scheduler as processes
    #[arg(long)]
    scheduler: bool,
}

/// What to load.
#[derive(Debug, clap::Args)]
pub struct LoadArgs {
    /// Objects in YAML or JSON: files, directories or -
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
}

/// The size of a dump.
#[derive(Debug, clap::Args)]
pub struct DumpArgs {
    /// Number of nodes
    #[arg(long, value_name = "N", value_parser = count(1..=9_999_999))]
    nodes: usize,
    /// Number of pods; they run on the nodes in turn
    #[arg(long, value_name = "N")]
    pods: usize,
    /// Seed for node sizes, labels and taints, and for the order of pods
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// An operation.
#[derive(Debug, clap::Args)]
pub struct OpsArgs {
    /// Number of nodes
    #[arg(long, value_name = "N", value_parser = count(1..=9_999_999))]
    nodes: usize,
    /// Operation: add-pod, remove-pod, decide (for a known rule set), decide-new (for a new rule set) or label-node
    #[arg(long)]
    op: Op,
    /// Number of repetitions
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: usize,
}

impl Command {
    /// Runs the benchmark and writes its report.
    pub fn run(self, out: &mut impl Write) -> Result<ExitStatus, BenchError> {
        let is_good = match self {
            Command::Scale(Args { size, output }) => {
                let report = of_pods(size.pods, |show| scale::run(size, &mut |n| show(n)));
                output.write(out, &report, |out| of_engine::scale(out, &report))?;
                report.check.n_violations == 0
            }
            Command::Volumes(Args { size, output }) => {
                let report =
                    of_pods(size.pods * VolumeCase::ALL.len(), |show| volumes::run(size, &mut |n| show(n)));
                output.write(out, &report, |out| of_engine::volumes(out, &report))?;
                report.n_violations() == 0
            }
            Command::Dra(Args { size, output }) => {
                let report = of_pods(size.pods * DraCase::ALL.len(), |show| dra::run(size, &mut |n| show(n)));
                output.write(out, &report, |out| of_engine::dra(out, &report))?;
                report.n_violations() == 0
            }
            Command::Churn(Args { size: ChurnArgs { churn: size, scheduler }, output }) => {
                let report = with_bar(progress::of_rounds(size.rounds as u64), |show| match scheduler {
                    true => until_interrupted(async |_| cluster::churn::run(size, show).await),
                    false => Ok(churn::run(size, &mut |n| show(n))),
                })?;
                output.write(out, &report, |out| of_engine::churn(out, &report))?;
                true
            }
            Command::Load(Args { size, output }) => {
                let inputs = find_inputs(&size.files)?;
                let progress = progress::of_bytes(&inputs);
                let mut loader = Loader::default();
                for input in &inputs {
                    loader.read(input.open(|n_bytes| progress.inc(n_bytes))?, &input.name())?;
                }
                progress.finish_and_clear();
                let report = loader.report();
                output.write(out, &report, |out| of_engine::load(out, &report))?;
                true
            }
            Command::Dump(DumpArgs { nodes, pods, seed }) => {
                dump::write(out, nodes, pods, seed)?;
                true
            }
            Command::Ops(Args { size: OpsArgs { nodes, op, count }, output }) => {
                let figures = Bench::new(nodes).repeat(op, count).figures();
                let peak_rss_bytes = measure::peak_rss_bytes();
                let report = json!({"op": op.to_string(), "nodes": nodes, "count": figures.decisions,
                    "perSecond": figures.decisions_per_second, "p50Us": figures.p50_us, "p99Us": figures.p99_us,
                    "maxUs": figures.max_us, "peakRssBytes": peak_rss_bytes});
                output.write(out, &report, |out| {
                    of_engine::operation(out, op, nodes, &figures, peak_rss_bytes)
                })?;
                true
            }
            Command::Enforce(Args { size, output }) => {
                let bar = progress::of_rounds(size.rounds as u64);
                let report = with_bar(bar, |show| enforce::run(size, &mut |n| show(n)));
                output.write(out, &report, |out| of_engine::enforce(out, &report))?;
                report.is_right
            }
            Command::Preempt(Args { size, output }) => {
                let n_pods = size.pods * preempt::PreemptKind::ALL.len();
                let report = of_pods(n_pods, |show| preempt::run(size, &mut |n| show(n)));
                output.write(out, &report, |out| of_engine::preempt(out, &report))?;
                true
            }
            Command::Groups(Args { size, output }) => {
                let report = of_pods(size.groups, |show| groups::run(size, &mut |n| show(n)));
                output.write(out, &report, |out| of_engine::groups(out, &report))?;
                report.broken == 0 && report.check.n_violations == 0
            }
            Command::Rebalance(Args { size, output }) => {
                let n_cases = size.displaced.len() + 2;
                let bar = progress::of_rounds(n_cases as u64);
                let reports = with_bar(bar, |show| rebalance::run(&size, &mut |n| show(n)));
                output.write(out, &reports, |out| of_engine::rebalance(out, &reports))?;
                reports.iter().all(|report| report.again == 0)
            }
            Command::Bind(Args { size, output }) => {
                let bar = progress::of_steps(size.n_steps() as u64);
                let report = with_bar(bar, |show| until_interrupted(async |_| bind::run(size, show).await))?;
                output.write(out, &report, |out| of_bind::bind(out, &report))?;
                report.is_good()
            }
            Command::Up(Args { size, output }) => {
                let report =
                    of_pods(size.pods, |show| until_interrupted(async |_| settle::run(size, show).await))?;
                output.write(out, &report, |out| of_cluster::settle(out, &report))?;
                true
            }
            Command::List(Args { size, output }) => {
                let report =
                    of_pods(size.pods, |show| until_interrupted(async |_| list::run(size, show).await))?;
                output.write(out, &report, |out| of_cluster::list(out, &report))?;
                true
            }
            Command::Webhook(Args { size, output }) => {
                let report = until_interrupted(async |_| webhook::run(size).await)?;
                output.write(out, &report, |out| of_cluster::webhook(out, &report))?;
                true
            }
            Command::Console(Args { size, output }) => {
                let show = |text: &str| output::note(&text);
                let report = until_interrupted(async |stop| console::run(size, stop, &show).await)?;
                output.write(out, &report, |out| of_cluster::console(out, &report))?;
                true
            }
            Command::Soak(Args { size, output }) => {
                let report = with_bar(progress::of_rounds(size.seconds()), |show| {
                    until_interrupted(async |_| {
                        soak::run(size, &|sample| show(sample.seconds as usize)).await
                    })
                })?;
                output.write(out, &report, |out| of_engine::soak(out, &report))?;
                report.is_flat
            }
        };
        Ok(if is_good { ExitStatus::Success } else { ExitStatus::Failure })
    }
}

/// Runs a benchmark that reports how many of this many pods are done.
fn of_pods<T>(n_pods: usize, benchmark: impl FnOnce(&dyn Fn(usize)) -> T) -> T {
    let bar = progress::of_pods();
    bar.set_length(n_pods as u64);
    with_bar(bar, benchmark)
}

/// Runs a benchmark that reports its progress, and clears the bar.
fn with_bar<T>(bar: ProgressBar, benchmark: impl FnOnce(&dyn Fn(usize)) -> T) -> T {
    let report = benchmark(&|n_done| bar.set_position(n_done as u64));
    bar.finish_and_clear();
    report
}

/// Runs a benchmark on a new runtime until it or a signal ends it, which also cancels the token.
fn until_interrupted<T, F>(benchmark: impl FnOnce(CancellationToken) -> F) -> Result<T, BenchError>
where
    F: Future<Output = Result<T, BenchError>>,
{
    runtime::run(async |stop| {
        tokio::select! {
            report = benchmark(stop.clone()) => report,
            () = stop.cancelled() => Err(BenchError::Interrupted),
        }
    })
}
