//! Arguments that change a cluster, in their order on the command line.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::object::Node;
use berth_input::inventory::Inventory;
use berth_simulate::what_if::{
    Change, ChangeRequest, RollNodes, key_value, node_labels, node_name, topology_key, workload_replicas,
};
use berth_terminal::input::find_inputs;
use clap::{ArgMatches, Command, FromArgMatches};

use super::node_args::duration;

/// The changes in their order. `-f` belongs to the arguments of the cluster, and is a change as well.
#[derive(Clone, Debug, Default)]
pub struct ChangeArgs(Vec<ChangeRequest>);

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Changes")]
struct Flags {
    /// Remove a node with its pods; like all changes, can be repeated
    ///
    /// NODES is a name, a pattern such as 'worker-*', or labels such as pool=web,!gpu.
    #[arg(long, value_name = "NODES", num_args = 1)]
    remove_node: Vec<String>,
    /// Cordon a node and evict its pods, except those of DaemonSets, as far as PodDisruptionBudgets allow
    ///
    /// The node remains, and its domain counts for spread constraints.
    #[arg(long, value_name = "NODES", num_args = 1)]
    drain: Vec<String>,
    /// Cordon a node: no pod is placed there any more
    #[arg(long, value_name = "NODES", num_args = 1)]
    cordon: Vec<String>,
    /// End the cordon of a node
    #[arg(long, value_name = "NODES", num_args = 1)]
    uncordon: Vec<String>,
    /// Remove all nodes with this label; zone and region stand for their label keys
    #[arg(long, value_name = "KEY=VALUE", num_args = 1, value_parser = key_value)]
    remove_domain: Vec<(String, String)>,
    /// Let the nodes with this label be unreachable: they stay, with the taints of such nodes, and pods leave that do not tolerate them
    #[arg(long, value_name = "KEY=VALUE", num_args = 1, value_parser = key_value)]
    lose: Vec<(String, String)>,
    /// For how long the nodes of --lose are unreachable, such as 10m: pods that tolerate that for longer stay [default: for ever]
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "lose")]
    r#for: Option<Duration>,
    /// Replace the nodes with these labels, or all, in turn: cordon, drain under PodDisruptionBudgets, replace by nodes like them, uncordon
    #[arg(long, value_name = "KEY=VALUE,...|all", num_args = 1, value_parser = node_labels)]
    roll_nodes: Vec<BTreeMap<String, String>>,
    /// Nodes that --roll-nodes adds before it drains as many others
    #[arg(long, value_name = "N", default_value_t = 0, requires = "roll_nodes")]
    surge: u16,
    /// Nodes that --roll-nodes drains at one time without others in their place [default: 1, or 0 with --surge]
    #[arg(long, value_name = "N", requires = "roll_nodes")]
    max_unavailable: Option<u16>,
    /// A file with the Node that the nodes of --roll-nodes are replaced by; its name does not count
    #[arg(long, value_name = "FILE", requires = "roll_nodes")]
    with: Option<String>,
    /// Let the cluster settle before the next change; this happens by itself between changes of different kinds, or of the same object
    #[arg(long, num_args = 0, default_missing_value = "true")]
    then: Vec<bool>,
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
        let mut add_of_nodes = |id: &str, nodes: Vec<String>, change: fn(String) -> Change| {
            let change = |node: &String| ChangeRequest::Change(change(node_name(node)));
            add(id, 1, nodes.iter().map(change).collect());
        };
        add_of_nodes("remove_node", flags.remove_node, Change::RemoveNode);
        add_of_nodes("drain", flags.drain, Change::Drain);
        add_of_nodes("cordon", flags.cordon, Change::Cordon);
        add_of_nodes("uncordon", flags.uncordon, Change::Uncordon);
        let domains = flags.remove_domain.into_iter().map(|(key, value)| {
            ChangeRequest::Change(Change::RemoveDomain { key: topology_key(&key), value })
        });
        add("remove_domain", 1, domains.collect());
        let seconds = flags.r#for.map(|duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX));
        let lost = flags.lose.into_iter().map(|(key, value)| {
            ChangeRequest::Change(Change::LoseContact { key: topology_key(&key), value, seconds })
        });
        add("lose", 1, lost.collect());
        let with = flags.with.as_deref().map(node_of_file).transpose()?;
        let max_unavailable = flags.max_unavailable.unwrap_or(u16::from(flags.surge == 0));
        if flags.surge == 0 && max_unavailable == 0 {
            return Err(error(
                "--max-unavailable",
                "with 0 nodes and without --surge no node can be replaced: give 1 or more",
            ));
        }
        let roll = |labels| {
            let (surge, max_unavailable) = (usize::from(flags.surge), usize::from(max_unavailable));
            ChangeRequest::RollNodes(RollNodes { labels, surge, max_unavailable, with: with.clone() })
        };
        add("roll_nodes", 1, flags.roll_nodes.into_iter().map(roll).collect());
        add("then", 1, flags.then.into_iter().map(|_| ChangeRequest::Then).collect());
        if flags.add_nodes.len() != flags.like.len() {
            return Err(error("--add-nodes", "each needs its own --like"));
        }
        let added = flags.add_nodes.into_iter().zip(flags.like).map(|(n, like)| {
            ChangeRequest::Change(Change::AddNodes { n_nodes: usize::from(n), like: node_name(&like) })
        });
        add("add_nodes", 1, added.collect());
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
        add(
            "fail_device",
            1,
            flags.fail_device.iter().map(|text| ChangeRequest::fail_device(text)).collect(),
        );
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

/// The only Node of a file.
fn node_of_file(file: &str) -> Result<Box<Node>, clap::Error> {
    let refused = |message: String| error(&format!("--with {file}"), &message);
    let mut inventory = Inventory::default();
    for input in find_inputs(&[file.to_owned()]).map_err(|e| refused(e.to_string()))? {
        let text = input.open(|_| ()).map_err(|e| refused(e.to_string()))?;
        inventory.read(text, file).map_err(|e| refused(e.to_string()))?;
    }
    match inventory.nodes.as_slice() {
        [node] => Ok(Box::new(node.object.clone())),
        nodes => Err(refused(format!("it has {} Nodes: give a file with one", nodes.len()))),
    }
}

/// Reads a node and a text as a change.
type Parse = fn(&str, &str) -> Result<ChangeRequest, String>;

fn error(flag: &str, message: &str) -> clap::Error {
    clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{flag}: {message}\n"))
}
