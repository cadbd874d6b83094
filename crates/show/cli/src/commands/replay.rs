//! `berth replay`.

use std::io::Write;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::time::rfc3339;
use berth_api::syntax::format::counted;
use berth_console::pictures;
use berth_console::report::{Part, Report, line};
use berth_engine::Settings;
use berth_input::config::{Profile, SchedulerConfig};
use berth_simulate::replay::{Difference, JournalReplay, Timeline, TimelineRecorder, replay};
use berth_terminal::output;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;
use indicatif::ProgressBar;
use serde::Serialize;

use super::feature_gate_args::FeatureGateArgs;
use super::rules_args::{config_in_file, resolve};
use crate::error::CliError;
use crate::pictures::{PictureFormat, PictureOutputArgs};
use crate::recordings::{Contents, Journal, find_recordings};
use crate::render::difference;
use crate::render::report::write_part;

/// Re-run recorded scheduling decisions and show the differences
///
/// A recording is the journal of a scheduler (`berth scheduler --record`, `berth record --live`), or has scenarios with the
/// answers of kube-scheduler: the verdict or scores of each node, the selected node and the message. After each decision, the
/// recorded placement is applied, so that a difference does not cascade. See docs/recordings.md for the formats. With
/// --timeline, it also shows what happened when.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth replay recordings/
  berth replay recordings/ --config scheduler.yaml
  berth replay conformance/*.jsonl.gz
  berth replay --limit 1000 -o json recording.jsonl
  berth replay -o svg recordings/ > timeline.svg
  zcat recording.jsonl.gz | head -100 | berth replay -

Exit codes: 0 no differences, 1 differences, 2 invalid input or usage")]
pub struct Args {
    /// Recordings with one JSON object per line, optionally compressed with gzip: files, directories or - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Decide by this KubeSchedulerConfiguration v1 instead of the recorded one: the differences are its effect
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// Maximum number of differences to show; all are counted
    #[arg(long, default_value_t = 20, value_name = "N")]
    limit: usize,
    /// Show decisions, evictions, pending pods and broken rules over the time of a journal; -o svg and html draw them
    #[arg(long)]
    timeline: bool,
    #[command(flatten)]
    gates: FeatureGateArgs,
    #[command(flatten)]
    output: PictureOutputArgs,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Findings {
    /// Scenarios, or files of a journal.
    n_scenarios: usize,
    n_steps: usize,
    n_differences: usize,
    /// Scenarios whose answers equal those that the reference gives with its faults corrected, and not those that it gave.
    n_corrected: usize,
    /// The first differences, up to the limit.
    differences: Vec<Difference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeline: Option<Timeline>,
}

/// Shows differences as they are found.
struct ReplayReport<'a, W: Write> {
    args: &'a Args,
    out: W,
    progress: &'a ProgressBar,
    findings: Findings,
    timeline: Option<TimelineRecorder>,
    /// Those that decide instead of the recorded ones.
    gates: Option<FeatureGates>,
}

impl<W: Write> ReplayReport<'_, W> {
    fn add(&mut self, n_steps: usize, differences: Vec<Difference>) -> Result<(), CliError> {
        self.findings.n_steps += n_steps;
        for found in differences {
            self.findings.n_differences += 1;
            if self.findings.n_differences > self.args.limit {
                continue;
            }
            if self.args.output.format == PictureFormat::Table {
                let mut part = Part::default();
                difference::add(&mut part, &found);
                self.progress.suspend(|| {
                    write_part(&mut self.out, &part)?;
                    self.out.flush()
                })?;
            }
            self.findings.differences.push(found);
        }
        Ok(())
    }

    fn journal(
        &mut self,
        mut journal: Journal<'_>,
        config: Option<&SchedulerConfig>,
    ) -> Result<(), CliError> {
        let mut settings =
            Settings::try_from(&journal.header.settings).map_err(|e| journal.error(e.into()))?;
        if let Some(config) = config {
            settings.config = with_names(config, &settings.config);
        }
        if let Some(gates) = self.gates {
            settings.config.feature_gates = gates;
        }
        let mut replay = JournalReplay::new(&journal.header, settings).map_err(|e| journal.error(e))?;
        self.findings.n_scenarios += 1;
        while let Some(entry) = journal.next() {
            let entry = entry?;
            if let Some(differences) = replay.repeat(&entry).map_err(|e| journal.error(e))? {
                self.add(1, differences)?;
            }
            if let Some(timeline) = &mut self.timeline {
                timeline.add(&mut replay, &entry);
            }
            replay.apply(entry).map_err(|e| journal.error(e))?;
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.end(&mut replay);
        }
        if journal.is_cut {
            let file = journal.file();
            let text = format!("{file}: ends in the middle: its scheduler was killed, or is still writing");
            self.progress.suspend(|| output::note(&text));
        }
        Ok(())
    }
}

/// The configuration with the recorded feature gates; if it has one profile, also under the recorded scheduler names.
fn with_names(config: &SchedulerConfig, recorded: &SchedulerConfig) -> SchedulerConfig {
    let mut config = SchedulerConfig { feature_gates: recorded.feature_gates, ..config.clone() };
    if let [only] = config.profiles.as_slice() {
        let only = only.clone();
        for Profile { scheduler_name, .. } in &recorded.profiles {
            if config.profile(scheduler_name).is_none() {
                config.profiles.push(Profile { scheduler_name: scheduler_name.clone(), ..only.clone() });
            }
        }
    }
    config
}

pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    let inputs = find_recordings(&args.files)?;
    let gates = args.gates.gates(None);
    let config = args
        .config
        .as_ref()
        .map(|path| config_in_file(path).and_then(|file| resolve(&file, true, gates)))
        .transpose()?;
    let progress = progress::of_bytes(&inputs);
    let is_drawn = matches!(args.output.format, PictureFormat::Svg | PictureFormat::Html);
    let timeline = (args.timeline || is_drawn).then(TimelineRecorder::default);
    let (out, findings) = (output::stdout(), Findings::default());
    let mut report = ReplayReport {
        args,
        out,
        progress: &progress,
        findings,
        timeline,
        gates: args.gates.is_given().then_some(gates),
    };
    for input in &inputs {
        let n_before = report.findings.n_scenarios;
        match Contents::open(input, |n_bytes| progress.inc(n_bytes))? {
            Contents::Journal(journal) => report.journal(journal, config.as_ref())?,
            Contents::Scenarios(scenarios) => {
                for recording in scenarios {
                    let mut recording = recording?;
                    if let Some(config) = &config {
                        recording.scenario.config = Some(config.to_value());
                    }
                    let replayed = replay(&recording, gates);
                    report.findings.n_scenarios += 1;
                    report.findings.n_corrected += usize::from(replayed.is_corrected);
                    report.add(replayed.n_steps, replayed.differences)?;
                }
            }
        }
        if report.findings.n_scenarios == n_before {
            output::warning(&format!("{}: no recordings found", input.name()));
        }
    }
    let ReplayReport { mut out, mut findings, timeline, .. } = report;
    progress.finish_and_clear();
    findings.timeline = timeline.map(TimelineRecorder::timeline);
    if findings.timeline.as_ref().is_some_and(|timeline| timeline.intervals.is_empty()) {
        let text = "--timeline, -o svg and -o html need the journal of a scheduler: see docs/recordings.md";
        return Err(CliError::Usage(text.to_owned()));
    }
    let draw = |_| findings.timeline.iter().map(pictures::timeline).collect();
    let has_differences = args.output.format != PictureFormat::Table;
    args.output.write(&mut out, &findings, ("Replay", &shown(&findings, has_differences)), draw)?;
    out.flush()?;
    Ok(if findings.n_differences == 0 { ExitStatus::Success } else { ExitStatus::Failure })
}

/// The totals and the timeline. As text, the differences have been written as they were found.
fn shown(findings: &Findings, has_differences: bool) -> Report {
    let Findings { n_scenarios, n_steps, n_differences, n_corrected, differences, timeline } = findings;
    let mut report = Report { is_good: *n_differences == 0, ..Report::default() };
    let (scenarios, steps) = (counted(*n_scenarios, "scenario"), counted(*n_steps, "step"));
    report.verdict.push(line![format!("{scenarios}, {steps}, {}", counted(*n_differences, "difference"))]);
    if *n_corrected > 0 {
        let scenarios = counted(*n_corrected, "scenario");
        report.verdict.push(line![format!("{scenarios} with the corrected answers (fixedSteps)")]);
    }
    if let n @ 1.. = n_differences - differences.len() {
        let hidden = counted(n, "more difference");
        report.verdict.push(line![format!("{hidden}; use --limit {n_differences} to show all")]);
    }
    if has_differences {
        let part = report.part("Differences");
        differences.iter().for_each(|found| difference::add(part, found));
    }
    // The intervals in which something happened or changed.
    let mut before = None;
    let changed = timeline.iter().flat_map(|timeline| &timeline.intervals).filter(|interval| {
        let state = (interval.n_pending, interval.n_broken_rules);
        before.replace(state) != Some(state) || interval.n_decisions + interval.n_evictions > 0
    });
    let headings = ["From", "Decisions", "Evictions", "Pending", "Broken rules"];
    report.part("Timeline").table(&headings, changed, usize::MAX, |of| {
        line![rfc3339(of.begin), of.n_decisions, of.n_evictions, of.n_pending, of.n_broken_rules]
    });
    report
}
