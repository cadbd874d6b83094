//! One node more: like which of the existing nodes it has to be.

use std::collections::{BTreeSet, HashMap};

use berth_api::object::Node;
use berth_api::object::device::{DeviceKind, DeviceObject};
use berth_api::syntax::labels::HOSTNAME;
use berth_engine::TopologyPair;
use berth_rules::{NodeRequirement, NodeTerm, TopologyScope};

use super::change::{Change, Repair};
use super::commands;
use super::node::{is_owned, new_domain};
use super::trial::{Problem, Trial};
use crate::simulation::node_like;

/// Name of the added node.
const NEW: &str = "new-node";
/// Number of nodes that repairs of a group add.
const MAX_ADDED: usize = 20;
/// The labels that name the pool of a node.
const POOL_LABELS: [&str; 8] = [
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "doks.digitalocean.com/node-pool",
    "pool.hetzner.com/name",
];
/// Number of kinds of nodes that are tried.
const MAX_SHAPES: usize = 300;

impl Trial<'_> {
    /// A node like an existing one: the smallest by CPU and memory on which the pod fits; if there is none, the smallest
    /// that is in its own domains.
    pub(super) fn add_node(&mut self, problem: &Problem) -> Option<Repair> {
        if self.only.is_some() {
            return None;
        }
        let name = new_name(|name| self.cluster.has_node(name))?;
        let keys = self.topology_keys(problem);
        let read = self.read_labels(problem, &keys);
        let needs_devices = self.devices.may_be_for(&self.pod.pod);
        self.budget.spend(self.nodes.len()).ok()?;
        let mut shapes = HashMap::new();
        for node in self.nodes.values() {
            let labels: Vec<_> = read.iter().map(|key| node.metadata.labels.get(key)).collect();
            let taints: Vec<_> = node.spec.taints.iter().filter(|taint| !is_owned(&taint.key)).collect();
            // Devices are not compared: for a pod that needs some, each node is tried.
            let own = needs_devices.then_some(&node.metadata.name);
            shapes.entry((&node.status.allocatable, labels, taints, own)).or_insert(node);
        }
        let mut shapes: Vec<&Node> = shapes.into_values().collect();
        shapes.sort_by_key(|node| {
            let amount = |resource| node.status.allocatable.as_ref().and_then(|a| a.get(resource)).copied();
            (amount("cpu"), amount("memory"), node.metadata.name.clone())
        });
        shapes.truncate(MAX_SHAPES);
        let without = [Vec::new(), keys];
        let tried = without.iter().flat_map(|keys| shapes.iter().map(move |node| (keys, node)));
        for (keys, node) in tried {
            let mut new = like(node, &name);
            let mut in_new_domain = Vec::new();
            for key in keys.iter().filter(|key| node.metadata.labels.contains_key(*key)) {
                let value = new_domain(key);
                new.metadata.labels.insert(key.clone(), value.clone());
                in_new_domain.push(TopologyPair { key: key.clone(), value: Some(value) });
            }
            let mut slices = Vec::new();
            if needs_devices {
                slices = self.devices.slices_like(&node.metadata.name, &name);
            }
            self.cluster.set_node(&new);
            for slice in &slices {
                self.cluster.set_device_object(&DeviceObject::ResourceSlice(Box::new(slice.clone())));
            }
            let fits = self.cluster.fits_on(&problem.prepared, &name) && self.breaks_nothing(problem, &name);
            for slice in &slices {
                self.cluster.remove_device_object(DeviceKind::ResourceSlice, "", &slice.metadata.name);
            }
            self.cluster.remove_node(&name);
            if fits {
                let pool = pool(node);
                let commands = if pool.is_some() { None } else { commands::create_node(&new, &slices) };
                let change = Change::AddNode { like: node.metadata.name.clone(), in_new_domain, pool };
                return Some(Repair::new(vec![change], name, commands.into_iter().collect()));
            }
        }
        None
    }

    /// The label keys that the rules of the pod and those against it read, besides the host name, which a new node has of its own.
    fn read_labels(&self, problem: &Problem, topology_keys: &[String]) -> BTreeSet<String> {
        let rules = &problem.rules;
        let selected = rules.node_selector.iter().map(|(key, _)| key);
        let requirements = rules.required_node_affinity.iter().flat_map(|rule| &rule.terms);
        let requirements = requirements.flat_map(|term| match term {
            NodeTerm::All(requirements) => requirements.as_slice(),
            _ => &[],
        });
        let required = requirements.filter_map(|requirement| match requirement {
            NodeRequirement::Label(requirement) => Some(requirement.key()),
            _ => None,
        });
        let spread = rules.spread_constraints.iter().map(|constraint| &constraint.topology_key);
        let keys = selected.chain(spread).chain(topology_keys).map(String::as_str);
        keys.chain(required).filter(|key| *key != HOSTNAME).map(str::to_owned).collect()
    }

    /// The topology keys of the rules about other pods, besides the host name.
    fn topology_keys(&self, problem: &Problem) -> Vec<String> {
        let verdicts = problem.rejecting.iter().flat_map(|(_, verdicts)| verdicts);
        let keys = verdicts.filter_map(|v| v.topology.as_ref()).map(|pair| pair.key.clone());
        let rules = &problem.rules;
        let own = rules.required_affinity.iter().chain(&rules.required_anti_affinity);
        let own = own.filter_map(|term| match &term.topology {
            TopologyScope::Key(key) => Some(key.clone()),
            TopologyScope::All => None,
        });
        let selected: BTreeSet<_> = rules.node_selector.iter().map(|(key, _)| key).collect();
        let all: BTreeSet<String> =
            keys.chain(own).filter(|key| key != HOSTNAME && !selected.contains(key)).collect();
        all.into_iter().collect()
    }
}

/// A new node of the same kind: empty, and in order.
pub(super) fn like(node: &Node, name: &str) -> Node {
    let mut new = node_like(node, name.to_owned());
    new.spec.taints.retain(|taint| !is_owned(&taint.key));
    new
}

fn new_name(taken: impl Fn(&str) -> bool) -> Option<String> {
    let names = (1..=MAX_ADDED).map(|i| if i == 1 { NEW.to_owned() } else { format!("{NEW}-{i}") });
    names.into_iter().find(|name| !taken(name))
}

/// The label of the node pool of a node: its nodes are added there.
fn pool(node: &Node) -> Option<TopologyPair> {
    let labels = &node.metadata.labels;
    let key = POOL_LABELS.into_iter().find(|key| labels.contains_key(*key))?;
    Some(TopologyPair { key: key.to_owned(), value: labels.get(key).cloned() })
}
