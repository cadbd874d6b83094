//! The commands: each runs a benchmark, whose parameters are its arguments, and writes the report.

use std::future::Future;
use std::io::Write;

use berth_bench::dump::{self, Dump};
use berth_bench::load::Loader;
use berth_bench::scale::{self, Scale};
use berth_terminal::input::find_inputs;
use berth_terminal::output::OutputArgs;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress::{self, ProgressBar};
use berth_terminal::runtime;
use clap::Subcommand;

use crate::cluster::bind::{self, Bind};
use crate::cluster::list::{self, ListBench};
use crate::error::BenchError;
use crate::render::{bind as of_bind, engine as of_engine};

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
    /// Measure how fast objects are read into an engine
    Load(Args<LoadArgs>),
    /// Print a generated cluster as kubectl does, including fields that do not affect placement
    Dump(Dump),
    /// Measure how fast the scheduler binds pods of forty templates through an API server
    ///
    /// API server and scheduler are processes, and every binding is durable before it is acknowledged. Nodes and pending pods
    /// are created first; then the scheduler starts. The output has the times from the start of the scheduler, and the
    /// processor time for each binding by part, without the first tenth of the bindings. At the end, a check that shares no
    /// code with the engine verifies the placement.
    Bind(Args<Bind>),
    /// Measure how long the API server takes to list many pods, page by page and at once
    ///
    /// Server and client share the process. Pages are requested as JSON and as the tables that `kubectl get pods -A` requests.
    /// The time of a page depends on its own size, not on the number of pods: compare the first page, the median and the last.
    List(Args<ListBench>),
}

/// The parameters of a benchmark, and the format of its report.
#[derive(Debug, clap::Args)]
pub struct Args<P: clap::Args> {
    #[command(flatten)]
    size: P,
    #[command(flatten)]
    output: OutputArgs,
}

/// What to load.
#[derive(Debug, clap::Args)]
pub struct LoadArgs {
    /// Objects in YAML or JSON: files, directories or -
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
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
            Command::Dump(dump) => {
                dump::write(out, &dump)?;
                true
            }
            Command::Bind(Args { size, output }) => {
                let bar = progress::of_steps(size.n_steps() as u64);
                let report = with_bar(bar, |show| until_interrupted(bind::run(size, show)))?;
                output.write(out, &report, |out| of_bind::bind(out, &report))?;
                report.is_good()
            }
            Command::List(Args { size, output }) => {
                let report = of_pods(size.pods, |show| until_interrupted(list::run(size, show)))?;
                output.write(out, &report, |out| of_engine::list(out, &report))?;
                true
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

/// Runs a benchmark on a new runtime until it or a signal ends it.
fn until_interrupted<T>(benchmark: impl Future<Output = Result<T, BenchError>>) -> Result<T, BenchError> {
    runtime::run(async |stop| {
        tokio::select! {
            report = benchmark => report,
            () = stop.cancelled() => Err(BenchError::Interrupted),
        }
    })
}
