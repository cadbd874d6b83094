//! Arguments that change a cluster, in their order on the command line.

use berth_simulate::what_if::{ChangeRequest, key_value, workload_replicas};
use clap::{ArgMatches, Command, FromArgMatches};

/// The changes in their order. `-f` belongs to the arguments of the cluster, and is a change as well.
#[derive(Clone, Debug, Default)]
pub struct ChangeArgs(Vec<ChangeRequest>);

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Changes")]
struct Flags {
    /// Remove a node with its pods; like all changes, can be repeated
    #[arg(long, value_name = "NODE", num_args = 1)]
    remove_node: Vec<String>,
    /// Cordon a node and evict its pods, except those of DaemonSets, as far as PodDisruptionBudgets allow
    ///
    /// The node remains, and its domain counts for spread constraints.
    #[arg(long, value_name = "NODE", num_args = 1)]
    drain: Vec<String>,
    /// Cordon a node: no pod is placed there any more
    #[arg(long, value_name = "NODE", num_args = 1)]
    cordon: Vec<String>,
    /// End the cordon of a node
    #[arg(long, value_name = "NODE", num_args = 1)]
    uncordon: Vec<String>,
    /// Remove all nodes with this label; zone and region stand for their label keys
    #[arg(long, value_name = "KEY=VALUE", num_args = 1, value_parser = key_value)]
    remove_domain: Vec<(String, String)>,
    /// Add this number of copies of the node that the next --like names
    #[arg(long, value_name = "N", num_args = 1, requires = "like", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    add_nodes: Vec<u16>,
    /// The node whose labels, taints, resources and daemon pods the nodes of --add-nodes copy
    #[arg(long, value_name = "NODE", num_args = 1, requires = "add_nodes")]
    like: Vec<String>,
    /// Set a label of a node: node/NAME KEY=VALUE, or node/NAME KEY- to remove it
    #[arg(long, value_names = ["NODE", "LABEL"], num_args = 2)]
    set_label: Vec<String>,
    /// Taint a node: node/NAME KEY[=VALUE]:EFFECT, or node/NAME KEY:EFFECT- or KEY- to remove taints; NoExecute evicts pods
    #[arg(long, value_names = ["NODE", "TAINT"], num_args = 2)]
    taint: Vec<String>,
    /// Set the number of replicas of a workload, such as deploy/web=5
    #[arg(long, value_name = "WORKLOAD=N", num_args = 1, value_parser = workload_replicas)]
    scale: Vec<(String, u16)>,
    /// Evict a pod, if PodDisruptionBudgets allow it
    #[arg(long, value_name = "[NAMESPACE/]POD", num_args = 1)]
    evict: Vec<String>,
    /// Let a device fail, or all devices of a pool or of a driver: pods that use them are created again
    #[arg(long, value_name = "DRIVER[/POOL[/DEVICE]]", num_args = 1)]
    fail_device: Vec<String>,
    /// Carry out a plan: the file, or - for standard input, that `berth rebalance -o json` wrote
    #[arg(long, value_name = "FILE", num_args = 1)]
    moves: Vec<String>,
}

impl ChangeArgs {
    /// The changes in their order.
    pub fn requests(&self) -> &[ChangeRequest] {
        &self.0
    }
}

impl clap::Args for ChangeArgs {
    fn augment_args(command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args_for_update(command)
    }
}

impl FromArgMatches for ChangeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = Flags::from_arg_matches(matches)?;
        let mut changes: Vec<(usize, ChangeRequest)> = Vec::new();
        let mut add = |id: &str, step: usize, requests: Vec<ChangeRequest>| {
            let indices = matches.indices_of(id).into_iter().flatten().step_by(step);
            changes.extend(indices.zip(requests));
        };
        add("remove_node", 1, flags.remove_node.into_iter().map(ChangeRequest::RemoveNode).collect());
        add("drain", 1, flags.drain.into_iter().map(ChangeRequest::Drain).collect());
        add("cordon", 1, flags.cordon.into_iter().map(ChangeRequest::Cordon).collect());
        add("uncordon", 1, flags.uncordon.into_iter().map(ChangeRequest::Uncordon).collect());
        let domains =
            flags.remove_domain.into_iter().map(|(key, value)| ChangeRequest::RemoveDomain(key, value));
        add("remove_domain", 1, domains.collect());
        if flags.add_nodes.len() != flags.like.len() {
            return Err(error("--add-nodes", "each needs its own --like"));
        }
        let added = flags.add_nodes.into_iter().zip(flags.like);
        add("add_nodes", 1, added.map(|(n, like)| ChangeRequest::AddNodes(usize::from(n), like)).collect());
        let of_nodes = |flag: &str, pairs: &[String], parse: Parse| {
            let request = |pair: &[String]| {
                let [node, text] = pair else { return Err(error(flag, "needs two values")) };
                parse(node, text).map_err(|message| error(&format!("{flag} {node} {text}"), &message))
            };
            pairs.chunks(2).map(request).collect::<Result<Vec<_>, _>>()
        };
        add("set_label", 2, of_nodes("--set-label", &flags.set_label, ChangeRequest::label)?);
        add("taint", 2, of_nodes("--taint", &flags.taint, ChangeRequest::taint)?);
        add("scale", 1, flags.scale.into_iter().map(|(w, n)| ChangeRequest::Scale(w, n)).collect());
        add("evict", 1, flags.evict.into_iter().map(ChangeRequest::Evict).collect());
        add("fail_device", 1, flags.fail_device.into_iter().map(ChangeRequest::FailDevice).collect());
        add("moves", 1, flags.moves.into_iter().map(ChangeRequest::Moves).collect());
        let files = matches.get_many::<String>("files").into_iter().flatten().cloned();
        add("files", 1, files.map(ChangeRequest::Overlay).collect());
        changes.sort_by_key(|(index, _)| *index);
        Ok(ChangeArgs(changes.into_iter().map(|(_, change)| change).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = ChangeArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Reads a node and a text as a change.
type Parse = fn(&str, &str) -> Result<ChangeRequest, String>;

fn error(flag: &str, message: &str) -> clap::Error {
    clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{flag}: {message}\n"))
}
