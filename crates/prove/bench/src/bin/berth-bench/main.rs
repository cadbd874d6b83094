//! `berth-bench`: benchmarks of the engine and of whole clusters.
//!
//! `commands` parses arguments, `cluster` has the benchmarks that run an API server, and `render` writes the text output.
//! The benchmarks of the engine are in the library.

mod cluster;
mod commands;
mod error;
mod render;
mod workloads;

use std::io::Write;
use std::process::ExitCode;

use berth_terminal::output::{self, Color};
use berth_terminal::process::{self, ExitStatus};
use clap::{CommandFactory, Parser};

use crate::commands::Command;
use crate::error::BenchError;

/// The allocator of `berth`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Examples:
  berth-bench affinity/performance-config.yaml --case SchedulingPodAffinity --workload 5000Nodes_5000Pods
  berth-bench misc/performance-config.yaml --case SchedulingBasic --repeat 5 -o json
  berth-bench scale --nodes 100000 --pods 100000
  berth-bench volumes --nodes 5000 --pods 5000
  berth-bench dra --nodes 5000 --devices 8 --pods 20000
  berth-bench churn --nodes 5000 --rounds 60 --pods 1000
  berth-bench dump --nodes 5000 --pods 150000 > dump.json
  berth-bench load dump.json
  berth-bench ops --nodes 10000 --op decide --count 1000
  berth-bench enforce --nodes 5000 --pods 50000 --changed 500
  berth-bench preempt --nodes 1000 --pods 1000
  berth-bench groups --nodes 5000 --groups 500 --members 32
  berth-bench rebalance --nodes 5000 --pods 150000 --displaced 1,5,20
  berth-bench bind --nodes 5000,50000
  berth-bench up --nodes 1000 --pods 10000
  berth-bench list --pods 150000
  berth-bench webhook --connections 8
  berth-bench console --nodes 5000 --pods 150000
  berth-bench soak --minutes 60";

const ENVIRONMENT: &str = "\
bind, up, churn --scheduler, webhook and soak run components as processes of the program `berth` in \
                           the directory of this program; the environment variable BERTH_BIN names another one.";

const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 a workload failed, a placement violates a rule or a value grows, 2 invalid input or usage";

/// Measure scheduling performance
///
/// Runs the workloads of a scheduler_perf file of Kubernetes, each in a new engine, and measures every decision of the
/// measured phase, including the assignment of the pod. Reading and preparing pods is not part of a decision. Every
/// decision considers all nodes. Unschedulable pods preempt others. Operations that take time (churn, deletePods,
/// sleep) follow a clock on which a decision takes 5 ms. Workloads that need more (devices, other operations) are reported
/// as not supported, with the operation.
#[derive(Debug, Parser)]
#[command(
    name = "berth-bench",
    version,
    args_conflicts_with_subcommands = true,
    after_help = format!("{EXAMPLES}\n\n{ENVIRONMENT}\n\n{EXIT_CODES}")
)]
struct Cli {
    /// When to color the output; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    workloads: workloads::Args,
}

fn run(cli: Cli) -> Result<ExitStatus, BenchError> {
    let mut out = output::stdout();
    let status = match cli.command {
        Some(command) => command.run(&mut out),
        None => workloads::run(&mut out, &cli.workloads),
    }?;
    out.flush()?;
    Ok(status)
}

fn main() -> ExitCode {
    let cli: Cli = match process::arguments(Cli::command()) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    cli.color.apply();
    match run(cli) {
        Ok(status) => status.into(),
        Err(BenchError::Output(error)) => process::output_failed(&error),
        Err(error) => {
            output::error(&error);
            ExitCode::from(2)
        }
    }
}
