//! Topologies: how node labels divide the nodes into domains.

use rustc_hash::FxHashMap;

use crate::state::interned::intern::{Labels, Symbol};
use crate::state::interned::table::{Id, Keyed, Table};
use crate::state::node::NodeId;

/// A topology known to the cluster.
pub(crate) type TopologyId = Id<Topology>;

impl TopologyId {
    /// The topology in which every node is a separate domain, whatever its labels.
    pub(crate) const NODE: TopologyId = TopologyId::FIRST;
}

/// A domain within one topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DomainId(pub(crate) u32);

const NO_DOMAIN: u32 = u32::MAX;

/// A user of its key.
#[derive(Clone)]
pub(crate) struct Topology {
    /// A label key, whose values' symbols are the domains; none of [`TopologyId::NODE`].
    key: Option<Symbol>,
    /// Domain of each node, `NO_DOMAIN` where it lacks the key.
    of_node: Vec<u32>,
    /// Number of nodes in each domain.
    n_nodes: FxHashMap<u32, u32>,
    /// Whether a domain has, or has had, several nodes.
    shared: bool,
}

impl Topology {
    fn new(key: Option<Symbol>) -> Topology {
        let (of_node, n_nodes) = Default::default();
        Topology { key, of_node, n_nodes, shared: false }
    }

    /// Sets the domain of a node; returns whether that made the topology a shared one.
    fn set(&mut self, node: NodeId, domain: u32) -> bool {
        let index = node.0 as usize;
        if self.of_node.len() <= index {
            self.of_node.resize(index + 1, NO_DOMAIN);
        }
        let before = std::mem::replace(&mut self.of_node[index], domain);
        if before == domain {
            return false;
        }
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

    fn domain(&self, labels: &Labels) -> u32 {
        self.key.and_then(|key| labels.get(key)).map_or(NO_DOMAIN, |value| value.0)
    }

    #[inline]
    fn domain_of(&self, node: NodeId) -> Option<DomainId> {
        self.of_node.get(node.0 as usize).copied().filter(|d| *d != NO_DOMAIN).map(DomainId)
    }
}

impl Keyed for Topology {
    type Key = Option<Symbol>;

    fn key(&self) -> &Option<Symbol> {
        &self.key
    }
}

/// All topologies that some term or constraint uses.
#[derive(Clone)]
pub(crate) struct Topologies {
    pub(in crate::state) table: Table<Topology>,
}

impl Default for Topologies {
    fn default() -> Self {
        let mut topologies = Topologies { table: Table::default() };
        let node = topologies.table.insert(Topology::new(None));
        debug_assert_eq!(node, TopologyId::NODE);
        topologies
    }
}

impl Topologies {
    pub(in crate::state) fn insert<'a>(
        &mut self,
        key: Symbol,
        nodes: impl Iterator<Item = (NodeId, &'a Labels)>,
    ) -> TopologyId {
        let mut topology = Topology::new(Some(key));
        for (node, labels) in nodes {
            let domain = topology.domain(labels);
            topology.set(node, domain);
        }
        self.table.insert(topology)
    }

    /// Sets a node's labels; `None` when the node is removed. Returns whether a topology became a shared one.
    pub(crate) fn set_node(&mut self, node: NodeId, labels: Option<&Labels>) -> bool {
        let mut becomes_shared = false;
        for topology in self.table.iter_mut().filter(|t| t.key.is_some()) {
            let domain = labels.map_or(NO_DOMAIN, |labels| topology.domain(labels));
            becomes_shared |= topology.set(node, domain);
        }
        becomes_shared
    }

    /// Whether domains may have several nodes; otherwise each is one node.
    pub(crate) fn is_shared(&self, topology: TopologyId) -> bool {
        self.table.get(topology).shared
    }

    /// The domain a node is in; none when it lacks the key.
    #[inline]
    pub(crate) fn domain(&self, topology: TopologyId, node: NodeId) -> Option<DomainId> {
        if topology == TopologyId::NODE {
            return Some(DomainId(node.0));
        }
        self.table.get(topology).domain_of(node)
    }

    /// The same for a topology that may have been removed: then none.
    pub(crate) fn find_domain(&self, topology: TopologyId, node: NodeId) -> Option<DomainId> {
        self.table.find_by_id(topology)?.domain_of(node)
    }

    pub(crate) fn key(&self, topology: TopologyId) -> Option<Symbol> {
        self.table.get(topology).key
    }
}
