//! `berth audit`.

use std::io::Write;

use berth_api::syntax::labels::ZONE;
use berth_console::pictures::ColorBy;
use berth_enforcer::HoldForecast;
use berth_engine::{Cluster, Remedies, RemedyOptions, Violation, ViolationKey};
use berth_simulate::{SimulatedPod, UnadmittedState};
use berth_terminal::output;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;
use jiff::Timestamp;

use super::cluster_args::ClusterArgs;
use super::hold_args::HoldArgs;
use super::picture_args::PictureArgs;
use crate::error::CliError;
use crate::objects::check_namespace;
use crate::pictures::PictureOutputArgs;
use crate::render::audit::{self, Audit, AuditSummary};

/// List the violated rules of running pods
///
/// Checks the required rules of each running pod against its current node: node selector and node affinity, pod affinity
/// and anti-affinity, taints, host ports, resources and topology spread. For violated rules that are required during
/// execution, it shows what the enforcer would do: which pod it evicts and where that pod fits, or why it evicts none.
/// Pending pods are ignored. Pods that do not run on the node that they name (spec.nodeName) are listed. The cluster is not changed.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "berth audit [OPTIONS] -f FILE...\n       berth audit [OPTIONS] (--dump FILE | --live) [-f FILE...]",
    after_help = "\
Examples:
  berth audit -f cluster.yaml
  berth audit --live --executing-only
  berth audit --dump cluster.yaml -n team-a
  berth dump cluster.json.gz; berth audit --dump cluster.json.gz -o json

Exit codes: 0 no rule is violated, 1 some rules are violated or pods do not run on the node that they name, 2 invalid input or usage

See docs/audit.md for the rules, and docs/json.md for the fields of -o json."
)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Check only pods of this namespace [default: all namespaces]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Check only rules that are required during execution
    #[arg(long)]
    executing_only: bool,
    #[command(flatten)]
    hold: HoldArgs,
    /// Show counts by workload and rule, without the pods
    #[arg(long)]
    summary: bool,
    #[command(flatten)]
    picture: PictureArgs,
    #[command(flatten)]
    output: PictureOutputArgs,
}

/// Checks the rules of running pods.
pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    let mut simulation = args.cluster.simulation(false)?;
    if let Some(namespace) = &args.namespace {
        check_namespace(&simulation, namespace)?;
    }
    let is_meant = |namespace: &str| args.namespace.as_deref().is_none_or(|wanted| wanted == namespace);
    let mut not_running = simulation.not_running();
    not_running.retain(|of_workload| {
        is_meant(&of_workload.namespace) && of_workload.why.state != UnadmittedState::NotCreated
    });
    let holds = args.hold.holds()?;
    let mut violations = violations(simulation.cluster(), args.executing_only);
    let executing: Vec<ViolationKey> =
        violations.iter().filter(|v| v.required_during_execution).map(Violation::key).collect();
    // Without an eviction, nothing is held or delayed.
    let evictable = simulation.pods().iter().filter(|_| !executing.is_empty());
    let hold_forecast = HoldForecast::new(&holds, evictable.map(|pod| &pod.pod));
    let cluster = simulation.cluster();
    let evict_without_target = hold_forecast.released(Timestamp::now());
    let options = RemedyOptions { evict_without_target, ..RemedyOptions::default() };
    // Of all namespaces: an eviction may fix rules of several.
    let mut remedies = cluster.remedy(&executing, &options);
    hold_forecast.leave_out_blocked(&mut remedies.remedies);
    violations.retain(|violation| is_meant(&violation.namespace));
    remedies.stays.retain(|stays| is_meant(&stays.key.namespace));
    remedies.remedies.retain(|remedy| {
        is_meant(&remedy.victim.namespace) || remedy.cures.iter().any(|key| is_meant(&key.namespace))
    });
    let n_nodes = cluster.n_nodes();
    let n_pods = match &args.namespace {
        None => cluster.n_pods(),
        Some(_) => {
            let pods = simulation.pods().iter();
            pods.filter(|pod| pod.was_running && is_meant(&pod.pod.metadata.namespace)).count()
        }
    };
    let size = (n_pods, n_nodes);
    let summary = AuditSummary::new(size, &violations, &remedies, &not_running);
    let Remedies { remedies, stays } = remedies;
    let (delayed, held) = (Vec::new(), Vec::new());
    let mut audit = Audit { violations, remedies, stays, delayed, held, not_running, summary };
    audit.set_held(&hold_forecast);
    audit.set_delayed(&hold_forecast);
    let mut out = output::stdout();
    let workload = |pod: &SimulatedPod| (pod.pod.key(), pod.workload.clone());
    let report = match args.summary {
        false => audit::report(&audit),
        true => audit::by_workload(&audit, &simulation.pods().iter().map(workload).collect()),
    };
    let broken = &audit.violations;
    let draw = |all| args.picture.draw(&simulation, broken, ZONE, ColorBy::Rule, all);
    args.output.write(&mut out, &audit, ("Violated rules", &report), draw)?;
    out.flush()?;
    let is_good = audit.violations.is_empty() && audit.not_running.is_empty();
    Ok(if is_good { ExitStatus::Success } else { ExitStatus::Failure })
}

fn violations(cluster: &mut Cluster, executing_only: bool) -> Vec<Violation> {
    if executing_only {
        return cluster.violations();
    }
    let progress = progress::of_audit();
    let violations = cluster.audit_with(|n_judged, n_pods| {
        progress.set_length(n_pods as u64);
        progress.set_position(n_judged as u64);
    });
    progress.finish_and_clear();
    violations
}
