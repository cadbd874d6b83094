//! `berth what-if`.

use std::collections::BTreeSet;
use std::io::{BufReader, Write};

use berth_api::feature_gates::KubernetesVersion;
use berth_api::object::NamespacedName;
use berth_api::syntax::labels::ZONE;
use berth_api::syntax::obeyed::shown;
use berth_console::pictures::{self, ColorBy};
use berth_console::{report, reports};
use berth_enforcer::HoldForecast;
use berth_input::inventory::Inventory;
use berth_simulate::Simulation;
use berth_simulate::upgrade::Upgrade;
use berth_simulate::what_if::{Change, ChangeRequest, refusal, topology_key};
use berth_simulate::what_if::{Changed, WhatIf};
use berth_terminal::input::find_inputs;
use berth_terminal::output;
use berth_terminal::process::{ExitStatus, leave_to_exit};
use berth_terminal::progress;
use jiff::Timestamp;
use serde::Deserialize;

use super::change_args::ChangeArgs;
use super::cluster_args::{Assumption, ClusterArgs, note_replaced, warn_about};
use super::hold_args::HoldArgs;
use super::picture_args::PictureArgs;
use crate::error::CliError;
use crate::pictures::{PictureFormat, PictureOutputArgs};

/// Show what happens to pods if the cluster changes
///
/// Makes the changes in the order of the arguments; between changes of different kinds the cluster settles. Places the pods that lose
/// their nodes and the pending pods, and shows which pods move where, which stay pending and why, which rules break, and which pods preemption or the enforcer evicts.
/// Drains are played as kubectl drain does them, under PodDisruptionBudgets, and rollouts of new templates step by step.
/// Pods are created again by their controllers and keep their names in the output; a pod without a controller is lost. Workloads whose
/// pods are not in the input are placed before the changes. The cluster is not changed.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "berth what-if [OPTIONS] --dump FILE... CHANGE...\n       berth what-if [OPTIONS] --live CHANGE...\n       \
                      berth what-if [OPTIONS] -f FILE... CHANGE...",
    after_help = "\
Examples:
  berth what-if --dump cluster.yaml --remove-node worker-3
  berth what-if --dump cluster.yaml --drain worker-3 --add-nodes 2 --like worker-1
  berth what-if --live --remove-domain zone=eu-west-1a --scale deploy/web=20
  berth what-if --dump cluster.yaml --set-label node/worker-1 disk=hdd --taint node/worker-2 dedicated=db:NoExecute
  berth what-if --dump cluster.yaml -f change.yaml --config scheduler.yaml
  berth what-if --dump cluster.yaml --remove-node worker-3 --repairs
  berth what-if --live --each zone
  berth what-if --dump cluster.yaml --drain worker-1 --uncordon worker-1 --drain worker-2
  berth what-if --live --roll-nodes pool=web --surge 1
  berth what-if --dump cluster.yaml --lose zone=eu-west-1a --for 10m
  berth what-if --live --upgrade 1.38

Exit codes: 0 nothing is worse than before: no other pod is unplaced than before, no rule breaks, no pod is evicted, no eviction \
of the changes is or was blocked and no rollout is stuck (with --each: each pod that is created again has a node whichever domain is lost); \
1 otherwise, with --fail-on any also if a pod is unplaced or a rule does not hold as before; 2 invalid input or usage

See docs/what-if.md for the rules and the fields of -o json."
)]
pub struct Args {
    // First: it reads the order of -f before the next field takes it.
    #[command(flatten)]
    changes: ChangeArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of the objects of --scale and --evict [default: the namespace that has the name]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Show what an upgrade of the cluster to this version of Kubernetes changes; no other change is made
    ///
    /// Pods that are placed elsewhere, get stuck or are preempted; rules and gates that change their meaning; API versions that are gone; a
    /// configuration that is not read any more. --kubernetes is the version before.
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["each", "repairs"])]
    upgrade: Option<KubernetesVersion>,
    /// After the changes, remove every domain of this node label in turn: zone, region, node, or a label key
    #[arg(long, value_name = "KEY")]
    each: Option<String>,
    /// Show what would make the unplaced pods fit, for up to five workloads: see docs/repairs.md
    #[arg(long, conflicts_with = "each")]
    repairs: bool,
    /// What exit code 1 means: something is worse than before the changes, or also what was as bad before
    #[arg(long, value_name = "WHAT", default_value = "worse")]
    fail_on: FailOn,
    #[command(flatten)]
    hold: HoldArgs,
    #[command(flatten)]
    picture: PictureArgs,
    #[command(flatten)]
    output: PictureOutputArgs,
}

/// What the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// Something is worse than before.
    Worse,
    /// A pod has no node or a rule does not hold, also if that was so before.
    Any,
}

/// A plan, as far as it is carried out.
#[derive(Deserialize)]
struct PlanOfMoves {
    moves: Vec<PlannedMove>,
}

#[derive(Deserialize)]
struct PlannedMove {
    namespace: String,
    name: String,
    from: Option<String>,
    to: String,
}

/// The moves of a plan in a file, or in standard input. A name that a terminal would obey is none of an object, and is escaped.
fn moves_of(file: &str) -> Result<Vec<Change>, CliError> {
    let mut moves = Vec::new();
    for input in &find_inputs(&[file.to_owned()])? {
        let plan: PlanOfMoves =
            serde_json::from_reader(BufReader::new(input.open(|_| ())?)).map_err(|error| {
                CliError::NotFound(format!(
                    "--moves {file}: {error}: give the output of `berth rebalance -o json`"
                ))
            })?;
        moves.extend(plan.moves.into_iter().map(|PlannedMove { namespace, name, from, to }| Change::Move {
            pod: NamespacedName::new(&shown(&namespace), &shown(&name)),
            from,
            to: shown(&to).into_owned(),
        }));
    }
    Ok(moves)
}

/// Shows what another version of Kubernetes changes.
fn upgrade(args: &Args, base: Inventory, version: KubernetesVersion) -> Result<ExitStatus, CliError> {
    let cluster = &args.cluster;
    let is_change =
        |request: &ChangeRequest| !matches!(request, ChangeRequest::Overlay(_)) || cluster.has_base();
    if args.changes.requests().iter().any(is_change) {
        let text = "--upgrade cannot be combined with other changes: make them in a copy of the objects, and upgrade that";
        return Err(CliError::Usage(text.to_owned()));
    }
    if args.output.format == PictureFormat::Svg {
        return Err(CliError::Usage("--upgrade has no picture: choose another format than svg".to_owned()));
    }
    let (newer, gates) = cluster.of_version(version);
    let before = cluster.options(cluster.settings(&base)?);
    let (after, refused) = match newer.settings(&base) {
        Ok(settings) => (settings, None),
        Err(error @ CliError::Config { .. }) => {
            (newer.settings_without_config(&base)?, Some(error.to_string()))
        }
        Err(error) => return Err(error),
    };
    let mut upgrade = Upgrade::new(&base, [&before, &newer.options(after)])?;
    upgrade.gates = gates;
    upgrade.is_refused = refused.is_some();
    upgrade.configuration = refused.into_iter().collect();
    let mut out = output::stdout();
    args.output.write(&mut out, &upgrade, ("Upgrade", &report::upgrade::report(&upgrade)), |_| Vec::new())?;
    out.flush()?;
    Ok(if upgrade.is_harmless() { ExitStatus::Success } else { ExitStatus::Failure })
}

/// Number of unplaced pods that repairs are looked for.
const MAX_REPAIRED: usize = 5;
/// Number of pods with a row each.
const MAX_ROWS: usize = 20;
/// Number of lost domains shown with their workloads.
const MAX_DOMAINS: usize = 10;

/// What the outcome of a change assumes.
fn assumptions(request: &ChangeRequest) -> &'static [Assumption] {
    match request {
        ChangeRequest::Change(Change::Drain(_)) | ChangeRequest::Evict(_) => &[Assumption::NoBudgets],
        ChangeRequest::Change(Change::AddNodes { .. }) => &[Assumption::NoDaemonPods],
        ChangeRequest::RollNodes(_) => &[Assumption::NoBudgets, Assumption::NoDaemonPods],
        _ => &[],
    }
}

/// Makes the changes and shows their effect.
pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    let cluster = &args.cluster;
    let base = if cluster.has_base() { cluster.base(false)? } else { cluster.inventory(false)? };
    cluster.check(&base)?;
    if let Some(version) = args.upgrade {
        return upgrade(args, base, version);
    }
    let after = cluster.settings(&base)?;
    let options = cluster.options(cluster.settings_before(&base)?);
    let mut what_if = WhatIf::new(base, options, Timestamp::now())?;
    let mut before = match args.output.format {
        PictureFormat::Html if args.each.is_none() => Some(what_if.simulation()?),
        _ => None,
    };
    let mut has_change = what_if.set_settings(after)?;
    let holds = args.hold.holds()?;
    what_if.evict_without_target(move |simulation| {
        HoldForecast::new(&holds, simulation.pods().iter().map(|pod| &pod.pod)).not_for_ever()
    });
    let assumed: BTreeSet<_> = args.changes.requests().iter().flat_map(assumptions).copied().collect();
    cluster.note_assumptions(what_if.inventory(), assumed);
    for request in args.changes.requests() {
        match request {
            ChangeRequest::Overlay(file) if cluster.has_base() => {
                what_if.overlay(|inventory| -> Result<(), CliError> {
                    cluster.add_files(inventory, std::slice::from_ref(file))
                })??;
            }
            ChangeRequest::Overlay(_) => continue,
            ChangeRequest::Moves(file) => {
                for change in moves_of(file)? {
                    what_if.apply(&change).map_err(|error| {
                        CliError::NotFound(format!("--moves {file}: {}", refusal(&error)))
                    })?;
                }
            }
            ChangeRequest::Then => what_if.then()?,
            ChangeRequest::RollNodes(roll) => {
                what_if
                    .roll_nodes(roll)
                    .map_err(|error| CliError::NotFound(format!("--roll-nodes: {}", refusal(&error))))?;
            }
            request => {
                let changes = request.changes(args.namespace.as_deref(), what_if.inventory());
                for change in changes.map_err(CliError::Usage)? {
                    what_if.apply(&change).map_err(|error| CliError::NotFound(refusal(&error)))?;
                }
            }
        }
        has_change = true;
    }
    if !has_change && args.each.is_none() {
        output::note(
            &"no change is given: the result shows where pending pods go; add one, such as --drain NODE",
        );
    }
    if cluster.has_base() {
        note_replaced(what_if.inventory());
    }
    let placing = progress::of_pods();
    let show_placing = |n_placed: usize, n_pending: usize| {
        placing.set_length(n_pending as u64);
        placing.set_position(n_placed as u64);
    };
    let mut out = output::stdout();
    let mut changed = what_if.run(show_placing)?;
    placing.finish_and_clear();
    warn_about(&changed.simulation);
    let (is_harmless, is_perfect) = match &args.each {
        None => {
            if args.repairs {
                changed.find_repairs(MAX_REPAIRED);
            }
            let Changed { outcome, simulation, .. } = &mut changed;
            let draw = |simulation: &mut Simulation, color_by, all| {
                let broken = simulation.cluster().audit();
                args.picture.draw(simulation, &broken, ZONE, color_by, all)
            };
            let draw = |all| {
                let after = draw(simulation, ColorBy::Change(&outcome.left_nodes), all);
                let Some(before) = &mut before else { return after };
                let before = draw(before, ColorBy::Utilization, all);
                let captioned = |(before, after)| {
                    [("Before the changes", before), ("After the changes", after)]
                        .map(|(caption, picture)| format!("<figcaption>{caption}</figcaption>\n{picture}"))
                };
                before.into_iter().zip(after).flat_map(captioned).collect()
            };
            let report = report::what_if::report(outcome, MAX_ROWS);
            args.output.write(&mut out, outcome, ("What if", &report), draw)?;
            let judged = (outcome.is_harmless(), outcome.is_perfect());
            leave_to_exit((changed, before));
            judged
        }
        Some(key) => {
            let key = topology_key(key);
            let removing = progress::of_domains();
            let losses = changed.lose_each_domain(&key, |n_lost, n_domains| {
                removing.set_length(n_domains as u64);
                removing.set_position(n_lost as u64);
            });
            removing.finish_and_clear();
            leave_to_exit(changed);
            if losses.losses.domains.is_empty() {
                return Err(CliError::NotFound(format!("--each {key}: no node has this label")));
            }
            let report = report::what_if::losses(&losses, MAX_DOMAINS);
            args.output.write(&mut out, &losses, ("Lost domains", &report), |is_page| {
                let losses = &losses.losses;
                vec![if is_page { reports::losses(losses) } else { pictures::losses(losses) }]
            })?;
            (losses.is_harmless(), losses.is_perfect())
        }
    };
    out.flush()?;
    let succeeds = match args.fail_on {
        FailOn::Worse => is_harmless,
        FailOn::Any => is_perfect,
    };
    Ok(if succeeds { ExitStatus::Success } else { ExitStatus::Failure })
}
