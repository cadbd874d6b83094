//! `berth rebalance`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use berth_api::syntax::labels::ZONE;
use berth_console::pictures::ColorBy;
use berth_console::report::rebalance::report;
use berth_input::inventory::Inventory;
use berth_rebalance::descheduler::{Note, Translation};
use berth_rebalance::{Goal, Movable, Plan, Request, Threshold};
use berth_rules::Selector;
use berth_simulate::Simulation;
use berth_terminal::output;
use berth_terminal::process::{ExitStatus, leave_to_exit};
use jiff::{SignedDuration, Timestamp};

use super::cluster_args::{Assumption, ClusterArgs, warn_about};
use super::node_args::duration;
use super::picture_args::PictureArgs;
use super::policy_file;
use crate::error::CliError;
use crate::objects::{ScopeArgs, find};
use crate::pictures::PictureOutputArgs;

/// Arguments that a policy replaces.
const REPLACED: [&str; 10] = [
    "goal",
    "for_pod",
    "max_moves",
    "threshold",
    "namespace_selector",
    "pod_selector",
    "node_selector",
    "below_priority",
    "evict_local_storage",
    "settle",
];

/// Show which running pods to move, and where, so that the cluster is better by the goals
///
/// Proposes moves that can be carried out one after the other: at each step the pod fits on its target, no required rule of another
/// pod breaks that held before, and the PodDisruptionBudgets allow the eviction. The values of the goals fall, in the order of the
/// goals, and a plan for the result is empty. The cluster is not changed.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "berth rebalance [OPTIONS] --dump FILE...\n       berth rebalance [OPTIONS] --live\n       \
                      berth rebalance [OPTIONS] -f FILE...",
    after_help = "\
Examples:
  berth rebalance --dump cluster.yaml
  berth rebalance --live --goal spread --goal consolidate --max-moves 20
  berth rebalance --dump cluster.yaml --for shop/web-7
  berth rebalance --dump cluster.yaml -f new-node.yaml --goal spread -o json
  berth rebalance --dump cluster.yaml -o json | berth what-if --dump cluster.yaml --moves -
  berth rebalance --live --descheduler-policy policy.yaml

Exit codes: 0 the plan is made, also if it has moves; 1 it has moves, with --exit-code, or the pods of --for get no room; \
2 invalid input or usage

See docs/rebalance.md for the goals, the guarantees and the fields of -o json."
)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// What to improve, the most important first; can be repeated [default: required, defragment, spread]
    #[arg(long, value_name = "GOAL", value_parser = str::parse::<Goal>)]
    goal: Vec<Goal>,
    /// Make room for this pending pod with its group, or the pending pods of this workload or group: NAME, NAMESPACE/NAME, deploy/NAME or
    /// podgroup/NAME
    #[arg(long = "for", value_name = "POD", conflicts_with = "goal")]
    for_pod: Option<String>,
    /// Take goals, --max-moves, --threshold and the pods that may move from a policy of the descheduler (descheduler/v1alpha2). Notes
    /// say what becomes of each of its fields
    #[arg(long, value_name = "FILE", conflicts_with_all = REPLACED)]
    descheduler_policy: Option<String>,
    /// The most moves; the rest of the plan is left out
    #[arg(long, value_name = "N")]
    max_moves: Option<usize>,
    #[command(flatten)]
    movable: MovableArgs,
    /// Percentage of CPU or memory requested above which `balance` counts a node, or one of each, such as cpu=60,memory=70
    #[arg(long, value_name = "PERCENT", default_value_t = Threshold::default(), value_parser = str::parse::<Threshold>)]
    threshold: Threshold,
    /// Node label with the price of the node, by which `consolidate` weighs nodes [default: each node counts 1]
    #[arg(long, value_name = "KEY")]
    price_label: Option<String>,
    /// Exit with 1 if the plan has moves
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    picture: PictureArgs,
    #[command(flatten)]
    output: PictureOutputArgs,
}

/// Which pods may move.
#[derive(Debug, clap::Args)]
struct MovableArgs {
    /// Only pods in namespaces with these labels move, such as team=shop,stage!=prod
    #[arg(long, value_name = "SELECTOR", value_parser = str::parse::<Selector>)]
    namespace_selector: Option<Selector>,
    /// Only pods with these labels move
    #[arg(long, value_name = "SELECTOR", value_parser = str::parse::<Selector>)]
    pod_selector: Option<Selector>,
    /// Only pods on nodes with these labels move; they move to any node
    #[arg(long, value_name = "SELECTOR", value_parser = str::parse::<Selector>)]
    node_selector: Option<Selector>,
    /// Only pods of a lower priority move
    #[arg(long, value_name = "PRIORITY", allow_negative_numbers = true)]
    below_priority: Option<i32>,
    /// Also move pods with local storage (emptyDir, hostPath): its contents are lost
    #[arg(long)]
    evict_local_storage: bool,
    /// A pod that started less than this ago stays
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    settle: Duration,
}

impl MovableArgs {
    fn movable(&self) -> Movable {
        Movable {
            namespaces: self.namespace_selector.clone(),
            pods: self.pod_selector.clone(),
            nodes: self.node_selector.clone(),
            below_priority: self.below_priority,
            with_local_storage: self.evict_local_storage,
            settle: SignedDuration::try_from(self.settle).unwrap_or(SignedDuration::MAX),
            ..Movable::default()
        }
    }
}

/// A plan, and what became of the policy that it is made for.
#[derive(serde::Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<Vec<Note>>,
}

pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    let cluster = &args.cluster;
    let inventory = cluster.inventory(false)?;
    cluster.check(&inventory)?;
    cluster.note_assumptions(&inventory, [Assumption::NoBudgets]);
    let settings = cluster.settings(&inventory)?;
    let (mut request, notes) = match &args.descheduler_policy {
        None => (args.request(&inventory)?, None),
        Some(file) => {
            let Translation { request, notes } = policy_file::read_descheduler_policy(file, &inventory)?;
            notes.iter().for_each(output::note);
            (Request { price_label: args.price_label(&inventory)?, ..request }, Some(notes))
        }
    };
    let mut simulation = Simulation::as_is(Cow::Owned(inventory), cluster.options(settings))?;
    warn_about(&simulation);
    let subject = match &args.for_pod {
        None => None,
        Some(name) => {
            request.goals = vec![Goal::Defragment];
            let found = find(&simulation, Some(name), &ScopeArgs::default())?;
            if !found.pods.iter().any(|position| simulation.pods()[*position].is_unplaced()) {
                let text = format!(
                    "--for {name}: {} has no pending pod: name one that waits for a node",
                    found.name
                );
                return Err(CliError::NotFound(text));
            }
            Some(found.pods)
        }
    };
    let plan = simulation.rebalance(&request, subject.as_deref());
    let mut out = output::stdout();
    let text = report(&plan, &request.goals);
    let draw = |all: bool| {
        let before = args.draw(&mut simulation, ColorBy::Utilization, all);
        let left: BTreeSet<String> = plan.moves.iter().map(|made| made.from.clone()).collect();
        simulation.carry_out(&plan);
        let after = args.draw(&mut simulation, ColorBy::Change(&left), all);
        if !all {
            return after;
        }
        let captioned = |(caption, pictures): (&str, Vec<String>)| {
            let pictures = pictures.into_iter();
            pictures
                .map(|picture| format!("<figcaption>{caption}</figcaption>\n{picture}"))
                .collect::<Vec<_>>()
        };
        [("Before the moves", before), ("After the moves", after)].into_iter().flat_map(captioned).collect()
    };
    let report = Report { plan: &plan, notes };
    args.output.write(&mut out, &report, ("Rebalancing", &text), draw)?;
    out.flush()?;
    leave_to_exit(simulation);
    let has_no_room = subject.is_some() && plan.after.get(&Goal::Defragment).is_some_and(|left| *left > 0.0);
    let is_bad = has_no_room || (args.exit_code && !plan.moves.is_empty());
    Ok(if is_bad { ExitStatus::Failure } else { ExitStatus::Success })
}

impl Args {
    fn request(&self, inventory: &Inventory) -> Result<Request, CliError> {
        let mut goals = self.goal.clone();
        if goals.is_empty() {
            goals = vec![Goal::Required, Goal::Defragment, Goal::Spread];
        }
        let goals = unrepeated("--goal", &goals)?;
        Ok(Request {
            max_moves: self.max_moves,
            movable: self.movable.movable(),
            threshold: self.threshold,
            price_label: self.price_label(inventory)?,
            ..Request::new(goals, Timestamp::now())
        })
    }

    /// The label with the prices, which all nodes must have.
    fn price_label(&self, inventory: &Inventory) -> Result<Option<String>, CliError> {
        self.price_label.as_deref().map_or(Ok(()), |key| check_prices(inventory, key))?;
        Ok(self.price_label.clone())
    }

    fn draw(&self, simulation: &mut Simulation, color_by: ColorBy<'_>, all: bool) -> Vec<String> {
        let broken = simulation.cluster().audit();
        self.picture.draw(simulation, &broken, ZONE, color_by, all)
    }
}

/// The goals, each of them once.
pub(super) fn unrepeated(flag: &str, goals: &[Goal]) -> Result<Vec<Goal>, CliError> {
    let mut seen = BTreeSet::new();
    match goals.iter().find(|goal| !seen.insert(**goal)) {
        Some(goal) => Err(CliError::Usage(format!("{flag} {goal} is given twice: give each goal once"))),
        None => Ok(goals.to_vec()),
    }
}

/// Every node must have a price that is a number of at least 0.
fn check_prices(inventory: &Inventory, key: &str) -> Result<(), CliError> {
    for node in inventory.nodes.iter().map(|entry| &entry.object.metadata) {
        let price = node.label(key);
        if price.and_then(|price| price.parse::<f64>().ok()).is_none_or(|price| price < 0.0) {
            let found =
                price.map_or_else(|| "has no such label".to_owned(), |price| format!("has {price:?}"));
            let text = format!(
                "--price-label {key}: Node {} {found}: give each node a price such as 0.25",
                node.name
            );
            return Err(CliError::NotFound(text));
        }
    }
    Ok(())
}
