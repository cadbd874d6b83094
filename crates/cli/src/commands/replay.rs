//! `berth replay`.

use std::io::Write;
use std::path::Path;

use berth_simulate::replay::{Difference, replay};
use serde::Serialize;

use crate::ExitStatus;
use crate::error::CliError;
use crate::input::find_inputs;
use crate::output::{self, Format, OutputArgs};
use crate::recordings::{RecordingError, Recordings};
use crate::render::names::counted;
use crate::render::{difference, progress};

/// Re-run recorded scheduling decisions and show the differences
///
/// A recording contains the answers of kube-scheduler: the verdict or scores of each node, the selected node and the message.
/// Berth's extensions are disabled. After each pod, the recorded placement is applied, so that a difference does not cascade.
/// See docs/recordings.md for the format.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth replay conformance/*.jsonl.gz
  berth replay --limit 1000 -o json recording.jsonl
  zcat recording.jsonl.gz | head -100 | berth replay -

Exit codes: 0 no differences, 1 differences, 2 invalid input or usage")]
pub struct Args {
    /// Recordings with one JSON object per line, optionally compressed with gzip; - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Maximum number of differences to show; all are counted
    #[arg(long, default_value_t = 20, value_name = "N")]
    limit: usize,
    #[command(flatten)]
    output: OutputArgs,
}

/// The result of a replay.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Findings {
    n_scenarios: usize,
    n_steps: usize,
    n_differences: usize,
    /// The first differences, up to the limit.
    differences: Vec<Difference>,
}

/// Replays every file.
pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    if let Some(file) = args.files.iter().find(|f| Path::new(f).is_dir()) {
        return Err(RecordingError::Directory { file: file.clone() }.into());
    }
    let inputs = find_inputs(&args.files)?;
    let progress = progress::of_bytes(&inputs);
    let mut out = output::stdout();
    let mut findings = Findings::default();
    for input in &inputs {
        let mut recordings = Recordings::open(input, |n_bytes| progress.inc(n_bytes))?;
        let n_before = findings.n_scenarios;
        for recording in recordings.by_ref() {
            let replayed = replay(&recording?);
            findings.n_scenarios += 1;
            findings.n_steps += replayed.n_steps;
            for found in replayed.differences {
                findings.n_differences += 1;
                if findings.n_differences > args.limit {
                    continue;
                }
                if args.output.format == Format::Table {
                    progress.suspend(|| {
                        difference::write(&mut out, &found)?;
                        out.flush()
                    })?;
                }
                findings.differences.push(found);
            }
        }
        if findings.n_scenarios == n_before {
            output::warning(&format!("{}: no recordings found", recordings.file()));
        }
    }
    progress.finish_and_clear();
    args.output.write(&mut out, &findings, |out| {
        let Findings { n_scenarios, n_steps, n_differences, differences } = &findings;
        let n_hidden = n_differences - differences.len();
        if n_hidden > 0 {
            let hidden = counted(n_hidden, "more difference");
            writeln!(out, "{hidden}; use --limit {n_differences} to show all")?;
        }
        writeln!(out, "{n_scenarios} scenarios, {n_steps} steps, {n_differences} differences")
    })?;
    out.flush()?;
    Ok(if findings.n_differences == 0 { ExitStatus::Success } else { ExitStatus::Failure })
}
