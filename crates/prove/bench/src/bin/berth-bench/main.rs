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
  berth-bench crates/prove/bench/workloads/performance-config.yaml --case BoundVolumes
  berth-bench scale --nodes 100000 --pods 100000
  berth-bench dump --nodes 5000 --pods 150000 > dump.json
  berth-bench load dump.json
  berth-bench bind --nodes 5000,50000
  berth-bench list --pods 150000";

const ENVIRONMENT: &str = "\
bind runs components as processes of the program `berth` in the directory of this program; the \
                           environment variable BERTH_BIN names another one.";

const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 a workload failed or a placement violates a rule, 2 invalid input or usage";

/// Measure scheduling performance
///
/// Runs the workloads of a scheduler_perf file of Kubernetes, each in a new engine, and measures every decision of the
/// measured phase, including the assignment of the pod. Reading and preparing pods is not part of a decision. Every
/// decision considers all nodes. Unschedulable pods preempt others. Operations that take time (churn, deletePods,
/// sleep) follow a clock on which a decision takes 5 ms. Workloads that need more are reported as not supported, with the
/// operation.
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
