//! `berth capacity`.

use std::io::Write;

use berth_api::read::Kind;
use berth_api::syntax::labels::ZONE;
use berth_console::report::capacity as capacity_report;
use berth_input::inventory::{Entry, Inventory};
use berth_rebalance::{Goal, Request};
use berth_simulate::capacity::{CapacityError, CapacityRequest, NodeType, Subject, Target, capacity};
use berth_simulate::what_if::{named_workload, refusal, topology_key};
use berth_terminal::output;
use berth_terminal::process::{ExitStatus, leave_to_exit};

use clap::ArgGroup;
use jiff::Timestamp;

use super::cluster_args::{Assumption, ClusterArgs};
use crate::error::CliError;
use crate::pictures::ReportOutputArgs;

/// Show how many more replicas fit, and how many nodes a number of replicas needs
///
/// Places replicas one after the other, as the scheduler does, until one is unschedulable, and shows where they fit and which rule or
/// resource stops the next one. The pending pods of others are placed first. No pod is preempted. With --target, it shows how many
/// nodes to add, and in which domains. The cluster is not changed.
#[derive(Debug, clap::Args)]
#[command(
    mut_group("simulated nodes", |_| ArgGroup::new("simulated nodes").args(["node_cpu", "node_memory", "node_pods"])
        .multiple(true).requires("nodes")),
    group(ArgGroup::new("nodes in zones").args(["nodes", "node_types"]).multiple(true)),
    mut_arg("zones", |zones| zones.requires("nodes in zones")
        .help("Number of zones of simulated nodes, and of --node-types if the nodes of the input have no zones [default: 3]")),
    override_usage = "berth capacity [OPTIONS] --dump FILE... WORKLOAD\n       berth capacity [OPTIONS] --live WORKLOAD\n       \
                      berth capacity [OPTIONS] --dump FILE... -f FILE",
    after_help = "\
Examples:
  berth capacity --dump cluster.yaml deploy/web
  berth capacity --dump cluster.yaml deploy/web --after-defragmentation
  berth capacity --live -n shop deploy/web --topology-key topology.berth.dev/rack
  berth capacity --dump cluster.yaml -f pod.yaml
  berth capacity --dump cluster.yaml deploy/web --target 60 --like worker-1
  berth capacity --dump cluster.yaml deploy/web --target 60 --node-types types.yaml -o json

Exit codes: 0 at least one more replica fits (with --target: all fit, if necessary on new nodes), 1 otherwise, 2 invalid input \
or usage

See docs/capacity.md for the rules and the fields of -o json."
)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of the workload [default: the namespace that has the name]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Node label whose values are the domains: zone, region, node, or a label key
    #[arg(long, value_name = "KEY", default_value = "zone")]
    topology_key: String,
    /// Total number of replicas; shows the nodes that they need
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    target: Option<u32>,
    /// The node that new nodes copy: its labels, taints, resources and daemon pods
    #[arg(long, value_name = "NODE", requires = "target", conflicts_with = "node_types")]
    like: Option<String>,
    /// File with Node objects, each a type of new nodes, the cheapest first
    ///
    /// Each new node has its own host name, and a type without a zone gets those of the cluster in turn, or those of --zones. If all have the annotation capacity.berth.dev/price, the nodes with the lowest sum are shown.
    #[arg(long, value_name = "FILE", requires = "target")]
    node_types: Option<String>,
    /// Also count replicas that fit after moves of running pods, as `berth rebalance --for` finds them
    #[arg(long)]
    after_defragmentation: bool,
    #[command(flatten)]
    output: ReportOutputArgs,
    /// The workload, such as deploy/web; without it, the last -f must contain the pod or workload
    #[arg(value_name = "WORKLOAD")]
    workload: Option<String>,
}

pub fn run(mut args: Args) -> Result<ExitStatus, CliError> {
    // `-f` takes all values up to the next option, including a name that follows.
    let named = args.workload.take().or_else(|| {
        let last = args
            .cluster
            .files
            .pop_if(|last| last.split_once('/').is_some_and(|(kind, _)| Kind::named(kind).is_some()));
        last.filter(|_| args.cluster.has_base() || !args.cluster.files.is_empty())
    });
    let (inventory, subject) = match &named {
        Some(name) => {
            let inventory = args.cluster.inventory(false)?;
            let found = named_workload(name, args.namespace.as_deref(), &inventory);
            let (kind, workload) = found.map_err(CliError::Usage)?;
            (inventory, Subject::Workload(kind, workload))
        }
        None => {
            let file = args.cluster.files.pop().ok_or_else(|| {
                CliError::NotFound("no workload given: put it last, for example `deploy/web`".to_owned())
            })?;
            let mut inventory = args.cluster.inventory(false)?;
            let subject = subject_of(&args.cluster, &file, &mut inventory)?;
            (inventory, subject)
        }
    };
    args.cluster.check(&inventory)?;
    if args.target.is_some() {
        args.cluster.note_assumptions(&inventory, [Assumption::NoDaemonPods]);
    }
    let defragmentation = args.after_defragmentation;
    let request = CapacityRequest {
        topology_key: topology_key(&args.topology_key),
        target: args.target(&inventory)?,
        defragmentation: defragmentation.then(|| Request::new(vec![Goal::Defragment], Timestamp::now())),
    };
    let options = args.cluster.options(args.cluster.settings(&inventory)?);
    let (found, cluster) =
        capacity(inventory, &options, &subject, &request).map_err(|error| match error {
            CapacityError::Simulation(error) => CliError::Simulation(error),
            CapacityError::Expand(error) => CliError::Expand(error),
            CapacityError::Subject(error) => CliError::NotFound(refusal(&error)),
            error @ (CapacityError::Price { .. } | CapacityError::NoLabel { .. }) => {
                CliError::NotFound(format!("--node-types: {error}"))
            }
        })?;
    let mut out = output::stdout();
    let name = name_of(&subject);
    let report = capacity_report::report(&name, &found, &request);
    args.output.write(&mut out, &found, &format!("Capacity for {name}"), &report)?;
    out.flush()?;
    leave_to_exit(cluster);
    let is_good = if args.target.is_some() { found.nodes_needed.is_some() } else { found.replicas > 0 };
    Ok(if is_good { ExitStatus::Success } else { ExitStatus::Failure })
}

impl Args {
    fn target(&self, inventory: &Inventory) -> Result<Option<Target>, CliError> {
        let Some(n_replicas) = self.target else { return Ok(None) };
        let node_types = match (&self.like, &self.node_types) {
            (Some(like), _) => vec![NodeType::Existing(like.clone())],
            (None, Some(file)) => {
                let mut types = Inventory::default();
                self.cluster.add_files(&mut types, std::slice::from_ref(file))?;
                types.nodes.into_iter().map(|entry| NodeType::Object(Box::new(entry.object))).collect()
            }
            (None, None) => {
                let text = "--target: name the nodes to add with --like NODE or --node-types FILE";
                return Err(CliError::Usage(text.to_owned()));
            }
        };
        if node_types.is_empty() {
            return Err(CliError::NotFound("--node-types: the file has no Node".to_owned()));
        }
        let zones = self.cluster.size.zones();
        if !zones.is_empty() && inventory.nodes.iter().any(|node| node.object.metadata.label(ZONE).is_some())
        {
            output::note(&"--zones is ignored: the nodes of the input have zones");
        }
        Ok(Some(Target { n_replicas: n_replicas as usize, node_types, zones }))
    }
}

/// The only pod or workload of a file; a workload is added to the cluster.
fn subject_of(cluster: &ClusterArgs, file: &str, inventory: &mut Inventory) -> Result<Subject, CliError> {
    let mut alone = Inventory::default();
    cluster.add_files(&mut alone, &[file.to_owned()])?;
    match (alone.pods.as_slice(), alone.workloads.as_slice()) {
        ([pod], []) => Ok(Subject::Pod(Box::new(Entry::clone(pod)))),
        ([], [workload]) => {
            let subject =
                Subject::Workload(workload.object.kind(), workload.object.metadata().namespaced_name());
            cluster.add_files(inventory, &[file.to_owned()])?;
            Ok(subject)
        }
        (pods, workloads) => Err(CliError::Usage(format!(
            "{file}: it has {} pods and {} workloads: give a file with one pod or workload, or name a workload such as deploy/web",
            pods.len(),
            workloads.len()
        ))),
    }
}

fn name_of(subject: &Subject) -> String {
    match subject {
        Subject::Workload(kind, name) => format!("{} {name}", kind.name()),
        Subject::Pod(entry) => format!("Pod {}", entry.object.key()),
    }
}
