//! Arguments that describe a cluster, and the simulation built from them.

use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use berth_api::feature_gates::KubernetesVersion;
use berth_api::read::{Kind, Manifest};
use berth_api::syntax::format::{abbreviated, counted};
use berth_api::syntax::shell::Command;
use berth_client::connect::Options;
use berth_control::expand::MAX_PODS;
use berth_control::expand::{find_earlier_templates, workload_names};
use berth_engine::{DeviceWork, Settings};
use berth_input::inventory::{Entry, Inventory, Workload};
use berth_rules::parse_relax_after;
use berth_simulate::{
    InvalidObject, PendingFor, Simulation, SimulationError, SimulationOptions, add_simulated_nodes,
};
use berth_terminal::input::{Input, OpenError, find_inputs, kustomization_warnings};
use berth_terminal::output;
use berth_terminal::progress;
use clap::ArgGroup;

use super::node_args::NodeSizeArgs;
use super::read_inputs::{UnknownFields, read, read_dump, refusal};
use super::rules_args::RulesArgs;
use super::scheduler;
use crate::error::CliError;
use crate::live::LiveCluster;

/// Maximum number of simulated nodes.
const MAX_NODES: u64 = 2_000_000;
/// Number of objects named in the note about replaced objects.
const MAX_NAMED: usize = 5;
/// Number of warnings printed; the rest is counted.
const MAX_WARNINGS: usize = 50;

/// The cluster and the scheduling rules.
#[derive(Clone, Debug, clap::Args)]
#[command(group(ArgGroup::new("simulated nodes").args(["zones", "node_cpu", "node_memory", "node_pods"])
    .multiple(true).requires("nodes")))]
pub struct ClusterArgs {
    /// Objects in YAML or JSON: files, directories (searched recursively) or - for standard input
    ///
    /// Reads manifests, lists printed by kubectl, and archives (tar, zip), also compressed with gzip. Workloads are expanded to the pods that
    /// their controllers create; existing pods are not duplicated. The objects are added to those of --dump or --live;
    /// an object replaces an earlier one of the same kind, namespace and name. Without --dump or --live, they are the
    /// cluster.
    #[arg(short, long = "filename", required_unless_present_any = ["dump", "live", "kubeconfig", "context"],
          num_args = 1.., value_name = "FILE")]
    pub files: Vec<String>,
    /// A kustomization is rendered by kubectl
    #[arg(short = 'k', long = "kustomize", hide = true, value_name = "DIR", value_parser = unrendered)]
    kustomize: Option<String>,
    /// Objects of a cluster, such as those that kubectl prints; -f adds and replaces objects; can be repeated
    ///
    /// Takes the same inputs as -f. Unknown fields are ignored.
    #[arg(long, value_name = "FILE", num_args = 1, conflicts_with_all = ["live", "kubeconfig", "context"])]
    dump: Vec<String>,
    /// Read the cluster that kubectl uses
    ///
    /// Nodes, namespaces, pods, workloads, services, priority classes, RuntimeClasses, PodDisruptionBudgets, PodGroups,
    /// NetworkPolicies, PodMonitors, ServiceMonitors, device classes, volumes, claims, storage classes, CSI objects and
    /// placement policies are read once. The cluster is not changed.
    #[arg(long)]
    live: bool,
    /// Kubeconfig file of the live cluster; implies --live
    ///
    /// By default: the files in $KUBECONFIG, else ~/.kube/config, else the service account of the pod.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current context]; implies --live
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Unknown fields of objects in -f are errors, not warnings
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    rules: RulesArgs,
    /// Also schedule pods with this schedulerName; can be repeated if the configuration has one profile [default:
    /// default-scheduler and berth, or the profiles of --config]
    #[arg(long, value_name = "NAME")]
    pub scheduler_name: Vec<String>,
    /// How long pending pods have been pending: rules with a shorter relax-after become preferences [default: since their creation]
    #[arg(long, value_name = "DURATION", value_parser = pending_for)]
    pending_for: Option<Duration>,
    /// Number of simulated nodes to add if the input has no nodes
    ///
    /// The nodes have the operating system linux, the architecture amd64 and 100Gi of ephemeral storage.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_NODES))]
    nodes: Option<u64>,
    #[command(flatten)]
    pub size: NodeSizeArgs,
    /// Maximum number of pods that workloads are expanded to; a pod takes about 4 KiB of memory
    #[arg(long, value_name = "N", default_value_t = MAX_PODS, value_parser = clap::value_parser!(i64).range(1..))]
    max_pods: i64,
}

impl ClusterArgs {
    pub fn live_cluster(&self) -> Option<LiveCluster> {
        let (kubeconfig, context) = (self.kubeconfig.clone(), self.context.clone());
        (self.live || kubeconfig.is_some() || context.is_some()).then_some(LiveCluster(Options {
            kubeconfig,
            context,
            server: None,
        }))
    }

    /// The same arguments, with those replaced that are given.
    pub fn with(&self, dump: &[String], files: &[String], config: Option<&str>) -> ClusterArgs {
        let mut other = self.clone();
        if !dump.is_empty() {
            other.dump = dump.to_vec();
            (other.live, other.kubeconfig, other.context) = (false, None, None);
        }
        if !files.is_empty() {
            other.files = files.to_vec();
        }
        if let Some(config) = config {
            other.rules.config = Some(config.to_owned());
        }
        other
    }

    /// The same arguments for another version of Kubernetes, with the gates that it lacks.
    pub fn of_version(&self, version: KubernetesVersion) -> (ClusterArgs, Vec<String>) {
        let (rules, lost) = self.rules.of_version(version);
        (ClusterArgs { rules, ..self.clone() }, lost)
    }

    /// The rules without any configuration.
    pub fn settings_without_config(&self, inventory: &Inventory) -> Result<Settings, CliError> {
        let mut rules = self.rules.clone();
        rules.config = None;
        self.with_names(rules.settings(&[], inventory.server_version)?)
    }

    /// Whether standard input is one of the inputs, which all have to exist.
    pub fn reads_stdin(&self) -> Result<bool, CliError> {
        let inputs = [find_inputs(&self.dump)?, find_inputs(&self.files)?];
        Ok(inputs.iter().flatten().any(|input| *input == Input::Stdin))
    }

    /// A name of the cluster for headings.
    pub fn name(&self) -> String {
        match self.live_cluster() {
            Some(live) => live.0.context.unwrap_or_else(|| "live cluster".to_owned()),
            None => self.dump.iter().chain(&self.files).map(String::as_str).collect::<Vec<_>>().join(", "),
        }
    }

    /// Whether a cluster is given that the files change.
    pub fn has_base(&self) -> bool {
        !self.dump.is_empty() || self.live_cluster().is_some()
    }

    /// Reads the input and builds the simulation; prints warnings and notes to standard error. It is never dropped: the process ends
    /// sooner without.
    pub fn simulation(&self, keep_raw: bool) -> Result<ManuallyDrop<Simulation>, CliError> {
        let inventory = self.inventory(keep_raw)?;
        self.check(&inventory)?;
        let settings = self.settings(&inventory)?;
        let simulation = self.simulation_of(inventory, settings)?;
        warn_about(&simulation);
        Ok(ManuallyDrop::new(simulation))
    }

    /// Whether the input describes a cluster.
    pub fn check(&self, inventory: &Inventory) -> Result<(), CliError> {
        if inventory.nodes.is_empty() && inventory.pods.is_empty() && inventory.workloads.is_empty() {
            return Err(CliError::NoPodsAndNodes);
        }
        match (inventory.nodes.len(), self.nodes) {
            (0, None) => output::warning(&"the input has no nodes: add nodes, or simulate some with --nodes"),
            (0, Some(_)) | (_, None) => {}
            (n, Some(_)) => {
                output::note(&format!("--nodes is ignored: the input has {}", counted(n, "node")))
            }
        }
        Ok(())
    }

    /// Reads the input; prints notes and unknown fields to standard error.
    ///
    /// # Errors
    /// The input cannot be read, or an API server would refuse objects of the files.
    pub fn inventory(&self, keep_raw: bool) -> Result<Inventory, CliError> {
        let (inventory, flaws) = self.inventory_and_flaws(keep_raw, keep_raw)?;
        flaws.report()?;
        Ok(inventory)
    }

    /// As [`ClusterArgs::inventory`]; keeps the whole objects of all kinds but pods.
    pub fn inventory_without_raw_pods(&self) -> Result<Inventory, CliError> {
        let mut inventory = self.read_base(Inventory::keeping_raw_but_pods())?;
        self.read_files(&mut inventory)?.report()?;
        Ok(inventory)
    }

    /// Reads the input; prints notes to standard error. Also returns what is wrong with objects of the files. `keep_raw`
    /// and `keep_raw_of_base` tell whether to keep the whole objects of the files, and of the cluster that they change.
    pub fn inventory_and_flaws(
        &self,
        keep_raw: bool,
        keep_raw_of_base: bool,
    ) -> Result<(Inventory, Flaws), CliError> {
        let mut inventory = self.base(keep_raw_of_base)?;
        (inventory.keep_raw, inventory.keep_raw_pods) = (keep_raw, keep_raw);
        let flaws = self.read_files(&mut inventory)?;
        Ok((inventory, flaws))
    }

    fn read_files(&self, inventory: &mut Inventory) -> Result<Flaws, CliError> {
        let known = workload_names(inventory);
        let flaws = self.read_flawed(inventory, &self.files)?;
        if self.has_base() {
            find_earlier_templates(inventory, &known);
        }
        note_skipped(inventory);
        note_replaced(inventory);
        Ok(flaws)
    }

    /// Reads --dump or --live.
    pub fn base(&self, keep_raw: bool) -> Result<Inventory, CliError> {
        self.read_base(if keep_raw { Inventory::keeping_raw() } else { Inventory::default() })
    }

    fn read_base(&self, mut inventory: Inventory) -> Result<Inventory, CliError> {
        inventory.max_pods = Some(self.max_pods);
        if let Some(live) = self.live_cluster() {
            let progress = progress::of_objects();
            let warnings = live.read(&mut inventory, &progress)?;
            progress.finish_and_clear();
            warn(&warnings);
        }
        let dump = find_inputs(&self.dump)?;
        if dump.contains(&Input::Stdin) && self.files.iter().any(|file| file == "-") {
            return Err(OpenError::StdinTwice.into());
        }
        read_dump(&mut inventory, &dump)?;
        Ok(inventory)
    }

    /// Reads files that change the cluster; warns of unknown fields.
    ///
    /// # Errors
    /// As [`ClusterArgs::inventory`].
    pub fn add_files(&self, inventory: &mut Inventory, files: &[String]) -> Result<(), CliError> {
        self.read_flawed(inventory, files)?.report()
    }

    /// Reads files; with --strict, unknown fields are an error.
    fn read_flawed(&self, inventory: &mut Inventory, files: &[String]) -> Result<Flaws, CliError> {
        let (mut unknown, mut refused) = (UnknownFields::default(), Vec::new());
        let rules = self.rules.rule_options(inventory.server_version);
        let inputs = find_inputs(files)?;
        warn(&kustomization_warnings(files));
        let each = &mut |manifest: &Manifest| {
            unknown.find(manifest);
            refused.extend(refusal(manifest, rules));
        };
        read(inventory, &inputs, Some(each))?;
        let unknown = unknown.messages(&inputs);
        if self.strict && !unknown.is_empty() {
            return Err(CliError::UnknownFields(unknown));
        }
        Ok(Flaws { unknown, refused })
    }

    /// Notes what an answer assumes where a dump has no objects of a kind: it may have been made without them.
    pub fn note_assumptions(&self, inventory: &Inventory, assumptions: impl IntoIterator<Item = Assumption>) {
        for assumption in assumptions.into_iter().filter(|_| !self.dump.is_empty()) {
            let is_daemon_set = |entry: &Entry<Workload>| entry.object.kind() == Kind::DaemonSet;
            match assumption {
                Assumption::NoDaemonPods if !inventory.workloads.iter().any(is_daemon_set) => {
                    output::note(&"no DaemonSets in the dump: new nodes are counted without their pods");
                }
                Assumption::NoBudgets if inventory.pod_disruption_budgets.is_empty() => {
                    output::note(&"no PodDisruptionBudgets in the dump: no eviction is blocked");
                }
                Assumption::NoDaemonPods | Assumption::NoBudgets => {}
            }
        }
    }

    /// The scheduling rules, from the arguments and the input.
    pub fn settings(&self, inventory: &Inventory) -> Result<Settings, CliError> {
        self.with_names(self.rules.settings(&inventory.scheduler_configurations, inventory.server_version)?)
    }

    /// Those without --config.
    pub fn settings_before(&self, inventory: &Inventory) -> Result<Settings, CliError> {
        let mut rules = self.rules.clone();
        rules.config = None;
        self.with_names(rules.settings(&inventory.scheduler_configurations, inventory.server_version)?)
    }

    fn with_names(&self, mut settings: Settings) -> Result<Settings, CliError> {
        scheduler::add_names(&mut settings, &self.scheduler_name)?;
        settings.device_work = device_work().clone();
        Ok(settings)
    }

    /// Adds the simulated nodes to an input without nodes, as a simulation does.
    pub fn add_simulated_nodes(&self, inventory: &mut Inventory) {
        if let Some(n_nodes) = self.nodes {
            add_simulated_nodes(inventory, &self.size.nodes(n_nodes));
        }
    }

    pub fn simulation_of(&self, inventory: Inventory, settings: Settings) -> Result<Simulation, CliError> {
        Ok(Simulation::new(inventory, self.options(settings))?)
    }

    pub fn options(&self, settings: Settings) -> SimulationOptions {
        let simulated_nodes = self.nodes.map(|n_nodes| self.size.nodes(n_nodes));
        let pending_for = match self.pending_for {
            Some(duration) => PendingFor::All(duration),
            None => PendingFor::Until(jiff::Timestamp::now()),
        };
        SimulationOptions { settings, simulated_nodes, pending_for }
    }
}

/// What is wrong with objects of files.
#[must_use]
pub struct Flaws {
    /// Messages about fields that the types of their kinds do not have.
    unknown: Vec<String>,
    /// Objects that an API server would refuse.
    pub refused: Vec<InvalidObject>,
}

impl Flaws {
    fn report(self) -> Result<(), CliError> {
        warn(&self.unknown);
        match self.refused.is_empty() {
            true => Ok(()),
            false => Err(SimulationError::Invalid(self.refused).into()),
        }
    }
}

/// What an answer assumes of an input without objects of a kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assumption {
    /// New nodes run no pods of DaemonSets.
    NoDaemonPods,
    /// No PodDisruptionBudget blocks an eviction.
    NoBudgets,
}

/// Steps of the searches for devices of one decision, and of all that the command makes: about 5 s.
const DECISION_STEPS: u64 = 60_000_000;
const COMMAND_STEPS: u64 = 300_000_000;

/// The budget of the command.
fn device_work() -> &'static DeviceWork {
    static WORK: OnceLock<DeviceWork> = OnceLock::new();
    WORK.get_or_init(|| DeviceWork::new(DECISION_STEPS, COMMAND_STEPS))
}

/// Warns, once the command has ended, that decisions were made without looking for devices on all nodes.
pub fn warn_about_cut_searches() {
    if device_work().was_cut() {
        output::warning(&format!(
            "searches for devices ended at the limit of {DECISION_STEPS} steps of work for a decision and {COMMAND_STEPS} for the command: \
             the nodes that are left out count as infeasible for the pods with claims"
        ));
    }
}

/// The error about a kustomization, with the command that renders it.
fn unrendered(directory: &str) -> Result<String, String> {
    let render = Command::new(["kubectl", "kustomize"]).operands([directory]);
    Err(format!("a kustomization: render it first, and read it with -f -: `{render} | berth ... -f -`"))
}

fn pending_for(text: &str) -> Result<Duration, String> {
    parse_relax_after(text).map_err(str::to_owned)
}

/// Prints notes about placement policies, and the warnings about the input.
pub(super) fn warn_about(simulation: &Simulation) {
    for (policy, n_pods) in simulation.policy_uses() {
        output::note(&format!("{policy}: its rules are added to {}", counted(*n_pods, "pod")));
    }
    for (workload, n_pods) in simulation.rolled_out() {
        output::note(&format!(
            "{workload}: it replaces its pods; the result is that after the rollout, without {} of earlier \
             templates",
            counted(*n_pods, "pod")
        ));
    }
    warn(simulation.warnings());
}

pub(super) fn warn(warnings: &[String]) {
    warnings.iter().take(MAX_WARNINGS).for_each(output::warning);
    match warnings.len().saturating_sub(MAX_WARNINGS) {
        0 => {}
        more => output::warning(&format!("{more} more warnings; `berth simulate -o json` lists all")),
    }
}

pub(super) fn note_replaced(inventory: &Inventory) {
    if !inventory.replaced.is_empty() {
        output::note(&format!("replaced: {}", abbreviated(&inventory.replaced, MAX_NAMED)));
    }
}

fn note_skipped(inventory: &Inventory) {
    if inventory.skipped.is_empty() {
        return;
    }
    let kinds: Vec<_> = inventory.skipped.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    output::note(&format!("ignored kinds: {}", kinds.join(", ")));
}
