//! `berth bench`.

use std::io::Write;
use std::path::PathBuf;

use berth_bench::enforce::{self, Enforce};
use berth_bench::load::Loader;
use berth_bench::ops::{Bench, Op};
use berth_bench::scale::{self, Scale};
use berth_bench::workload::{Status, WorkloadFile};
use berth_bench::{dump, measure};
use serde_json::json;

use super::bench_webhook::{self, WebhookArgs};
use crate::Answer;
use crate::cluster::runtime;
use crate::cluster_bench;
use crate::cluster_bench::bind::Bind;
use crate::cluster_bench::settle::Settle;
use crate::error::CliError;
use crate::input::find_inputs;
use crate::output::{self, OutputArgs};
use crate::render::cluster_bench as cluster_render;
use crate::render::{bench as render, progress};

/// Measure how fast decisions are made
///
/// Runs the workloads of a file of Kubernetes' scheduler_perf benchmark, each in an engine of its own, and times
/// every decision of the measured phase, the pod's assignment included. Reading and preparing pods is not part
/// of a decision. All nodes are considered. What the engine has no part in (queueing, preemption, churn) is
/// reported as not supported.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  berth bench affinity/performance-config.yaml --case SchedulingPodAffinity --workload 5000Nodes_5000Pods
  berth bench misc/performance-config.yaml --case SchedulingBasic --repeat 5 -o json
  berth bench scale --nodes 100000 --pods 100000
  berth bench dump --nodes 5000 --pods 150000 > dump.json
  berth bench load dump.json
  berth bench ops --nodes 10000 --op decide --count 1000
  berth bench enforce --nodes 5000 --pods 50000 --changed 500
  berth bench bind --nodes 5000 --connections 16
  berth bench up --nodes 1000 --pods 10000
  berth bench webhook --connections 8

Exit codes: 0 measured, 1 a workload is broken or a rule was not kept, 2 bad input or usage"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// A scheduler_perf file (performance-config.yaml); paths in it are relative to it
    #[arg(required = true, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Run this test case only
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Run the workloads of this name only
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Run each workload this many times and show the medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    repeat: u16,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Scale(ScaleArgs),
    Load(LoadArgs),
    Dump(DumpArgs),
    Ops(OpsArgs),
    Enforce(EnforceArgs),
    Bind(BindArgs),
    Up(UpArgs),
    Webhook(WebhookArgs),
}

/// Bind pods through an API server: the scheduler against a client that knows where they go
///
/// The API server is a process of its own. In turn, a bare client binds pods to nodes it knows beforehand, and the
/// scheduler binds the same pods, with inter-pod rules, after finding their nodes. Both have the same number of
/// connections; the same observer times both, without the first tenth of each round. In the end the scheduler's placements
/// are checked by code that is not the engine's.
#[derive(Debug, clap::Args)]
struct BindArgs {
    /// Nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=99_999))]
    nodes: u32,
    /// Pods of each round
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(2..=999_999))]
    pods: u32,
    /// Connections that bind at a time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    connections: u16,
    /// Rounds of either
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Settles the sizes, labels and taints of nodes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// Let a cluster of `berth up` settle under Deployments of forty classes
///
/// The cluster is a process of its own with simulated nodes. Shown are the time from the first Deployment until all
/// pods run, the memory of the process, and how long requests took.
#[derive(Debug, clap::Args)]
struct UpArgs {
    /// Simulated nodes
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=99_999))]
    nodes: u32,
    /// Pods of all Deployments
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    pods: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// Fill a made cluster with pods of forty classes, and check the placement
///
/// Nodes are in racks of 40, racks in ten zones; some have taints, sizes and disks differ. The classes have zone
/// affinity, hostname anti-affinity, preferences, node affinity, spread constraints, or no rules at all, and come
/// in turn. In the end a check that shares no code with the engine looks at every required rule, all capacities
/// and every required spread.
#[derive(Debug, clap::Args)]
struct ScaleArgs {
    /// Nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    nodes: u32,
    /// Pods
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=99_999_999))]
    pods: u32,
    /// Settles the sizes, labels and taints of nodes, and the order of pods
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// Read objects into an engine and show how fast that is
#[derive(Debug, clap::Args)]
struct LoadArgs {
    /// Objects in YAML or JSON: files, directories or -
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Print a made cluster as kubectl would, with everything that is of no interest to placement
#[derive(Debug, clap::Args)]
struct DumpArgs {
    /// Nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    nodes: u32,
    /// Pods, which run on the nodes in turn
    #[arg(long, value_name = "N")]
    pods: u32,
    /// Settles the sizes, labels and taints of nodes, and the order of pods
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Do one operation many times, for tools that count instructions
#[derive(Debug, clap::Args)]
struct OpsArgs {
    /// Nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    nodes: u32,
    /// add-pod, remove-pod, decide (of a known class), decide-new (of a new class) or label-node
    #[arg(long)]
    op: Op,
    /// How many times
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// Label many nodes anew, and show how long it takes to know which rules that breaks
///
/// Seven of ten pods carry rules that are required during execution: on a label of their node, on a pod in their
/// zone, on nobody of their kind on their node. The nodes lose the label, every other one its zone, and get both
/// back. What was followed is compared with a pass over all pods every time.
#[derive(Debug, clap::Args)]
struct EnforceArgs {
    /// Nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    nodes: u32,
    /// Pods
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    pods: u32,
    /// Nodes that are labelled anew at once
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    changed: u32,
    /// How often they are
    #[arg(long, value_name = "N", default_value_t = 21, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Settles the sizes and taints of nodes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// Measures.
pub fn run(args: &Args) -> Result<Answer, CliError> {
    let mut out = output::stdout();
    let answer = match (&args.command, &args.file) {
        (Some(Command::Scale(args)), _) => scale(&mut out, args)?,
        (Some(Command::Load(args)), _) => load(&mut out, args)?,
        (Some(Command::Dump(args)), _) => {
            dump::write(&mut out, args.nodes as usize, args.pods as usize, args.seed)?;
            Answer::Good
        }
        (Some(Command::Ops(args)), _) => ops(&mut out, args)?,
        (Some(Command::Enforce(args)), _) => enforce(&mut out, args)?,
        (Some(Command::Bind(args)), _) => bind(&mut out, args)?,
        (Some(Command::Up(args)), _) => settle(&mut out, args)?,
        (Some(Command::Webhook(args)), _) => bench_webhook::run(&mut out, args)?,
        (None, Some(file)) => workloads(&mut out, args, &WorkloadFile::read(file)?)?,
        (None, None) => return Err(CliError::NotFound("no file is given".to_owned())),
    };
    out.flush()?;
    Ok(answer)
}

fn workloads(out: &mut impl Write, args: &Args, file: &WorkloadFile) -> Result<Answer, CliError> {
    let is_asked = |asked: &Option<String>, name: &str| asked.as_ref().is_none_or(|asked| asked == name);
    let cases = file.cases.iter().filter(|c| is_asked(&args.case, &c.name));
    let asked: Vec<_> = cases
        .flat_map(|case| case.workloads.iter().map(move |workload| (case, workload)))
        .filter(|(_, workload)| is_asked(&args.workload, &workload.name))
        .collect();
    if asked.is_empty() {
        let names: Vec<_> = file.cases.iter().map(|c| c.name.as_str()).collect();
        let text =
            format!("{}: no such workload; the test cases are: {}", file.path.display(), names.join(", "));
        return Err(CliError::NotFound(text));
    }
    let progress = progress::of_pods();
    let mut reports = Vec::new();
    for (case, workload) in asked {
        reports.push(file.run(case, workload, args.repeat.into(), &mut |n_decided, n_pods| {
            progress.set_length(n_pods as u64);
            progress.set_position(n_decided as u64);
        }));
    }
    progress.finish_and_clear();
    args.output.write(out, &reports, |out| render::workloads(out, &reports))?;
    let is_broken = reports.iter().any(|r| r.status == Status::Failed);
    Ok(if is_broken { Answer::Bad } else { Answer::Good })
}

fn scale(out: &mut impl Write, args: &ScaleArgs) -> Result<Answer, CliError> {
    let scale = Scale { nodes: args.nodes as usize, pods: args.pods as usize, seed: args.seed };
    let progress = progress::of_pods();
    progress.set_length(scale.pods as u64);
    let report = scale::run(scale, &mut |n_decided| progress.set_position(n_decided as u64));
    progress.finish_and_clear();
    args.output.write(out, &report, |out| render::scale(out, &report))?;
    Ok(if report.check.n_violations > 0 { Answer::Bad } else { Answer::Good })
}

fn load(out: &mut impl Write, args: &LoadArgs) -> Result<Answer, CliError> {
    let inputs = find_inputs(&args.files)?;
    let progress = progress::of_bytes(&inputs);
    let mut loader = Loader::default();
    for input in &inputs {
        loader.read(input.open(|n_bytes| progress.inc(n_bytes))?, &input.name())?;
    }
    progress.finish_and_clear();
    let report = loader.report();
    args.output.write(out, &report, |out| render::load(out, &report))?;
    Ok(Answer::Good)
}

fn ops(out: &mut impl Write, args: &OpsArgs) -> Result<Answer, CliError> {
    let figures = Bench::new(args.nodes as usize).repeat(args.op, args.count as usize).figures();
    let peak_rss_bytes = measure::peak_rss_bytes();
    let report = json!({"op": args.op.to_string(), "nodes": args.nodes, "count": figures.decisions,
        "per_second": figures.decisions_per_second, "p50_us": figures.p50_us, "p99_us": figures.p99_us,
        "max_us": figures.max_us, "peak_rss_bytes": peak_rss_bytes});
    args.output
        .write(out, &report, |out| render::operation(out, args.op, args.nodes, &figures, peak_rss_bytes))?;
    Ok(Answer::Good)
}

fn enforce(out: &mut impl Write, args: &EnforceArgs) -> Result<Answer, CliError> {
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
    Ok(if report.is_right { Answer::Good } else { Answer::Bad })
}

fn bind(out: &mut impl Write, args: &BindArgs) -> Result<Answer, CliError> {
    let bind = Bind {
        n_nodes: args.nodes as usize,
        n_pods: args.pods as usize,
        n_connections: args.connections.into(),
        n_rounds: args.rounds.into(),
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
    Ok(if report.check.n_violations > 0 { Answer::Bad } else { Answer::Good })
}

fn settle(out: &mut impl Write, args: &UpArgs) -> Result<Answer, CliError> {
    let settle = Settle { n_nodes: args.nodes as usize, n_pods: args.pods as usize, live: true };
    let report = runtime::run(async |stop| {
        tokio::select! {
            report = cluster_bench::settle::run(settle) => Ok(report?),
            () = stop.cancelled() => Err(CliError::Interrupted),
        }
    })?;
    args.output.write(out, &report, |out| cluster_render::settle(out, &report))?;
    Ok(Answer::Good)
}
