//! The types of new nodes, with their labels in each domain.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use berth_api::object::device::ResourceSlice;
use berth_api::object::volume::CsiNode;
use berth_api::object::{NamespacedName, Node, Pod, TOPOLOGY_LABELS, VolumeObject};
use berth_api::read::{Kind, SourceLocation};
use berth_api::syntax::labels::{HOSTNAME, ZONE};
use berth_control::expand::{belongs, target_node};
use berth_input::inventory::{Entry, Inventory};

use super::Target;
use super::error::CapacityError;
use super::price::Price;
use super::read_label::ReadLabel;
use super::room::NO_DOMAIN;
use crate::simulation::{Simulation, SimulationOptions, node_like, recreate, slices_of};
use crate::what_if::find_node;

/// The labels of zones and regions before Kubernetes 1.17.
const OLD_TOPOLOGY_LABELS: [&str; 2] =
    ["failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone"];

/// What new nodes are like.
#[derive(Clone, Debug)]
pub enum NodeType {
    /// Like an existing node.
    Existing(String),
    /// Like this object. It gets the labels of the domain that it is added in.
    Object(Box<Node>),
}

/// A type of nodes, in each domain.
pub(super) struct Model {
    pub(super) name: String,
    pub(super) price: Option<Price>,
    /// The label that tells the domains apart.
    pub(super) topology_key: String,
    /// With the labels of each domain.
    pub(super) nodes: Vec<(String, Node)>,
    pub(super) csi_node: Option<CsiNode>,
    /// The devices of the node that it is like.
    pub(super) slices: Vec<ResourceSlice>,
    /// The pods of DaemonSets in each domain, and those that the node runs itself.
    pub(super) daemons: Vec<Vec<Pod>>,
    /// Whether nodes are added to the domains in turn: no existing node is in one.
    pub(super) in_turn: bool,
    /// Whether it is a type, not an existing node.
    is_type: bool,
}

impl Model {
    /// The models of the target's node types.
    pub(super) fn all(
        inventory: &Inventory,
        options: &SimulationOptions,
        target: &Target,
        topology_key: &str,
    ) -> Result<Vec<Model>, CapacityError> {
        // A host is no domain for another node.
        let key = if topology_key == HOSTNAME { ZONE } else { topology_key };
        target
            .node_types
            .iter()
            .map(|node_type| Model::new(inventory, options, node_type, &target.zones, key))
            .collect()
    }

    fn new(
        inventory: &Inventory,
        options: &SimulationOptions,
        node_type: &NodeType,
        zones: &[Node],
        topology_key: &str,
    ) -> Result<Model, CapacityError> {
        let (like, is_type) = match node_type {
            NodeType::Existing(name) => (find_node(inventory, name)?, false),
            NodeType::Object(node) => (&**node, true),
        };
        let name = like.metadata.name.as_str();
        let csi_node = inventory.volume_objects.iter().find_map(|entry| match &entry.object {
            VolumeObject::CsiNode(csi_node) if csi_node.metadata.name == name => Some(csi_node.clone()),
            _ => None,
        });
        let own = like.metadata.label(topology_key);
        let mut by_domain = domains(inventory.nodes.iter().map(|entry| &entry.object), topology_key);
        let in_turn = is_type && own.is_none() && by_domain.is_empty();
        if in_turn {
            by_domain = domains(zones, topology_key);
        }
        if let Some(own) = own {
            by_domain.entry(own).or_insert(like);
        }
        let mut nodes: Vec<(String, Node)> = Vec::new();
        if own.is_some() || is_type {
            let moved = |(domain, to): (&&str, &&Node)| {
                ((*domain).to_owned(), moved(like, to, topology_key, is_type))
            };
            nodes.extend(by_domain.iter().map(moved));
        }
        if nodes.is_empty() {
            nodes.push((NO_DOMAIN.to_owned(), like.clone()));
        }
        Ok(Model {
            name: name.to_owned(),
            price: Price::parse(like)
                .map_err(|price| CapacityError::Price { node: name.to_owned(), price })?,
            topology_key: topology_key.to_owned(),
            csi_node,
            slices: slices_of(inventory, name).cloned().collect(),
            daemons: daemons(inventory, options, name, &nodes, is_type),
            nodes,
            in_turn,
            is_type,
        })
    }

    /// Refuses a type without a label that the rules about other pods read: its nodes would escape them. The host name is
    /// that of each new node.
    pub(super) fn check_labels(&self, read: &BTreeSet<ReadLabel>) -> Result<(), CapacityError> {
        let lacks = |label: &&ReadLabel| {
            let key = label.key.as_str();
            key != HOSTNAME && self.nodes.iter().any(|(_, node)| node.metadata.label(key).is_none())
        };
        match read.iter().find(lacks).filter(|_| self.is_type) {
            None => Ok(()),
            Some(label) => Err(CapacityError::NoLabel {
                node: self.name.clone(),
                label: label.clone(),
                is_zone: label.key == ZONE,
            }),
        }
    }
}

/// The pods that run on a new node in each domain: those of the DaemonSets of the input, and of DaemonSets that the input does not
/// have but pods of. Nodes like an existing one also run the pods that it runs itself.
fn daemons(
    inventory: &Inventory,
    options: &SimulationOptions,
    like: &str,
    nodes: &[(String, Node)],
    is_type: bool,
) -> Vec<Vec<Pod>> {
    let nodes = nodes.iter().enumerate();
    let nodes: Vec<Node> = nodes.map(|(i, (_, node))| node_like(node, format!("{like}-{i}"))).collect();
    let mut only_daemons = Inventory::default();
    only_daemons.namespaces.clone_from(&inventory.namespaces);
    let workloads = inventory.workloads.iter().filter(|entry| entry.object.kind() == Kind::DaemonSet);
    only_daemons.workloads = workloads.cloned().collect();
    only_daemons.priority_classes.clone_from(&inventory.priority_classes);
    only_daemons.runtime_classes.clone_from(&inventory.runtime_classes);
    only_daemons.limit_ranges.clone_from(&inventory.limit_ranges);
    only_daemons.placement_policies.clone_from(&inventory.placement_policies);
    let known = only_daemons.workloads.iter().map(|entry| entry.object.metadata().namespaced_name());
    let mut seen: HashSet<NamespacedName> = known.collect();
    let source = SourceLocation::file("new nodes");
    let entry = |node: &Node| Entry { object: node.clone(), raw: None, source: source.clone(), order: 0 };
    only_daemons.nodes = nodes.iter().map(entry).collect();
    let options = SimulationOptions { settings: options.settings.clone(), ..SimulationOptions::default() };
    // What cannot be expanded is reported when the cluster is built.
    let simulation = Simulation::of_valid(only_daemons, options).ok().map(|(simulation, _)| simulation);
    let mut daemons = vec![Vec::new(); nodes.len()];
    for pod in simulation.iter().flat_map(Simulation::pods) {
        let of_node = |node: &Node| target_node(&pod.pod) == Some(&node.metadata.name);
        nodes.iter().position(of_node).into_iter().for_each(|at| daemons[at].push(pod.pod.clone()));
    }
    let pods = inventory.pods.iter().map(|entry| &entry.object);
    for pod in pods.filter(|pod| pod.belongs_to_node() && !pod.metadata.is_deleting()) {
        let owner = pod.metadata.controller().filter(|owner| owner.kind == Kind::DaemonSet.name());
        let owner = owner.map(|owner| NamespacedName::new(&pod.metadata.namespace, &owner.name));
        let is_known = owner.as_ref().is_some_and(|owner| seen.contains(owner));
        let is_on_node = !is_type && pod.spec.node_name == like;
        if is_known || !is_on_node && (!is_type || owner.is_none()) {
            continue;
        }
        let mut new = pod.clone();
        recreate(&mut new, None);
        for (node, daemons) in nodes.iter().zip(&mut daemons) {
            let mut new = new.clone();
            if owner.is_none() || belongs(&mut new, node).should_run {
                daemons.push(new);
                seen.extend(owner.clone().filter(|_| is_type));
            }
        }
    }
    daemons
}

fn domains<'a>(nodes: impl IntoIterator<Item = &'a Node>, topology_key: &str) -> BTreeMap<&'a str, &'a Node> {
    let mut by_domain: BTreeMap<&str, &Node> = BTreeMap::new();
    for node in nodes {
        if let Some(domain) = node.metadata.label(topology_key) {
            by_domain.entry(domain).or_insert(node);
        }
    }
    by_domain
}

/// The node in the domains of another one. A type gets the labels that it does not have.
fn moved(like: &Node, to: &Node, topology_key: &str, is_type: bool) -> Node {
    let mut node = like.clone();
    for key in TOPOLOGY_LABELS.into_iter().chain(OLD_TOPOLOGY_LABELS).chain([topology_key]) {
        let has = is_type && key != HOSTNAME || node.metadata.labels.contains_key(key);
        if let Some(value) = to.metadata.label(key).filter(|_| has) {
            node.metadata.labels.insert(key.to_owned(), value.to_owned());
        }
    }
    node
}
