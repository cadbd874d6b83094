//! `berth-bench load`.

use std::io::Write;

use berth_bench::load::Loader;
use berth_terminal::input::find_inputs;
use berth_terminal::output::OutputArgs;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;

use crate::error::BenchError;
use crate::render::engine as render;

/// Measure how fast objects are read into an engine
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Objects in YAML or JSON: files, directories or -
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the benchmark.
pub fn run(out: &mut impl Write, args: &Args) -> Result<ExitStatus, BenchError> {
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
