//! Arguments that describe a cluster, and the simulation they come to.

use berth_api::config::SchedulerConfig;
use berth_api::quantity::Quantity;
use berth_api::read::{Inventory, Manifest, SourceLocation};
use berth_engine::Settings;
use berth_engine::simulation::{MadeNodes, Simulation, SimulationOptions};

use crate::error::CliError;
use crate::input::find_inputs;
use crate::output;
use crate::render::names::counted;
use crate::render::progress;

/// More nodes than this are not made.
const MAX_NODES: u64 = 2_000_000;
/// More warnings than this are only counted.
const MAX_WARNINGS: usize = 50;

/// The cluster and the rules.
#[derive(Debug, clap::Args)]
pub struct ClusterArgs {
    /// Objects in YAML or JSON: files, directories (searched recursively) or - for standard input
    ///
    /// Files may be compressed with gzip. Lists as kubectl prints them are read, and manifests as people write
    /// them; workloads are expanded to the pods their controllers would create, pods that are there already not
    /// a second time.
    #[arg(short, long = "filename", required = true, num_args = 1.., value_name = "FILE")]
    pub files: Vec<String>,
    /// Scheduler configuration (KubeSchedulerConfiguration v1); the defaults of kube-scheduler without it
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// Leave Berth's extensions out: decide exactly as kube-scheduler does
    ///
    /// The proposals' fields are ignored with a warning, Gt and Lt in pod affinity are errors, and no namespace
    /// is exempt from anti-affinity.
    #[arg(long)]
    strict_v1: bool,
    /// Pods in these namespaces neither block nor are blocked by anti-affinity, that of v1 fields included
    ///
    /// Without it, pods in kube-system are exempt from anti-affinity in the proposals' fields only.
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', num_args = 1, conflicts_with = "strict_v1")]
    exempt_namespaces: Option<Vec<String>>,
    /// Make this many nodes if the input has none
    ///
    /// They run Linux on amd64 and offer 100Gi of ephemeral storage besides what the options below say.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_NODES))]
    nodes: Option<u64>,
    /// Zones that the made nodes are spread over
    #[arg(long, value_name = "Z", default_value_t = 1, requires = "nodes",
          value_parser = clap::value_parser!(u64).range(1..=MAX_NODES))]
    zones: u64,
    /// CPU of each made node
    #[arg(long, value_name = "QUANTITY", default_value = "4", requires = "nodes", value_parser = amount)]
    node_cpu: Quantity,
    /// Memory of each made node
    #[arg(long, value_name = "QUANTITY", default_value = "16Gi", requires = "nodes", value_parser = amount)]
    node_memory: Quantity,
    /// Pods that each made node takes
    #[arg(long, value_name = "QUANTITY", default_value = "110", requires = "nodes", value_parser = amount)]
    node_pods: Quantity,
}

fn amount(text: &str) -> Result<Quantity, String> {
    let quantity = Quantity::parse(text).map_err(|e| e.to_string())?;
    if quantity.is_negative() { Err("must not be negative".to_owned()) } else { Ok(quantity) }
}

impl ClusterArgs {
    /// Reads the input and builds the cluster; warnings and notes go to standard error.
    pub fn simulation(&self, keep_raw: bool) -> Result<Simulation, CliError> {
        let mut inventory = if keep_raw { Inventory::keeping_raw() } else { Inventory::default() };
        read(&mut inventory, &self.files)?;
        note_skipped(&inventory);
        match (inventory.nodes.len(), self.nodes) {
            (0, None) => output::warning(&"the input has no nodes: add them, or make some with --nodes"),
            (0, Some(_)) | (_, None) => {}
            (n, Some(_)) => {
                output::note(&format!("--nodes is not used: the input has {}", counted(n, "node")))
            }
        }
        let settings = self.settings(&inventory)?;
        let made_nodes = self.nodes.map(|n_nodes| MadeNodes {
            n_nodes: n_nodes as usize,
            n_zones: self.zones as usize,
            cpu: self.node_cpu,
            memory: self.node_memory,
            pods: self.node_pods,
        });
        let simulation = Simulation::new(inventory, SimulationOptions { settings, made_nodes })?;
        warn(simulation.warnings());
        Ok(simulation)
    }

    fn settings(&self, inventory: &Inventory) -> Result<Settings, CliError> {
        let config = self.scheduler_config(inventory)?;
        if self.strict_v1 {
            return Ok(Settings::strict_v1(config));
        }
        let settings = Settings { config, ..Settings::default() };
        Ok(match &self.exempt_namespaces {
            None => settings,
            Some(names) => Settings { exempt_namespaces: names.clone(), exempt_from_v1: true, ..settings },
        })
    }

    /// From `--config`, or else from the input.
    fn scheduler_config(&self, inventory: &Inventory) -> Result<SchedulerConfig, CliError> {
        let in_input = &inventory.scheduler_configurations;
        let Some(path) = &self.config else {
            return match in_input.as_slice() {
                [] => Ok(SchedulerConfig::default()),
                [one] => resolve(one),
                [first, second, ..] => Err(CliError::SeveralConfigs {
                    first: first.source.clone(),
                    second: second.source.clone(),
                }),
            };
        };
        if let [first, ..] = in_input.as_slice() {
            output::note(&format!(
                "{}: KubeSchedulerConfiguration is not used: --config is given",
                first.source
            ));
        }
        let mut in_file = Inventory::default();
        read(&mut in_file, std::slice::from_ref(path))?;
        match in_file.scheduler_configurations.as_slice() {
            [one] => resolve(one),
            [first, second, ..] => {
                Err(CliError::SeveralConfigs { first: first.source.clone(), second: second.source.clone() })
            }
            [] => Err(CliError::NoConfig { file: path.clone() }),
        }
    }
}

fn read(inventory: &mut Inventory, files: &[String]) -> Result<(), CliError> {
    let inputs = find_inputs(files)?;
    let progress = progress::of_bytes(&inputs);
    for input in &inputs {
        inventory.read(input.open(|n_bytes| progress.inc(n_bytes))?, &input.name())?;
    }
    progress.finish_and_clear();
    Ok(())
}

fn resolve(manifest: &Manifest) -> Result<SchedulerConfig, CliError> {
    let place: &SourceLocation = &manifest.source;
    match SchedulerConfig::read(&manifest.value) {
        Ok((config, warnings)) => {
            warnings.iter().for_each(|w| output::warning(&format!("{place}: {w}")));
            Ok(config)
        }
        Err(errors) => Err(CliError::Config { place: place.clone(), errors }),
    }
}

fn warn(warnings: &[String]) {
    warnings.iter().take(MAX_WARNINGS).for_each(output::warning);
    match warnings.len().saturating_sub(MAX_WARNINGS) {
        0 => {}
        more => output::warning(&format!("and {more} more; simulate -o json has all")),
    }
}

fn note_skipped(inventory: &Inventory) {
    if inventory.skipped.is_empty() {
        return;
    }
    let kinds: Vec<_> = inventory.skipped.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    output::note(&format!("kinds that are not looked at: {}", kinds.join(", ")));
}
