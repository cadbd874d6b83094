//! Arguments that describe a cluster, and the simulation they come to.

use std::path::PathBuf;

use berth_api::read::Inventory;
use berth_api::simulated_nodes::SimulatedNodes;
use berth_simulate::{Simulation, SimulationOptions};
use clap::ArgGroup;

use super::node_args::NodeSizeArgs;
use super::rules_args::RulesArgs;
use crate::error::CliError;
use crate::input::find_inputs;
use crate::live::Live;
use crate::output;
use crate::render::names::{abbreviated, counted};
use crate::render::progress;

/// More nodes than this are not made.
const MAX_NODES: u64 = 2_000_000;
/// This many objects of files are named that the live cluster has already.
const MAX_NAMED: usize = 5;
/// More warnings than this are only counted.
const MAX_WARNINGS: usize = 50;

/// The cluster and the rules.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("simulated nodes").args(["zones", "node_cpu", "node_memory", "node_pods"])
    .multiple(true).requires("nodes")))]
pub struct ClusterArgs {
    /// Objects in YAML or JSON: files, directories (searched recursively) or - for standard input
    ///
    /// Files may be compressed with gzip. Lists as kubectl prints them are read, and manifests as people write
    /// them; workloads are expanded to the pods their controllers would create, pods that are there already not
    /// a second time. With a live cluster, they add to it: what is there already stays as it is there.
    #[arg(short, long = "filename", required_unless_present_any = ["live", "kubeconfig", "context"],
          num_args = 1.., value_name = "FILE")]
    pub files: Vec<String>,
    /// Read the live cluster that kubectl would talk to
    ///
    /// Its nodes, namespaces, pods, workloads, services and priority classes are read once; nothing is changed.
    #[arg(long)]
    live: bool,
    /// The kubeconfig file of the live cluster; implies --live
    ///
    /// Without it, the files that KUBECONFIG names, or ~/.kube/config, or in a pod its service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig file, if not its current one; implies --live
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    #[command(flatten)]
    rules: RulesArgs,
    /// Make this many nodes if the input has none
    ///
    /// They run Linux on amd64 and offer 100Gi of ephemeral storage besides what the options below say.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_NODES))]
    nodes: Option<u64>,
    #[command(flatten)]
    size: NodeSizeArgs,
}

impl ClusterArgs {
    /// The live cluster, if one is to be read.
    fn live_cluster(&self) -> Option<Live> {
        let (kubeconfig, context) = (self.kubeconfig.clone(), self.context.clone());
        (self.live || kubeconfig.is_some() || context.is_some()).then_some(Live { kubeconfig, context })
    }

    /// Whether a live cluster is read.
    pub fn is_live(&self) -> bool {
        self.live_cluster().is_some()
    }

    /// Reads the input and builds the cluster; warnings and notes go to standard error.
    pub fn simulation(&self, keep_raw: bool) -> Result<Simulation, CliError> {
        let mut inventory = if keep_raw { Inventory::keeping_raw() } else { Inventory::default() };
        if let Some(live) = self.live_cluster() {
            let progress = progress::of_objects();
            let warnings = live.read(&mut inventory, &progress)?;
            progress.finish_and_clear();
            warn(&warnings);
            inventory.keep_first = true;
        }
        read(&mut inventory, &self.files)?;
        note_skipped(&inventory);
        note_already_there(&inventory);
        match (inventory.nodes.len(), self.nodes) {
            (0, None) => output::warning(&"the input has no nodes: add them, or make some with --nodes"),
            (0, Some(_)) | (_, None) => {}
            (n, Some(_)) => {
                output::note(&format!("--nodes is not used: the input has {}", counted(n, "node")))
            }
        }
        let settings = self.rules.settings(&inventory.scheduler_configurations)?;
        let simulated_nodes = self.nodes.map(|n_nodes| SimulatedNodes {
            n_nodes: n_nodes as usize,
            n_zones: self.size.zones as usize,
            cpu: self.size.node_cpu,
            memory: self.size.node_memory,
            pods: self.size.node_pods,
        });
        let simulation = Simulation::new(inventory, SimulationOptions { settings, simulated_nodes })?;
        warn(simulation.warnings());
        Ok(simulation)
    }
}

/// Reads files into the inventory, showing progress.
pub(super) fn read(inventory: &mut Inventory, files: &[String]) -> Result<(), CliError> {
    let inputs = find_inputs(files)?;
    let progress = progress::of_bytes(&inputs);
    for input in &inputs {
        inventory.read(input.open(|n_bytes| progress.inc(n_bytes))?, &input.name())?;
    }
    progress.finish_and_clear();
    Ok(())
}

fn warn(warnings: &[String]) {
    warnings.iter().take(MAX_WARNINGS).for_each(output::warning);
    match warnings.len().saturating_sub(MAX_WARNINGS) {
        0 => {}
        more => output::warning(&format!("and {more} more; simulate -o json has all")),
    }
}

fn note_already_there(inventory: &Inventory) {
    if !inventory.already_there.is_empty() {
        let objects = abbreviated(&inventory.already_there, MAX_NAMED);
        output::note(&format!("in the cluster already, and left as it is there: {objects}"));
    }
}

fn note_skipped(inventory: &Inventory) {
    if inventory.skipped.is_empty() {
        return;
    }
    let kinds: Vec<_> = inventory.skipped.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    output::note(&format!("kinds that are not looked at: {}", kinds.join(", ")));
}
