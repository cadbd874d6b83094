//! The types of new nodes: their labels in each domain, and their price.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::config::Plugin;
use berth_api::inventory::Inventory;
use berth_api::object::volume::CsiNode;
use berth_api::object::{NamespacedName, Node, Pod, TOPOLOGY_LABELS, VolumeObject};
use berth_api::rules::{PodRules, TopologyScope, WhenUnsatisfiable};
use berth_api::syntax::labels::{HOSTNAME, ZONE};
use berth_engine::TermSummary;
use serde::{Serialize, Serializer};

use super::Target;
use super::error::CapacityError;
use super::room::NO_DOMAIN;
use crate::simulation::Fate;
use crate::what_if::find_node;

/// The annotation of a node type with its price. With it on all types, the cheapest sum is the answer, and otherwise the
/// first type that is enough.
pub const PRICE_ANNOTATION: &str = "capacity.berth.dev/price";

/// Prices have at least cents, and at most this many digits after the point.
const MAX_DIGITS: usize = 9;

/// The labels of zones and regions before Kubernetes 1.17.
const OLD_TOPOLOGY_LABELS: [&str; 2] =
    ["failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone"];

/// What new nodes are like.
#[derive(Clone, Debug)]
pub enum NodeType {
    /// Like an existing node, with its daemon pods.
    Existing(String),
    /// Like this object. It gets the labels of the domain that it is added in.
    Object(Box<Node>),
}

/// A price of nodes, with as many digits after the point as that of one node, at least two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    sum: f64,
    n_digits: usize,
}

impl Price {
    fn parse(node: &Node) -> Result<Option<Price>, CapacityError> {
        let Some(text) = node.metadata.annotation(PRICE_ANNOTATION) else { return Ok(None) };
        let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
        let is_decimal = is_digits(text.split('.').next().unwrap_or_default())
            && (!text.contains('.') || is_digits(fraction))
            && fraction.len() <= MAX_DIGITS;
        let sum = text.parse().ok().filter(|_| is_decimal && text.len() <= 15);
        let sum = sum.ok_or_else(|| CapacityError::Price {
            node: node.metadata.name.clone(),
            price: text.to_owned(),
        })?;
        Ok(Some(Price { sum, n_digits: fraction.len().max(2) }))
    }

    /// The price of this many nodes, rounded to its digits.
    pub(super) fn times(self, n_nodes: usize) -> Price {
        let unit = 10_f64.powi(self.n_digits as i32);
        Price { sum: (self.sum * n_nodes as f64 * unit).round() / unit, ..self }
    }

    /// The number.
    pub fn sum(self) -> f64 {
        self.sum
    }
}

impl std::fmt::Display for Price {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.*}", self.n_digits, self.sum)
    }
}

impl Serialize for Price {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.sum)
    }
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
    /// The pods of DaemonSets on it.
    pub(super) daemons: Vec<NamespacedName>,
    /// Whether nodes are added to the domains in turn: no existing node is in one.
    pub(super) in_turn: bool,
    /// Whether it is a type, not an existing node.
    is_type: bool,
}

impl Model {
    /// The models of the target's node types.
    pub(super) fn all(
        inventory: &Inventory,
        target: &Target,
        topology_key: &str,
    ) -> Result<Vec<Model>, CapacityError> {
        // A host is no domain for another node.
        let key = if topology_key == HOSTNAME { ZONE } else { topology_key };
        target
            .node_types
            .iter()
            .map(|node_type| Model::new(inventory, node_type, &target.zones, key))
            .collect()
    }

    fn new(
        inventory: &Inventory,
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
        let pods = inventory.pods.iter().map(|entry| &entry.object);
        let daemons = pods.filter(|pod| {
            pod.spec.node_name == name && Fate::of(pod) == Fate::Gone && !pod.metadata.is_deleting()
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
            price: Price::parse(like)?,
            topology_key: topology_key.to_owned(),
            nodes,
            csi_node,
            daemons: daemons.map(|pod| pod.metadata.namespaced_name()).collect(),
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

/// A topology key, and the rule that reads it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadLabel {
    /// The key.
    pub key: String,
    /// The path of the rule in the pod, or in the existing pod that it belongs to.
    pub term: String,
}

/// The topology keys that decide where the pod may go: those of its required rules, and of other rules that exclude nodes.
pub(super) fn read_labels(pod: &Pod, extensions: bool, terms: &[TermSummary]) -> BTreeSet<ReadLabel> {
    let rules = PodRules::parse(pod, extensions);
    let label = |key: &str, term: &str| ReadLabel { key: key.to_owned(), term: term.to_owned() };
    let own = rules.required_affinity.iter().chain(&rules.required_anti_affinity);
    let own = own.filter_map(|term| match &term.topology {
        TopologyScope::Key(key) => Some(label(key, &term.path)),
        TopologyScope::All => None,
    });
    let spread = rules.spread_constraints.iter();
    let spread =
        spread.filter(|constraint| constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule);
    let spread = spread.map(|constraint| label(&constraint.topology_key, &constraint.path));
    let is_between_pods =
        |term: &&TermSummary| matches!(term.plugin, Plugin::InterPodAffinity | Plugin::PodTopologySpread);
    let others = terms
        .iter()
        .filter(is_between_pods)
        .flat_map(|term| term.domains.iter().map(|domain| label(&domain.topology.key, &term.term)));
    own.chain(spread).chain(others).collect()
}

/// A node in each domain.
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
