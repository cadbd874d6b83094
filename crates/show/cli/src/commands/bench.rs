//! `berth bench`.

use std::io::Write;
use std::path::PathBuf;

use berth_bench::enforce::{self, Enforce};
use berth_bench::load::Loader;
use berth_bench::ops::{Bench, Op};
use berth_bench::preempt::{self, Preempt};
use berth_bench::scale::{self, Scale};
use berth_bench::workload::{Status, WorkloadFile};
use berth_bench::{dump, measure};
use serde_json::json;

use super::bench_churn::{self, ChurnArgs};
use super::bench_console::{self, ConsoleArgs};
use super::bench_groups::{self, GroupsArgs};
use super::bench_list::{self, ListArgs};
use super::bench_soak::{self, SoakArgs};
use super::bench_volumes::{self, VolumesArgs};
use super::bench_webhook::{self, WebhookArgs};
use crate::ExitStatus;
use crate::cluster::runtime;
use crate::cluster_bench;
use crate::cluster_bench::bind::Bind;
use crate::cluster_bench::settle::Settle;
use crate::error::CliError;
use crate::input::find_inputs;
use crate::output::{self, OutputArgs};
use crate::render::cluster_bench as cluster_render;
use crate::render::{bench as render, progress};

/// Measure scheduling performance
///
/// Runs the workloads of a scheduler_perf file of Kubernetes, each in a new engine, and measures every decision of the
/// measured phase, including the assignment of the pod. Reading and preparing pods is not part of a decision. Every
/// decision considers all nodes. Pods that fit nowhere preempt others. Operations that take time (churn, deletePods,
/// sleep) follow a clock on which a decision takes 5 ms. Workloads that need more (devices, other operations) are reported
/// as not supported, with the operation.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  berth bench affinity/performance-config.yaml --case SchedulingPodAffinity --workload 5000Nodes_5000Pods
  berth bench misc/performance-config.yaml --case SchedulingBasic --repeat 5 -o json
  berth bench scale --nodes 100000 --pods 100000
  berth bench volumes --nodes 5000 --pods 5000
  berth bench churn --nodes 5000 --rounds 60 --pods 1000
  berth bench dump --nodes 5000 --pods 150000 > dump.json
  berth bench load dump.json
  berth bench ops --nodes 10000 --op decide --count 1000
  berth bench enforce --nodes 5000 --pods 50000 --changed 500
  berth bench preempt --nodes 1000 --pods 1000
  berth bench groups --nodes 5000 --groups 500 --members 32
  berth bench bind --nodes 5000 --connections 16
  berth bench up --nodes 1000 --pods 10000
  berth bench list --pods 150000
  berth bench webhook --connections 8
  berth bench console --nodes 5000 --pods 150000
  berth bench soak --minutes 60

Exit codes: 0 success, 1 a workload failed, a placement violates a rule or a value grows, 2 invalid input or usage"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// scheduler_perf file (performance-config.yaml); its paths are relative to it
    #[arg(required = true, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Run only this test case
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Run only workloads with this name
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Number of runs of each workload; the output has the medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    repeat: u16,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Scale(ScaleArgs),
    Volumes(VolumesArgs),
    Churn(ChurnArgs),
    Load(LoadArgs),
    Dump(DumpArgs),
    Ops(OpsArgs),
    Enforce(EnforceArgs),
    Preempt(PreemptArgs),
    Groups(GroupsArgs),
    Bind(BindArgs),
    Up(UpArgs),
    List(ListArgs),
    Webhook(WebhookArgs),
    Console(ConsoleArgs),
    Soak(SoakArgs),
}

/// Compare the scheduler's binding rate with that of a bare client
///
/// The API server is a separate process. In turn, a bare client binds pods to predetermined nodes, a client that also
/// watches the pods does the same, and the scheduler selects nodes for the same pods, which have inter-pod rules, and
/// binds them. All use the same number of connections, and the same observer measures them, without the first tenth of
/// each round. At the end, a check that shares no code with the engine verifies the scheduler's placements.
#[derive(Debug, clap::Args)]
struct BindArgs {
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

/// Measure how long a `berth up` cluster takes to run Deployments with forty pod templates
///
/// The cluster with its simulated nodes is a separate process. The output has the time from the first Deployment until all
/// pods run, the memory of the process, and the latency of requests.
#[derive(Debug, clap::Args)]
struct UpArgs {
    /// Number of simulated nodes
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=99_999))]
    nodes: u32,
    /// Total number of pods of all Deployments
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    pods: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// Schedule pods of forty templates in a generated cluster, and check the placement
///
/// The cluster has racks of 40 nodes in ten zones; some nodes have taints, sizes and disks differ. Pods come from the
/// templates in turn: with zone affinity, hostname anti-affinity, preferences, node affinity, spread constraints, or no
/// rules. At the end, a check that shares no code with the engine verifies all required rules, capacities and spread
/// constraints.
#[derive(Debug, clap::Args)]
struct ScaleArgs {
    /// Number of nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    nodes: u32,
    /// Number of pods
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=99_999_999))]
    pods: u32,
    /// Seed for node sizes, labels and taints, and for the order of pods
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Select pods by label ranges (Gt and Lt) instead of equal labels: the same decisions, for comparing the rates
    #[arg(long)]
    label_ranges: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Measure how fast objects are read into an engine
#[derive(Debug, clap::Args)]
struct LoadArgs {
    /// Objects in YAML or JSON: files, directories or -
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Print a generated cluster as kubectl does, including fields that do not affect placement
#[derive(Debug, clap::Args)]
struct DumpArgs {
    /// Number of nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    nodes: u32,
    /// Number of pods; they run on the nodes in turn
    #[arg(long, value_name = "N")]
    pods: u32,
    /// Seed for node sizes, labels and taints, and for the order of pods
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Repeat one engine operation, for tools that count instructions
#[derive(Debug, clap::Args)]
struct OpsArgs {
    /// Number of nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    nodes: u32,
    /// Operation: add-pod, remove-pod, decide (for a known rule set), decide-new (for a new rule set) or label-node
    #[arg(long)]
    op: Op,
    /// Number of repetitions
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// Measure how fast rule violations are detected after label changes on many nodes
///
/// Seven of ten pods have rules that are required during execution: a node label, a pod in the same zone, or no similar
/// pod on the same node. In each round the nodes lose the label, every second one also its zone, and then get both back.
/// Each result is compared with a check of all pods.
#[derive(Debug, clap::Args)]
struct EnforceArgs {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    nodes: u32,
    /// Number of pods
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    pods: u32,
    /// Number of nodes whose labels change in each round
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    changed: u32,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 21, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seed for node sizes and taints
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// Measure how fast pods of high priority preempt others in a full cluster
///
/// Every node is full of pods of low priority, and each incoming pod needs one of them to be evicted. The time of a pod is
/// that of the decision that finds no node, the selection of the victim, its removal, and the second decision. The pods
/// have no rules, inter-pod rules, victims with disruption budgets, or requests that differ from those of all other pods.
#[derive(Debug, clap::Args)]
struct PreemptArgs {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    nodes: u32,
    /// Number of incoming pods of each kind; at most one per node is sensible
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    pods: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs a benchmark.
pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    let mut out = output::stdout();
    let answer = match (&args.command, &args.file) {
        (Some(Command::Scale(args)), _) => scale(&mut out, args)?,
        (Some(Command::Volumes(args)), _) => bench_volumes::run(&mut out, args)?,
        (Some(Command::Churn(args)), _) => bench_churn::run(&mut out, args)?,
        (Some(Command::Soak(args)), _) => bench_soak::run(&mut out, args)?,
        (Some(Command::Load(args)), _) => load(&mut out, args)?,
        (Some(Command::Dump(args)), _) => {
            dump::write(&mut out, args.nodes as usize, args.pods as usize, args.seed)?;
            ExitStatus::Success
        }
        (Some(Command::Ops(args)), _) => ops(&mut out, args)?,
        (Some(Command::Enforce(args)), _) => enforce(&mut out, args)?,
        (Some(Command::Preempt(args)), _) => preempt(&mut out, args)?,
        (Some(Command::Groups(args)), _) => bench_groups::run(&mut out, args)?,
        (Some(Command::Bind(args)), _) => bind(&mut out, args)?,
        (Some(Command::Up(args)), _) => settle(&mut out, args)?,
        (Some(Command::List(args)), _) => bench_list::run(&mut out, args)?,
        (Some(Command::Webhook(args)), _) => bench_webhook::run(&mut out, args)?,
        (Some(Command::Console(args)), _) => bench_console::run(&mut out, args)?,
        (None, Some(file)) => workloads(&mut out, args, &WorkloadFile::read(file)?)?,
        (None, None) => return Err(CliError::NotFound("no file given".to_owned())),
    };
    out.flush()?;
    Ok(answer)
}

fn workloads(out: &mut impl Write, args: &Args, file: &WorkloadFile) -> Result<ExitStatus, CliError> {
    let matches = |filter: &Option<String>, name: &str| filter.as_ref().is_none_or(|filter| filter == name);
    let cases = file.cases.iter().filter(|c| matches(&args.case, &c.name));
    let selected: Vec<_> = cases
        .flat_map(|case| case.workloads.iter().map(move |workload| (case, workload)))
        .filter(|(_, workload)| matches(&args.workload, &workload.name))
        .collect();
    if selected.is_empty() {
        let names: Vec<_> = file.cases.iter().map(|c| c.name.as_str()).collect();
        let text = format!("{}: no matching workload; test cases: {}", file.path.display(), names.join(", "));
        return Err(CliError::NotFound(text));
    }
    let progress = progress::of_pods();
    let mut reports = Vec::new();
    for (case, workload) in selected {
        reports.push(file.run(case, workload, args.repeat.into(), &mut |n_decided, n_pods| {
            progress.set_length(n_pods as u64);
            progress.set_position(n_decided as u64);
        }));
    }
    progress.finish_and_clear();
    args.output.write(out, &reports, |out| render::workloads(out, &reports))?;
    let is_broken = reports.iter().any(|r| r.status == Status::Failed);
    Ok(if is_broken { ExitStatus::Failure } else { ExitStatus::Success })
}

fn scale(out: &mut impl Write, args: &ScaleArgs) -> Result<ExitStatus, CliError> {
    let scale = Scale {
        nodes: args.nodes as usize,
        pods: args.pods as usize,
        seed: args.seed,
        label_ranges: args.label_ranges,
    };
    let progress = progress::of_pods();
    progress.set_length(scale.pods as u64);
    let report = scale::run(scale, &mut |n_decided| progress.set_position(n_decided as u64));
    progress.finish_and_clear();
    args.output.write(out, &report, |out| render::scale(out, &report))?;
    Ok(if report.check.n_violations > 0 { ExitStatus::Failure } else { ExitStatus::Success })
}

fn load(out: &mut impl Write, args: &LoadArgs) -> Result<ExitStatus, CliError> {
    let inputs = find_inputs(&args.files)?;
    let progress = progress::of_bytes(&inputs);
    let mut loader = Loader::default();
    for input in &inputs {
        loader.read(input.open(|n_bytes| progress.inc(n_bytes))?, &input.name())?;
    }
    progress.finish_and_clear();
    let report = loader.report();
    args.output.write(out, &report, |out| render::load(out, &report))?;
    Ok(ExitStatus::Success)
}

fn ops(out: &mut impl Write, args: &OpsArgs) -> Result<ExitStatus, CliError> {
    let figures = Bench::new(args.nodes as usize).repeat(args.op, args.count as usize).figures();
    let peak_rss_bytes = measure::peak_rss_bytes();
    let report = json!({"op": args.op.to_string(), "nodes": args.nodes, "count": figures.decisions,
        "per_second": figures.decisions_per_second, "p50_us": figures.p50_us, "p99_us": figures.p99_us,
        "max_us": figures.max_us, "peak_rss_bytes": peak_rss_bytes});
    args.output
        .write(out, &report, |out| render::operation(out, args.op, args.nodes, &figures, peak_rss_bytes))?;
    Ok(ExitStatus::Success)
}

fn enforce(out: &mut impl Write, args: &EnforceArgs) -> Result<ExitStatus, CliError> {
    let enforce = Enforce {
        nodes: args.nodes as usize,
        pods: args.pods as usize,
        changed: args.changed as usize,
        rounds: args.rounds.into(),
        seed: args.seed,
    };
    let progress = progress::of_rounds(args.rounds.into());
    let report = enforce::run(enforce, &mut |n_rounds| progress.set_position(n_rounds as u64));
    progress.finish_and_clear();
    args.output.write(out, &report, |out| render::enforce(out, &report))?;
    Ok(if report.is_right { ExitStatus::Success } else { ExitStatus::Failure })
}

fn preempt(out: &mut impl Write, args: &PreemptArgs) -> Result<ExitStatus, CliError> {
    let preempt = Preempt { nodes: args.nodes as usize, pods: args.pods as usize };
    let progress = progress::of_pods();
    progress.set_length((preempt.pods * preempt::Kind::ALL.len()) as u64);
    let report = preempt::run(preempt, &mut |n_done| progress.set_position(n_done as u64));
    progress.finish_and_clear();
    args.output.write(out, &report, |out| render::preempt(out, &report))?;
    Ok(ExitStatus::Success)
}

fn bind(out: &mut impl Write, args: &BindArgs) -> Result<ExitStatus, CliError> {
    let bind = Bind {
        n_nodes: args.nodes as usize,
        n_pods: args.pods as usize,
        n_connections: args.connections.into(),
        n_rounds: args.rounds.into(),
        records: args.record,
        seed: args.seed,
    };
    let progress = progress::of_pods();
    let report = runtime::run(async |stop| {
        let show = |n_bound: usize, n_all: usize| {
            progress.set_length(n_all as u64);
            progress.set_position(n_bound as u64);
        };
        tokio::select! {
            report = cluster_bench::bind::run(bind, &show) => Ok(report?),
            () = stop.cancelled() => Err(CliError::Interrupted),
        }
    })?;
    progress.finish_and_clear();
    args.output.write(out, &report, |out| cluster_render::bind(out, &report))?;
    Ok(if report.check.n_violations > 0 { ExitStatus::Failure } else { ExitStatus::Success })
}

fn settle(out: &mut impl Write, args: &UpArgs) -> Result<ExitStatus, CliError> {
    let settle = Settle { n_nodes: args.nodes as usize, n_pods: args.pods as usize, show_summary: true };
    let report = runtime::run(async |stop| {
        tokio::select! {
            report = cluster_bench::settle::run(settle) => Ok(report?),
            () = stop.cancelled() => Err(CliError::Interrupted),
        }
    })?;
    args.output.write(out, &report, |out| cluster_render::settle(out, &report))?;
    Ok(ExitStatus::Success)
}
