//! `berth-bench FILE`.

use std::io::Write;
use std::path::PathBuf;

use berth_bench::workload::{Status, WorkloadFile};
use berth_terminal::output::OutputArgs;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;

use crate::error::BenchError;
use crate::render::engine as render;

/// The workloads of a scheduler_perf file.
#[derive(Debug, clap::Args)]
pub struct Args {
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

pub fn run(out: &mut impl Write, args: &Args) -> Result<ExitStatus, BenchError> {
    let Some(file) = &args.file else { return Err(BenchError::Other("no file given".to_owned())) };
    let file = WorkloadFile::read(file)?;
    let matches = |filter: &Option<String>, name: &str| filter.as_ref().is_none_or(|filter| filter == name);
    let cases = file.cases.iter().filter(|c| matches(&args.case, &c.name));
    let selected: Vec<_> = cases
        .flat_map(|case| case.workloads.iter().map(move |workload| (case, workload)))
        .filter(|(_, workload)| matches(&args.workload, &workload.name))
        .collect();
    if selected.is_empty() {
        let names: Vec<_> = file.cases.iter().map(|c| c.name.as_str()).collect();
        let text = format!("{}: no matching workload; test cases: {}", file.path.display(), names.join(", "));
        return Err(BenchError::Other(text));
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
