//! `berth lint`.

use std::collections::{BTreeSet, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use berth_admission::policy::Action;
use berth_admission::{Answer, OfflineAdmission, Policy};
use berth_api::feature_gates::KubernetesVersion;
use berth_api::object::Pod;
use berth_api::read::{SourceLocation, collect_manifests};
use berth_api::syntax::label_key;
use berth_console::report;
use berth_engine::Settings;
use berth_input::inventory::InputError;
use berth_input::policy::RequiredLabels;
use berth_lint::{Finding, LintInput, Objection, RULES, Selection, Severity, UnknownRule};
use berth_simulate::SimulationError;
use berth_terminal::input::{find_inputs, small_text};
use berth_terminal::output;
use berth_terminal::process::ExitStatus;
use clap::ValueEnum;
use serde::Deserialize;
use serde_json::json;

use super::cluster_args::{ClusterArgs, warn};
use super::policy_file;
use super::read_inputs::field_lines;
use crate::error::CliError;
use crate::pictures::{PictureFormat, PictureOutputArgs};
use crate::render::{lint, sarif};

/// The configuration file that is read if it is in the current directory.
const CONFIG: &str = ".berth-lint.yaml";

/// Find placement mistakes in manifests
///
/// Checks Pods and workloads by rules: selectors that match nothing, terms that contradict each other, rollouts that cannot
/// start, fields that the API does not know, and others. With the nodes and pods of a cluster (--dump, --live, or among the files) it
/// finds more. With --dump or --live, and -f, only the objects of the files are checked. The annotation lint.berth.dev/ignore of an
/// object or its pod template names rules that it is exempt from, separated by commas, or * for all. The cluster is not
/// changed.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "berth lint [OPTIONS] -f FILE...\n       berth lint [OPTIONS] --dump FILE|--live [-f FILE...]",
    after_help = "\
Examples:
  berth lint -f manifests/
  berth lint -f manifests/ --nodes 12 --zones 3
  berth lint --live -f new-deployment.yaml
  berth lint --dump cluster.json -f new-deployment.yaml
  berth lint -f manifests/ -o sarif > lint.sarif
  berth lint -f manifests/ --disable toleration-without-taint --fail-on error

Exit codes: 0 no finding at or above --fail-on, 1 some findings, 2 invalid or too large input, or usage

See docs/lint/README.md for the rules and the configuration file, and docs/json.md for the fields of -o json."
)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Disable these rules, or single findings of them (RULE/FINDING), separated by commas, or * for all; can be repeated
    #[arg(long, value_name = "RULE", value_delimiter = ',', num_args = 1)]
    disable: Vec<String>,
    /// Enable these rules although they are disabled, separated by commas; can be repeated
    #[arg(long, value_name = "RULE", value_delimiter = ',', num_args = 1)]
    enable: Vec<String>,
    /// Show only the findings that this version of Kubernetes has beyond those of --kubernetes
    #[arg(long, value_name = "VERSION")]
    against: Option<KubernetesVersion>,
    /// Lowest severity of findings that make the command fail [default: warning]
    #[arg(long, value_enum, value_name = "SEVERITY")]
    fail_on: Option<FailOn>,
    /// File with the AdmissionPolicy of the webhook, for the rules policy-refuses and required-label-missing
    #[arg(long, value_name = "FILE")]
    policy: Option<String>,
    /// Label keys that all pods must carry, separated by commas, for the rule required-label-missing; can be repeated
    ///
    /// Pods of kube-system are exempt.
    #[arg(long, value_name = "KEY", value_delimiter = ',', num_args = 1, value_parser = required_label)]
    require_labels: Vec<String>,
    /// Configuration file [default: .berth-lint.yaml in the current directory, if it exists]
    #[arg(long, value_name = "FILE")]
    lint_config: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum FailOn {
    /// Errors only
    Error,
    /// Warnings and errors
    Warning,
    /// All findings
    Info,
    /// No finding makes the command fail
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Findings by file and line, each with its fix
    Table,
    /// The findings as JSON
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Workflow commands of GitHub Actions, which annotate the lines of a pull request
    Github,
    /// JUnit XML, for CI systems
    Junit,
    /// One self-contained page
    Html,
    /// The text for a pull request
    Markdown,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Config {
    disable: Vec<String>,
    enable: Vec<String>,
    fail_on: Option<FailOn>,
    /// Relative to the configuration file.
    policy: Option<PathBuf>,
    require_labels: Vec<String>,
}

pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    let config = config(args.lint_config.as_deref())?;
    let selection = selection(args, &config)?;
    // The rule unknown-field reports them.
    let (mut inventory, flaws) = args.cluster.inventory_and_flaws(true, args.cluster.files.is_empty())?;
    let settings = args.cluster.settings(&inventory)?;
    let newer = args.against.map(|version| -> Result<Settings, CliError> {
        let (cluster, lost) = args.cluster.of_version(version);
        warn(&lost);
        cluster.settings(&inventory)
    });
    let newer = newer.transpose()?;
    args.cluster.add_simulated_nodes(&mut inventory);
    let policy = args.policy.clone().or_else(|| config.policy.map(|path| path.display().to_string()));
    let mut policy = policy.map(|file| policy_file::read(Some(&file))).transpose()?;
    let convention = policy.as_mut().and_then(|policy| policy.required_labels.take());
    let offline = policy.map(|policy| {
        OfflineAdmission::new(Policy { rule_options: settings.rule_options(), ..policy }, &inventory)
    });
    let review = offline.map(|offline| move |pod: &Pod| objections(&offline, pod));
    let files = find_inputs(&args.cluster.files)?;
    let names: HashSet<String> = files.iter().map(|file| file.name()).collect();
    let is_in_archive = |file: &str| file.match_indices('/').any(|(at, _)| names.contains(&file[..at]));
    let is_linted = |source: &SourceLocation| {
        let file = source.file.as_ref();
        names.is_empty() || !args.cluster.has_base() || names.contains(file) || is_in_archive(file)
    };
    let review = review.as_ref().map(|review| review as &berth_lint::Review<'_>);
    let has_proposal_fields = args.cluster.live_cluster().and_then(|live| live.has_proposal_fields());
    let keys =
        if args.require_labels.is_empty() { config.require_labels } else { args.require_labels.clone() };
    let input = |settings| {
        let mut input = LintInput::new(&inventory, settings, is_linted, review)
            .with_annotation_readers(&args.cluster.scheduler_name)
            .with_refused(flaws.refused.clone());
        if let Some(has_fields) = has_proposal_fields {
            input = input.with_api_server(has_fields);
        }
        if let Some(convention) = &convention {
            let severity =
                if convention.action == Action::Warn { Severity::Warning } else { Severity::Error };
            input = input.with_required_labels(convention.labels.clone(), severity);
        }
        if !keys.is_empty() {
            input = input.with_required_labels(RequiredLabels::new(keys.clone()), Severity::Error);
        }
        input
    };
    let before = input(&settings);
    warn(&before.warnings());
    let mut report = berth_lint::lint(&before, &selection);
    if let Some(newer) = &newer {
        let known = std::mem::replace(&mut report, berth_lint::lint(&input(newer), &selection)).findings;
        let n_gone = known.iter().filter(|finding| !report.findings.contains(finding)).count();
        report.findings.retain(|finding| !known.contains(finding));
        output::note(&format!(
            "findings that Kubernetes {} has and {} does not have; {n_gone} of the latter are gone",
            newer.config.feature_gates.version, settings.config.feature_gates.version
        ));
    }
    find_lines(&mut report.findings, &files);

    let mut out = output::stdout();
    let write = |format| {
        let shown = ("Placement mistakes in manifests", &report::lint::report(&report));
        PictureOutputArgs { format }.write(&mut output::stdout(), &(), shown, |_| Vec::new())
    };
    match args.output {
        Format::Table => write(PictureFormat::Table)?,
        Format::Html => write(PictureFormat::Html)?,
        Format::Markdown => write(PictureFormat::Markdown)?,
        Format::Json => {
            let mut json = json!({"findings": report.findings, "checked": report.checked});
            if let Some(hint) = &report.hint {
                json["hint"] = json!(hint);
            }
            if !report.incomplete.is_empty() {
                json["incomplete"] = json!(report.incomplete);
            }
            output::json(&mut out, &json)?;
        }
        Format::Sarif => output::json(&mut out, &sarif::log(&report.findings))?,
        Format::Github => lint::write_workflow_commands(&mut out, &report.findings)?,
        Format::Junit => lint::write_junit(&mut out, &report.findings)?,
    }
    out.flush()?;
    if !report.invalid.is_empty() {
        return Err(SimulationError::Invalid(report.invalid).into());
    }
    if !report.incomplete.is_empty() {
        return Err(CliError::Incomplete(report.incomplete));
    }
    let fail_on = args.fail_on.or(config.fail_on).unwrap_or(FailOn::Warning);
    let fails = |finding: &Finding| match fail_on {
        FailOn::Error => finding.severity >= Severity::Error,
        FailOn::Warning => finding.severity >= Severity::Warning,
        FailOn::Info => true,
        FailOn::Never => false,
    };
    Ok(if report.findings.iter().any(fails) { ExitStatus::Failure } else { ExitStatus::Success })
}

/// What the policy says against a pod.
fn objections(offline: &OfflineAdmission, pod: &Pod) -> Vec<Objection> {
    let objection = |refused| move |message| Objection { refused, message };
    match offline.review(pod) {
        Ok(Answer { denied, warnings, .. }) => {
            let denied = denied.map(|denial| denial.message).into_iter().map(objection(true));
            denied.chain(warnings.into_iter().map(objection(false))).collect()
        }
        Err(error) => vec![objection(true)(format!("the policy cannot be checked: {error}"))],
    }
}

fn required_label(key: &str) -> Result<String, String> {
    match label_key(key).join("; ") {
        problems if problems.is_empty() => Ok(key.to_owned()),
        problems => Err(format!("not a label key: {problems}")),
    }
}

fn config(path: Option<&Path>) -> Result<Config, CliError> {
    let default = Path::new(CONFIG);
    let Some(path) = path.or_else(|| default.exists().then_some(default)) else {
        return Ok(Config::default());
    };
    let file = path.display().to_string();
    let text = small_text(path).map_err(|error| CliError::Usage(format!("{file}: {error}")))?;
    let documents = collect_manifests(&text, &file).map_err(InputError::from)?;
    let Some(document) = documents.into_iter().next() else { return Ok(Config::default()) };
    let place = document.source;
    let mut config: Config = serde_json::from_value(document.value)
        .map_err(|error| CliError::Usage(format!("{place}: {error}")))?;
    for key in &config.require_labels {
        required_label(key)
            .map_err(|why| CliError::Usage(format!("{place}: requireLabels: {key:?}: {why}")))?;
    }
    config.policy = config.policy.map(|policy| path.parent().unwrap_or(Path::new("")).join(policy));
    Ok(config)
}

/// Flags override the configuration file.
fn selection(args: &Args, config: &Config) -> Result<Selection, CliError> {
    let mut selection = Selection::default();
    let selected = selection
        .disable(&config.disable)
        .and_then(|()| selection.enable(&config.enable))
        .and_then(|()| selection.disable(&args.disable))
        .and_then(|()| selection.enable(&args.enable));
    selected.map_err(|UnknownRule(name)| {
        let names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
        CliError::Usage(format!("there is no rule {name:?}; the rules are {}", names.join(", ")))
    })?;
    Ok(selection)
}

/// Finds the line of each finding's field, where the file is not too large.
fn find_lines(findings: &mut [Finding], files: &[berth_terminal::input::Input]) {
    let wanted: BTreeSet<String> = findings.iter().map(|finding| finding.file.clone()).collect();
    let lines = field_lines(files, &wanted);
    for finding in findings {
        let found = lines.get(&finding.file).and_then(|lines| lines.line(&finding.place, &finding.path));
        finding.line = found.or(finding.line);
    }
}
