//! Domains: nodes with the same values of labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cycle::context::NodeRef;
use crate::plugins::placement::{PlacementScorer, Usage};
use crate::state::State;
use crate::state::node::NodeId;

/// Nodes with certain values of some labels.
#[derive(Clone)]
pub(super) struct Domain {
    pub(super) labels: Vec<(Arc<str>, Arc<str>)>,
    /// None: all nodes.
    pub(super) nodes: Option<Vec<NodeId>>,
    /// Whether the members' rules count in this domain alone: it is that of a topology constraint.
    pub(super) is_constraint: bool,
    /// What the nodes have in use, if placements are scored.
    pub(super) usage: Usage,
}

impl Domain {
    pub(super) fn all_nodes() -> Domain {
        Domain { labels: Vec::new(), nodes: None, is_constraint: false, usage: Usage::default() }
    }

    pub(super) fn value(&self) -> Option<&Arc<str>> {
        self.labels.last().map(|(_, value)| value)
    }
}

/// The domains of a node label among some nodes, by name.
pub(super) fn domains(
    state: &State,
    key: &str,
    within: &Domain,
    is_constraint: bool,
    scorer: Option<&PlacementScorer>,
) -> Vec<Domain> {
    let Some(symbol) = state.symbols.get(key) else { return Vec::new() };
    let key = state.symbols.shared_text(symbol);
    let mut domains: BTreeMap<Arc<str>, Domain> = BTreeMap::new();
    let mut by_value: FxHashMap<_, (Vec<NodeId>, Usage)> = FxHashMap::default();
    let some = within.nodes.iter().flatten().map(|id| (*id, state.nodes.get(*id)));
    let all = within.nodes.is_none().then(|| state.nodes.iter());
    for (id, record) in some.chain(all.into_iter().flatten()) {
        let Some(value) = record.labels.get(symbol) else { continue };
        let (nodes, usage) = by_value.entry(value).or_default();
        nodes.push(id);
        scorer.into_iter().for_each(|scorer| scorer.add(usage, NodeRef::new(id, record)));
    }
    for (value, (nodes, usage)) in by_value {
        let value = state.symbols.shared_text(value);
        let labels = within.labels.iter().cloned().chain([(key.clone(), value.clone())]).collect();
        domains.insert(value, Domain { labels, nodes: Some(nodes), is_constraint, usage });
    }
    domains.into_values().collect()
}
