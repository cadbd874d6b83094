//! Whether one node is feasible, with the pods that are nominated to it.

use berth_input::config::Plugin;

use super::registry::{Filters, filters_of, pre_filter};
use super::rule::PreFilter;
use crate::cycle::context::{Context, NodeRef};
use crate::cycle::what_if::RelevantMatchers;
use crate::state::node::NodeId;
use crate::verdict::Rejection;

impl Context<'_> {
    /// Whether every rule admits the pod to a node, with the pods nominated to it and without.
    pub(crate) fn admits(self, id: NodeId) -> bool {
        self.admits_by(id, |_| true)
    }

    /// The same for some of the rules.
    pub(crate) fn admits_by(self, id: NodeId, is_meant: impl Fn(Plugin) -> bool) -> bool {
        let considered = match pre_filter(self) {
            PreFilter::AllNodes => true,
            PreFilter::Nodes(_, names) => names.iter().any(|n| n == self.state.node_name(id)),
            PreFilter::Rejected(_) => false,
        };
        if !considered {
            return false;
        }
        let filters = filters_of(self, is_meant);
        let node = NodeRef::new(id, self.state.nodes.get(id));
        filters.iter().all(|(_, filter)| filter.admits(node))
            && self.rejection_with_nominated(&filters, id).is_none()
    }

    /// The first rejection of a node, with the pods that are nominated to it there and then without.
    pub(crate) fn rejection(self, filters: &Filters<'_>, id: NodeId) -> Option<Rejection> {
        let node = NodeRef::new(id, self.state.nodes.get(id));
        let without = || filters.iter().find_map(|(_, filter)| filter.check(node));
        self.rejection_with_nominated(filters, id).or_else(without)
    }

    /// The first rejection of a node with the pods that are nominated to it there; none where there are none.
    pub(crate) fn rejection_with_nominated(self, filters: &Filters<'_>, id: NodeId) -> Option<Rejection> {
        if self.cycle.nominated.on(self.state, id).is_empty() {
            return None;
        }
        let relevant = RelevantMatchers::new(self);
        let mut node = relevant.on(id);
        node.change_nominated(1);
        filters.iter().find_map(|(_, filter)| filter.check(node.node()))
    }
}
