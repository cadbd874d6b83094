//! Topologies: how node labels divide the nodes into domains.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use super::intern::{Labels, Symbol};
use super::node::NodeId;

/// A topology known to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TopologyId(u32);

impl TopologyId {
    /// The topology in which every node is a domain of its own, whatever its labels.
    pub(crate) const NODE: TopologyId = TopologyId(0);
}

/// A domain within one topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DomainId(pub(crate) u32);

const NO_DOMAIN: u32 = u32::MAX;

struct Topology {
    /// Sorted label keys; nodes with equal values of all of them share a domain. Usually one key.
    keys: Box<[Symbol]>,
    /// Domains of a topology with several keys; with one key the value's symbol is the domain.
    by_values: HashMap<Box<[Symbol]>, u32>,
    /// Domain of each node, `NO_DOMAIN` where it lacks a key.
    of_node: Vec<u32>,
    /// Number of nodes in each domain.
    n_nodes: FxHashMap<u32, u32>,
    /// Whether a domain has, or has had, several nodes.
    shared: bool,
}

impl Topology {
    fn new(keys: Box<[Symbol]>) -> Topology {
        let (by_values, of_node, n_nodes) = Default::default();
        Topology { keys, by_values, of_node, n_nodes, shared: false }
    }

    /// Notes the domain of a node; tells whether that made the topology a shared one.
    fn set(&mut self, node: NodeId, domain: u32) -> bool {
        let index = node.0 as usize;
        if self.of_node.len() <= index {
            self.of_node.resize(index + 1, NO_DOMAIN);
        }
        let before = std::mem::replace(&mut self.of_node[index], domain);
        if let Some(n) = self.n_nodes.get_mut(&before) {
            *n -= 1;
            if *n == 0 {
                self.n_nodes.remove(&before);
            }
        }
        if domain == NO_DOMAIN {
            return false;
        }
        let n = self.n_nodes.entry(domain).or_default();
        *n += 1;
        let becomes_shared = *n > 1 && !self.shared;
        self.shared |= becomes_shared;
        becomes_shared
    }

    fn domain(&mut self, labels: &Labels) -> u32 {
        if let [key] = *self.keys {
            return labels.get(key).map_or(NO_DOMAIN, |value| value.0);
        }
        let Some(values) = self.keys.iter().map(|k| labels.get(*k)).collect::<Option<Box<[Symbol]>>>() else {
            return NO_DOMAIN;
        };
        let next = self.by_values.len() as u32;
        *self.by_values.entry(values).or_insert(next)
    }
}

/// All topologies that some term or constraint speaks of.
pub(crate) struct Topologies {
    by_keys: HashMap<Box<[Symbol]>, TopologyId>,
    all: Vec<Topology>,
}

impl Default for Topologies {
    fn default() -> Self {
        let node = Topology::new(Box::default());
        Topologies { by_keys: HashMap::new(), all: vec![node] }
    }
}

impl Topologies {
    /// The topology of these label keys (at least one), made if need be.
    pub(crate) fn intern<'a>(
        &mut self,
        mut keys: Vec<Symbol>,
        nodes: impl Iterator<Item = (NodeId, &'a Labels)>,
    ) -> TopologyId {
        keys.sort_unstable();
        keys.dedup();
        let keys: Box<[Symbol]> = keys.into();
        if let Some(id) = self.by_keys.get(&keys) {
            return *id;
        }
        let mut topology = Topology::new(keys.clone());
        for (node, labels) in nodes {
            let domain = topology.domain(labels);
            topology.set(node, domain);
        }
        let id = TopologyId(self.all.len() as u32);
        self.all.push(topology);
        self.by_keys.insert(keys, id);
        id
    }

    /// Takes note of a node's labels; `None` when the node goes. Tells whether a topology became a shared one.
    pub(crate) fn set_node(&mut self, node: NodeId, labels: Option<&Labels>) -> bool {
        let mut becomes_shared = false;
        for topology in &mut self.all[1..] {
            let domain = labels.map_or(NO_DOMAIN, |labels| topology.domain(labels));
            becomes_shared |= topology.set(node, domain);
        }
        becomes_shared
    }

    /// Whether domains may have several nodes; otherwise each is one node.
    pub(crate) fn is_shared(&self, topology: TopologyId) -> bool {
        self.all[topology.0 as usize].shared
    }

    /// The domain a node is in; none when it lacks a key.
    #[inline]
    pub(crate) fn domain(&self, topology: TopologyId, node: NodeId) -> Option<DomainId> {
        if topology == TopologyId::NODE {
            return Some(DomainId(node.0));
        }
        let domain = *self.all[topology.0 as usize].of_node.get(node.0 as usize)?;
        (domain != NO_DOMAIN).then_some(DomainId(domain))
    }

    /// The label keys of a topology.
    pub(crate) fn keys(&self, topology: TopologyId) -> &[Symbol] {
        &self.all[topology.0 as usize].keys
    }
}
