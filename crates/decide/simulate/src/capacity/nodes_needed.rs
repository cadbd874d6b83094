//! How many nodes a number of replicas needs, and in which domains.
//!
//! A greedy search adds a node where the next replica fits on it. Its number is an upper bound: smaller numbers are tried
//! in all distributions over the domains while that is cheap, and else in those next to the best one. A placement of all
//! replicas in the enlarged cluster verifies each answer.

use std::collections::BTreeMap;

use berth_api::inventory::Inventory;
use berth_api::object::volume::CsiNode;
use berth_api::object::{NamespacedName, Node, TOPOLOGY_LABELS, VolumeKind, VolumeObject};
use serde::Serialize;

use super::room::{NO_DOMAIN, Room};
use crate::simulation::{Fate, new_node_name, node_like};
use crate::what_if::{ChangeError, find_node};

/// The annotation of a node type with its price. With it on all types, the cheapest sum is the answer, and otherwise the
/// first type that is enough.
pub const PRICE_ANNOTATION: &str = "capacity.berth.dev/price";

/// The labels of zones and regions before Kubernetes 1.17.
const OLD_TOPOLOGY_LABELS: [&str; 2] =
    ["failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone"];

/// Maximum number of nodes that are added.
const MAX_NODES: usize = 20_000;
/// Number of replicas that the search for fewer nodes places in all.
const MAX_PLACED: usize = 2_000_000;

/// What new nodes are like.
#[derive(Clone, Debug)]
pub enum NodeType {
    /// Like an existing node, with its daemon pods.
    Existing(String),
    /// Like this object.
    Object(Box<Node>),
}

/// New nodes that are enough.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewNodes {
    /// The name of the node that they are like, or of the node type.
    pub like: String,
    /// Their number by domain.
    pub by_domain: BTreeMap<String, usize>,
    /// Their price, if the node types have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
}

/// A type of nodes, in each domain.
pub(super) struct Model {
    name: String,
    price: Option<f64>,
    /// With the labels of each domain.
    nodes: Vec<(String, Node)>,
    csi_node: Option<CsiNode>,
    /// The pods of DaemonSets on it.
    daemons: Vec<NamespacedName>,
}

impl Model {
    /// The models of node types.
    pub(super) fn all(
        inventory: &Inventory,
        types: &[NodeType],
        topology_key: &str,
    ) -> Result<Vec<Model>, ChangeError> {
        types.iter().map(|node_type| Model::new(inventory, node_type, topology_key)).collect()
    }

    fn new(inventory: &Inventory, node_type: &NodeType, topology_key: &str) -> Result<Model, ChangeError> {
        let like = match node_type {
            NodeType::Existing(name) => find_node(inventory, name)?,
            NodeType::Object(node) => node,
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
        let mut by_domain: BTreeMap<&str, &Node> = BTreeMap::new();
        for node in inventory.nodes.iter().map(|entry| &entry.object) {
            if let Some(domain) = node.metadata.label(topology_key) {
                by_domain.entry(domain).or_insert(node);
            }
        }
        let own = like.metadata.label(topology_key);
        let nodes = match own {
            // A host is no domain for another node.
            Some(own) if own != name => {
                by_domain.entry(own).or_insert(like);
                by_domain
                    .iter()
                    .map(|(domain, node)| ((*domain).to_owned(), moved(like, node, topology_key)))
                    .collect()
            }
            own => vec![(own.unwrap_or(NO_DOMAIN).to_owned(), like.clone())],
        };
        Ok(Model {
            name: name.to_owned(),
            price: like.metadata.annotation(PRICE_ANNOTATION).and_then(|price| price.parse().ok()),
            nodes,
            csi_node,
            daemons: daemons.map(|pod| pod.metadata.namespaced_name()).collect(),
        })
    }
}

/// The node in the domains of another one.
fn moved(like: &Node, to: &Node, topology_key: &str) -> Node {
    let mut node = like.clone();
    for key in TOPOLOGY_LABELS.into_iter().chain(OLD_TOPOLOGY_LABELS).chain([topology_key]) {
        if let (Some(label), Some(value)) = (node.metadata.labels.get_mut(key), to.metadata.label(key)) {
            value.clone_into(label);
        }
    }
    node
}

/// A distribution of new nodes: their number by position in [`Model::nodes`].
type Distribution = Vec<usize>;

impl Room {
    /// The cheapest nodes with which this many replicas fit.
    pub(super) fn cheapest(&mut self, models: &[Model], n_replicas: usize) -> Option<NewNodes> {
        let all_priced = models.iter().all(|model| model.price.is_some());
        let mut best: Option<NewNodes> = None;
        for model in models {
            let Some(distribution) = self.nodes_needed(model, n_replicas) else { continue };
            let n_nodes: usize = distribution.iter().sum();
            let price = model.price.map(|price| price * n_nodes as f64);
            let domains = model.nodes.iter().zip(distribution).filter(|(_, n)| *n > 0);
            let by_domain = domains.map(|((domain, _), n)| (domain.clone(), n)).collect();
            let found = NewNodes { like: model.name.clone(), by_domain, price };
            if !all_priced {
                return Some(found);
            }
            if best.as_ref().is_none_or(|best| found.price < best.price) {
                best = Some(found);
            }
        }
        best
    }

    fn nodes_needed(&mut self, model: &Model, n_replicas: usize) -> Option<Distribution> {
        let mut best = self.greedy(model, n_replicas)?;
        // The replicas of the greedy search were placed before the last nodes were there.
        while !self.suffices(model, &best, n_replicas) {
            if best.iter().sum::<usize>() > MAX_NODES {
                return None;
            }
            best.iter_mut().for_each(|n| *n += 1);
        }
        let mut left = (MAX_PLACED / n_replicas.max(1)).max(2 * model.nodes.len());
        while let Some(n_fewer) = best.iter().sum::<usize>().checked_sub(1) {
            let candidates = match n_distributions(n_fewer, model.nodes.len()) {
                Some(n) if n <= left => distributions(n_fewer, model.nodes.len()),
                _ => one_fewer(&best),
            };
            left = left.saturating_sub(candidates.len());
            let found = candidates.into_iter().find(|d| self.suffices(model, d, n_replicas));
            match found {
                Some(fewer) => best = fewer,
                None => break,
            }
        }
        Some(best)
    }

    /// Adds nodes while replicas are missing: wherever the next one fits on a new node.
    fn greedy(&mut self, model: &Model, n_replicas: usize) -> Option<Distribution> {
        let mut distribution = vec![0; model.nodes.len()];
        let mut added = Vec::new();
        let mut placed = self.fill(0, n_replicas);
        let mut is_possible = true;
        while placed.len() < n_replicas && is_possible {
            let mut domains: Vec<usize> = (0..distribution.len()).collect();
            domains.sort_by_key(|i| distribution[*i]);
            let n_before = placed.len();
            for domain in domains {
                let node = self.add_node(model, domain);
                placed.extend(self.fill(placed.len(), n_replicas - placed.len()));
                if placed.len() > n_before {
                    distribution[domain] += 1;
                    added.push(node);
                    break;
                }
                self.remove_node(model, &node);
            }
            if placed.len() == n_before {
                // Only nodes in several domains help together.
                for (domain, n) in distribution.iter_mut().enumerate() {
                    added.push(self.add_node(model, domain));
                    *n += 1;
                }
                placed.extend(self.fill(placed.len(), n_replicas - placed.len()));
            }
            is_possible = placed.len() > n_before && added.len() < MAX_NODES;
        }
        let is_enough = placed.len() == n_replicas;
        self.take_back(&placed);
        added.iter().for_each(|node| self.remove_node(model, node));
        is_enough.then_some(distribution)
    }

    /// Whether this many replicas fit with these new nodes.
    fn suffices(&mut self, model: &Model, distribution: &[usize], n_replicas: usize) -> bool {
        let mut added = Vec::new();
        for (domain, n) in distribution.iter().enumerate() {
            added.extend((0..*n).map(|_| self.add_node(model, domain)));
        }
        let placed = self.fill(0, n_replicas);
        let is_enough = placed.len() == n_replicas;
        self.take_back(&placed);
        added.iter().for_each(|node| self.remove_node(model, node));
        is_enough
    }

    /// Adds a node with its daemon pods; returns its name.
    fn add_node(&mut self, model: &Model, domain: usize) -> String {
        let cluster = self.simulation.cluster();
        let name = new_node_name(&model.name, |name| cluster.has_node(name));
        cluster.set_node(&node_like(&model.nodes[domain].1, name.clone()));
        if let Some(mut csi_node) = model.csi_node.clone() {
            csi_node.metadata.name.clone_from(&name);
            cluster.set_volume_object(VolumeObject::CsiNode(csi_node));
        }
        for daemon in &model.daemons {
            if let Some(pod) = cluster.as_pending(daemon.namespace(), daemon.name(), false) {
                cluster.assume(&pod.named(&format!("{}-{name}", daemon.name())), &name);
            }
        }
        name
    }

    fn remove_node(&mut self, model: &Model, name: &str) {
        let cluster = self.simulation.cluster();
        for daemon in &model.daemons {
            cluster.remove_pod(daemon.namespace(), &format!("{}-{name}", daemon.name()));
        }
        if model.csi_node.is_some() {
            cluster.remove_volume_object(VolumeKind::CsiNode, "", name);
        }
        cluster.remove_node(name);
    }
}

/// The number of distributions of nodes over domains; none if it is very large.
fn n_distributions(n_nodes: usize, n_domains: usize) -> Option<usize> {
    let mut n: usize = 1;
    for i in 1..n_domains {
        n = n.checked_mul(n_nodes + i)? / i;
    }
    Some(n)
}

fn distributions(n_nodes: usize, n_domains: usize) -> Vec<Distribution> {
    if n_domains <= 1 {
        return vec![vec![n_nodes; n_domains]];
    }
    let with = |first: usize| {
        let rest = distributions(n_nodes - first, n_domains - 1).into_iter();
        rest.map(move |rest| [vec![first], rest].concat())
    };
    (0..=n_nodes).flat_map(with).collect()
}

/// The distributions with one node fewer in one domain.
fn one_fewer(distribution: &[usize]) -> Vec<Distribution> {
    let fewer = |i: usize| {
        let mut fewer = distribution.to_vec();
        fewer[i] -= 1;
        fewer
    };
    (0..distribution.len()).filter(|i| distribution[*i] > 0).map(fewer).collect()
}
