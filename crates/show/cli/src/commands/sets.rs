//! `berth sets`.

use std::io::Write;

use berth_console::pictures;
use berth_simulate::SimulatedPod;
use berth_simulate::sets::{SelectorRole, SelectorSets};
use berth_terminal::output;
use berth_terminal::process::ExitStatus;
use clap::ValueEnum;

use super::cluster_args::ClusterArgs;
use crate::error::CliError;
use crate::pictures::PictureOutputArgs;
use crate::render::sets;

/// Show how the sets of pods that selectors describe overlap
///
/// Compares the selectors of Services, controllers, PodDisruptionBudgets, NetworkPolicies and pod affinity terms: which are
/// equal, contained in each other, overlapping, disjoint or empty. It decides from the selectors and the namespaces, for all
/// pods that could exist. It also counts the pods of the input in each set, and lists pods that two controllers or two
/// budgets select, and pods that no Service selects. The cluster is not changed.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "berth sets [OPTIONS] -f FILE...\n       berth sets [OPTIONS] (--dump FILE | --live) [-f FILE...]",
    after_help = "\
Examples:
  berth sets -f manifests/
  berth sets --live --namespace shop
  berth sets -f manifests/ --kind service,controller -o svg > sets.svg

Exit codes: 0 no pod is selected by two controllers or by two budgets, 1 some pods are, 2 invalid input or usage

See docs/sets.md for the rules, and docs/json.md for the fields of -o json."
)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
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
}

impl Kind {
    fn role(self) -> SelectorRole {
        match self {
            Kind::Service => SelectorRole::Service,
            Kind::Controller => SelectorRole::Controller,
            Kind::Budget => SelectorRole::DisruptionBudget,
            Kind::NetworkPolicy => SelectorRole::NetworkPolicy,
            Kind::AffinityTerm => SelectorRole::AffinityTerm,
        }
    }
}

/// Compares the sets.
pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    let inventory = args.cluster.inventory(false)?;
    let settings = args.cluster.settings(&inventory)?;
    let extensions = settings.extensions;
    let mut sets = SelectorSets::new(&inventory)?;
    let simulation = args.cluster.simulation_of(inventory, settings)?;
    sets.add_terms(simulation.pods(), extensions);
    let is_wanted = |namespace: &String| args.namespace.is_empty() || args.namespace.contains(namespace);
    let has_kind =
        |role: SelectorRole| args.kind.is_empty() || args.kind.iter().any(|kind| kind.role() == role);
    sets.retain(|owner| has_kind(owner.role) && is_wanted(&owner.namespace));
    let pods: Vec<&SimulatedPod> =
        simulation.pods().iter().filter(|pod| is_wanted(&pod.pod.metadata.namespace)).collect();
    let comparison = sets.compare(&pods);

    let mut out = output::stdout();
    let table = |mut out: &mut dyn Write| sets::write(&mut out, &comparison);
    args.output.write(&mut out, &comparison, "Sets of pods", table, |_| vec![pictures::sets(&comparison)])?;
    out.flush()?;
    let is_selected_twice = comparison.conflicts.iter().any(|conflict| conflict.n_pods > 0);
    Ok(if is_selected_twice { ExitStatus::Failure } else { ExitStatus::Success })
}
