//! What has changed since a view last looked.

use super::node::NodeId;

/// The nodes that changed, in order: a pod came or went, or the node itself is not what it was.
///
/// Old entries are forgotten; whoever has not looked since then must start anew.
#[derive(Default)]
pub(crate) struct ChangeLog {
    nodes: Vec<NodeId>,
    /// Position of the first entry kept.
    first: u64,
    /// Changes that concern every node at once.
    pub(crate) epochs: Epochs,
    /// Changes of what nodes are by themselves: labels, taints, whether they are cordoned or there at all.
    pub(crate) places: u64,
}

/// Counts of changes that no list of nodes can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epochs {
    /// Namespaces, services, the order of names, or whether a topology's domains are single nodes.
    pub(crate) layout: u64,
    /// Terms seen for the first time.
    pub(crate) terms: u64,
    /// On how many nodes, of how many, images are.
    pub(crate) images: u64,
}

/// Entries kept at least.
const MIN_KEPT: usize = 1 << 16;

impl ChangeLog {
    pub(crate) fn push(&mut self, node: NodeId) {
        self.nodes.push(node);
    }

    /// The position after the last entry.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.nodes.len() as u64
    }

    /// The entries from a position on; none if some of them are forgotten.
    pub(crate) fn since(&self, position: u64) -> Option<&[NodeId]> {
        let start = position.checked_sub(self.first)?;
        self.nodes.get(start as usize..)
    }

    /// Forgets the older half if there are more entries than `n_nodes` (reading all nodes anew is no more
    /// work than that); tells whether it did.
    pub(crate) fn trim(&mut self, n_nodes: usize) -> bool {
        let kept = MIN_KEPT.max(n_nodes);
        if self.nodes.len() < 2 * kept {
            return false;
        }
        let forgotten = self.nodes.len() - kept;
        self.nodes.drain(..forgotten);
        self.first += forgotten as u64;
        true
    }
}
