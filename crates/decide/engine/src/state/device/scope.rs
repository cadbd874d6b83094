//! The nodes that a slice, a device or an allocation is for.

use std::sync::Arc;

use berth_api::object::NodeSelector;
use berth_rules::{Dialect, NodeRequirement, NodeTerm, Requirement};

use crate::state::interned::intern::{Symbol, Symbols};
use crate::state::node::NodeRecord;
use crate::state::node::condition::NodeSelectorMatcher;

/// The nodes that may use devices. A user of its symbols.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NodeScope {
    Node(Arc<str>),
    /// The node of this name, by a selector that names no other.
    SelectedNode(Arc<str>),
    All,
    Selected {
        matcher: Arc<NodeSelectorMatcher>,
        selector: Arc<NodeSelector>,
    },
    /// Each device says it.
    PerDevice,
    /// It is not said: no node.
    None,
}

impl NodeScope {
    pub(super) fn compile(
        symbols: &mut Symbols,
        node_name: Option<&str>,
        all_nodes: bool,
        selector: Option<&NodeSelector>,
    ) -> NodeScope {
        match (node_name, selector) {
            (Some(name), _) if !name.is_empty() => NodeScope::Node(name.into()),
            _ if all_nodes => NodeScope::All,
            (_, Some(selector)) => match NodeScope::selected(symbols, selector) {
                NodeScope::Node(name) => NodeScope::SelectedNode(name),
                scope => scope,
            },
            _ => NodeScope::None,
        }
    }

    /// The nodes that a selector selects; one that names a single node is kept by its name.
    pub(super) fn selected(symbols: &mut Symbols, selector: &NodeSelector) -> NodeScope {
        let terms = selector.node_selector_terms.iter();
        let terms: Vec<_> = terms.map(|term| NodeTerm::parse(term, Dialect::V1)).collect();
        if let [NodeTerm::All(requirements)] = &*terms
            && let [NodeRequirement::Name(Requirement::In(_, names))] = &**requirements
            && let [name] = &**names
        {
            return NodeScope::Node(name.as_str().into());
        }
        let matcher = Arc::new(NodeSelectorMatcher::compile(symbols, &terms));
        NodeScope::Selected { matcher, selector: Arc::new(selector.clone()) }
    }

    pub(crate) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        let matcher = match self {
            NodeScope::Selected { matcher, .. } => Some(matcher),
            _ => None,
        };
        matcher.into_iter().flat_map(|matcher| matcher.symbols())
    }

    /// Whether a node is one of them. For [`NodeScope::PerDevice`] that depends on the device.
    pub(crate) fn includes(&self, symbols: &Symbols, node: &NodeRecord) -> bool {
        match self {
            NodeScope::Node(name) | NodeScope::SelectedNode(name) => symbols.text(node.name) == &**name,
            NodeScope::All => true,
            NodeScope::Selected { matcher, .. } => matcher.matches(symbols, node),
            NodeScope::PerDevice | NodeScope::None => false,
        }
    }
}
