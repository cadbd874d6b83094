//! `berth sets`.

use std::io::Write;

use berth_console::{pictures, report::sets};
use berth_input::inventory::Inventory;
use berth_simulate::sets::nodes::{NodeSetComparison, NodeSets};
use berth_simulate::sets::{SelectorRole, SelectorSets, SetComparison};
use berth_simulate::{SimulatedPod, Simulation};
use berth_terminal::output;
use berth_terminal::process::ExitStatus;
use clap::ValueEnum;

use super::cluster_args::ClusterArgs;
use crate::error::CliError;
use crate::pictures::PictureOutputArgs;

const MAX_ROWS: usize = 100;

/// Show how the sets of pods and of nodes that selectors describe overlap
///
/// Compares the selectors of Services, controllers, PodDisruptionBudgets, PodMonitors and ServiceMonitors, NetworkPolicies, pod
/// affinity terms and topology spread constraints: which are equal, contained in each other, overlapping, disjoint or empty. It
/// decides from the selectors and the namespaces, for all pods that could exist. It also counts the pods of the input in each
/// set, and lists pods that two controllers, budgets, Services or monitors select, and pods that no Service selects.
///
/// With --of nodes, compares the nodes of the input that match node selectors and node affinity, that have taints, and that match
/// the added affinity of scheduler profiles, and lists nodes that no pod selects or can use. The cluster is not changed.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "berth sets [OPTIONS] -f FILE...\n       berth sets [OPTIONS] (--dump FILE | --live) [-f FILE...]",
    after_help = "\
Examples:
  berth sets -f manifests/
  berth sets --live --namespace shop
  berth sets -f manifests/ --kind service,controller -o svg > sets.svg
  berth sets -f manifests/ --fail-on controllers,budgets,services,monitors
  berth sets --dump cluster.yaml --of nodes

Exit codes: 0 nothing that --fail-on names was found, 1 it was: by default, a pod that two controllers or two budgets select,
2 invalid input or usage

See docs/sets.md for the rules, and docs/json.md for the fields of -o json."
)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Compare sets of pods or of nodes
    #[arg(long, value_enum, default_value_t = Subject::Pods, value_name = "WHAT")]
    of: Subject,
    /// What the exit code 1 is for, separated by commas; can be repeated [default: controllers,budgets; none with --of nodes]
    #[arg(long, value_enum, value_delimiter = ',', num_args = 1, value_name = "FINDING")]
    fail_on: Vec<FailOn>,
    /// Compare only selectors of these kinds, separated by commas; can be repeated
    #[arg(long, value_enum, value_delimiter = ',', num_args = 1, value_name = "KIND")]
    kind: Vec<Kind>,
    /// Compare only selectors of objects in these namespaces, separated by commas, and count only their pods
    #[arg(short, long, value_delimiter = ',', num_args = 1, value_name = "NAMESPACE")]
    namespace: Vec<String>,
    #[command(flatten)]
    output: PictureOutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// Selectors of pods
    Pods,
    /// Node selectors, node affinity, taints and added affinity
    Nodes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// Pods that two controllers select
    Controllers,
    /// Pods that two PodDisruptionBudgets select
    Budgets,
    /// Pods that two Services select
    Services,
    /// Pods that two monitors select
    Monitors,
    /// Selectors that no pod can match; with --of nodes, rules that match no node
    EmptySets,
    /// With --of nodes: nodes that no node selector matches
    UnselectedNodes,
    /// With --of nodes: nodes that no pod can use
    UnusableNodes,
}

/// What the exit code 1 is for, of sets of pods.
const DEFAULT_FINDINGS: [FailOn; 2] = [FailOn::Controllers, FailOn::Budgets];

impl FailOn {
    /// What has to be compared to find it; none if any comparison does.
    fn subject(self) -> Option<Subject> {
        match self {
            FailOn::Controllers | FailOn::Budgets | FailOn::Services | FailOn::Monitors => {
                Some(Subject::Pods)
            }
            FailOn::UnselectedNodes | FailOn::UnusableNodes => Some(Subject::Nodes),
            FailOn::EmptySets => None,
        }
    }

    fn is_found_in(self, comparison: &SetComparison) -> bool {
        let summary = &comparison.summary;
        let n = match self {
            FailOn::Controllers => summary.n_pods_of_two_controllers,
            FailOn::Budgets => summary.n_pods_of_two_budgets,
            FailOn::Services => summary.n_pods_of_two_services,
            FailOn::Monitors => summary.n_pods_of_two_monitors,
            FailOn::EmptySets => summary.n_empty,
            FailOn::UnselectedNodes | FailOn::UnusableNodes => 0,
        };
        n > 0
    }

    fn is_found_in_nodes(self, comparison: &NodeSetComparison) -> bool {
        let summary = &comparison.summary;
        let n = match self {
            FailOn::EmptySets => summary.n_empty,
            FailOn::UnselectedNodes => summary.n_unselected,
            FailOn::UnusableNodes => summary.n_unusable,
            FailOn::Controllers | FailOn::Budgets | FailOn::Services | FailOn::Monitors => 0,
        };
        n > 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Services
    Service,
    /// Workloads that no other workload owns
    Controller,
    /// PodDisruptionBudgets
    Budget,
    /// NetworkPolicies and the peers in their rules
    NetworkPolicy,
    /// Pod affinity and anti-affinity terms
    AffinityTerm,
    /// Topology spread constraints
    SpreadConstraint,
    /// PodMonitors and ServiceMonitors
    Monitor,
}

impl Kind {
    fn role(self) -> SelectorRole {
        match self {
            Kind::Service => SelectorRole::Service,
            Kind::Controller => SelectorRole::Controller,
            Kind::Budget => SelectorRole::DisruptionBudget,
            Kind::NetworkPolicy => SelectorRole::NetworkPolicy,
            Kind::AffinityTerm => SelectorRole::AffinityTerm,
            Kind::SpreadConstraint => SelectorRole::SpreadConstraint,
            Kind::Monitor => SelectorRole::Monitor,
        }
    }
}

pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    if args.of == Subject::Nodes && !args.kind.is_empty() {
        let message = "--kind names selectors of pods: remove it, or compare sets of pods with --of pods";
        return Err(CliError::Usage(message.to_owned()));
    }
    for finding in &args.fail_on {
        if let Some(of) = finding.subject().filter(|of| *of != args.of) {
            let [finding, of] = [name(finding), name(&of)];
            return Err(CliError::Usage(format!(
                "--fail-on {finding} is a finding about sets of {of}: add --of {of}, or remove {finding}"
            )));
        }
    }
    let inventory = args.cluster.inventory(false)?;
    let is_found = match args.of {
        Subject::Pods => compare_pods(args, inventory)?,
        Subject::Nodes => compare_nodes(args, inventory)?,
    };
    Ok(if is_found { ExitStatus::Failure } else { ExitStatus::Success })
}

/// The value of an argument as users write it.
fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Returns whether something is found that `--fail-on` names.
fn compare_pods(args: &Args, inventory: Inventory) -> Result<bool, CliError> {
    let mut sets = SelectorSets::new(&inventory)?;
    let simulation = simulation(args, inventory)?;
    sets.add_terms(&simulation);
    let has_kind =
        |role: SelectorRole| args.kind.is_empty() || args.kind.iter().any(|kind| kind.role() == role);
    sets.retain(|owner| has_kind(owner.role) && is_wanted(args, &owner.namespace));
    let pods = simulation.pods().iter().filter(|pod| is_wanted(args, &pod.pod.metadata.namespace));
    let pods: Vec<&SimulatedPod> = pods.collect();
    let comparison = sets.compare(&pods);

    let mut out = output::stdout();
    let report = ("Sets of pods", &sets::of_pods(&comparison, MAX_ROWS));
    args.output.write_report(&mut out, &comparison, report, |_| vec![pictures::sets(&comparison)])?;
    out.flush()?;
    let findings = if args.fail_on.is_empty() { &DEFAULT_FINDINGS[..] } else { &args.fail_on };
    Ok(findings.iter().any(|finding| finding.is_found_in(&comparison)))
}

/// Returns whether something is found that `--fail-on` names.
fn compare_nodes(args: &Args, inventory: Inventory) -> Result<bool, CliError> {
    let sets = NodeSets::new(&inventory)?;
    let simulation = simulation(args, inventory)?;
    let comparison = sets.compare(&simulation, |namespace| is_wanted(args, namespace));

    let mut out = output::stdout();
    let report = ("Sets of nodes", &sets::of_nodes(&comparison, MAX_ROWS));
    args.output.write_report(&mut out, &comparison, report, |_| vec![pictures::node_sets(&comparison)])?;
    out.flush()?;
    Ok(args.fail_on.iter().any(|finding| finding.is_found_in_nodes(&comparison)))
}

fn simulation(args: &Args, inventory: Inventory) -> Result<Simulation, CliError> {
    let settings = args.cluster.settings(&inventory)?;
    args.cluster.simulation_of(inventory, settings)
}

fn is_wanted(args: &Args, namespace: &str) -> bool {
    args.namespace.is_empty() || args.namespace.iter().any(|wanted| wanted == namespace)
}
