//! Domains: nodes with the same values of labels, or of attributes of their devices.
//!
//! The domains of a label among all nodes are kept in [`DomainTables`], with sums that follow the nodes that change.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::object::group::TopologyLevel;
use berth_rules::{Dialect, NodeRequirement, NodeSelectorRule, NodeTerm, PodRules, Requirement};
use smallvec::SmallVec;

use crate::cycle::context::NodeRef;
use crate::plugins::placement::{PlacementScorer, Usage};
use crate::state::State;
use crate::state::counting::topology::TopologyId;
use crate::state::interned::intern::Symbol;
use crate::state::node::{NodeId, NodeRecord};

/// Nodes with certain values of some labels, or of attributes of their devices.
#[derive(Clone)]
pub(super) struct Domain {
    /// The keys of the levels with the values.
    pub(super) labels: Arc<[(Arc<str>, Arc<str>)]>,
    /// None: all nodes.
    pub(super) nodes: Option<Arc<[NodeId]>>,
    /// Whether the members' rules count in this domain alone: it is that of a topology constraint.
    pub(super) is_constraint: bool,
    pub(super) sums: Sums,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sums {
    /// What they have in use, if placements are scored.
    pub(super) usage: Usage,
    pub(super) free: Free,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Free {
    milli_cpu: i64,
    memory: i64,
    pods: i64,
}

/// The least that each of some pods requests.
#[derive(Clone, Copy)]
pub(super) struct Least {
    pub(super) milli_cpu: i64,
    pub(super) memory: i64,
    /// A topology in which they keep apart, where each node is a domain.
    pub(super) apart: Option<TopologyId>,
}

impl Free {
    pub(super) fn of(node: &NodeRecord) -> Free {
        let (has, used) = (&node.allocatable.resources, &node.requested);
        Free {
            milli_cpu: (has.milli_cpu - used.milli_cpu).max(0),
            memory: (has.memory - used.memory).max(0),
            pods: (node.allocatable.pods - node.pods.len() as i64).max(0),
        }
    }

    /// So many pods fit at most.
    pub(super) fn room(self, each: Least) -> usize {
        let fit = |free: i64, each: i64| if each > 0 { free / each } else { i64::MAX };
        let n = fit(self.milli_cpu, each.milli_cpu).min(fit(self.memory, each.memory)).min(self.pods);
        usize::try_from(n).unwrap_or(usize::MAX)
    }
}

impl Sums {
    fn of(scorer: Option<&PlacementScorer>, id: NodeId, record: &NodeRecord) -> Sums {
        let usage = scorer.map(|scorer| scorer.usage(NodeRef::new(id, record))).unwrap_or_default();
        Sums { usage, free: Free::of(record) }
    }

    fn change(&mut self, other: &Sums, is_added: bool) {
        self.usage.change(&other.usage, is_added);
        let sign = if is_added { 1 } else { -1 };
        let add = |sum: &mut i64, n: i64| *sum = sum.saturating_add(n.saturating_mul(sign));
        add(&mut self.free.milli_cpu, other.free.milli_cpu);
        add(&mut self.free.memory, other.free.memory);
        add(&mut self.free.pods, other.free.pods);
    }
}

impl Domain {
    pub(super) fn all_nodes() -> Domain {
        Domain { labels: Arc::default(), nodes: None, is_constraint: false, sums: Sums::default() }
    }

    pub(super) fn value(&self) -> Option<&Arc<str>> {
        self.labels.last().map(|(_, value)| value)
    }

    /// Restricts the rules of a member to the domain.
    pub(super) fn restrict(&self, state: &State, rules: &mut PodRules) {
        let is_attribute = |key: &str| TopologyLevel::device_attribute(key).is_some();
        let labels = self.labels.iter().filter(|(key, _)| !is_attribute(key));
        rules.node_selector.extend(labels.map(|(key, value)| (key.to_string(), value.to_string())));
        let Some((key, _)) = self.labels.iter().rfind(|(key, _)| is_attribute(key)) else { return };
        let nodes = self.nodes.iter().flat_map(|nodes| nodes.iter());
        let mut names: Vec<_> =
            nodes.map(|id| state.symbols.text(state.nodes.get(*id).name).to_owned()).collect();
        names.sort_unstable();
        let among = Requirement::In("metadata.name".to_owned(), names.clone());
        rules.required_node_affinity.push(NodeSelectorRule {
            path: key.to_string(),
            dialect: Dialect::V1,
            required_during_execution: false,
            terms: vec![NodeTerm::All(vec![NodeRequirement::Name(among)])],
            node_names: Some(names),
        });
    }
}

/// The domains of a node label, or of an attribute of devices, among some nodes, by name.
pub(super) fn domains(
    state: &State,
    key: &str,
    within: &Domain,
    is_constraint: bool,
    scorer: Option<&PlacementScorer>,
) -> Vec<Domain> {
    let value_of = |record: &NodeRecord| state.domain_value(record, key);
    let mut by_value: BTreeMap<Cow<'_, str>, (Vec<NodeId>, Sums)> = BTreeMap::new();
    let some = within.nodes.iter().flat_map(|nodes| nodes.iter()).map(|id| (*id, state.nodes.get(*id)));
    let all = within.nodes.is_none().then(|| state.nodes.iter());
    for (id, record) in some.chain(all.into_iter().flatten()) {
        let Some(value) = value_of(record) else { continue };
        let (nodes, sums) = by_value.entry(value).or_default();
        nodes.push(id);
        sums.change(&Sums::of(scorer, id, record), true);
    }
    let key: Arc<str> = key.into();
    let domain = |(value, (nodes, sums)): (Cow<'_, str>, (Vec<NodeId>, Sums))| {
        let label = (key.clone(), Arc::from(value));
        let labels = within.labels.iter().cloned().chain([label]).collect();
        Domain { labels, nodes: Some(nodes.into()), is_constraint, sums }
    };
    by_value.into_iter().map(domain).collect()
}

/// The domains of labels among all nodes, of the labels that were asked for last.
#[derive(Default)]
pub(crate) struct DomainTables(Vec<DomainTable>);

const MAX_TABLES: usize = 8;

struct DomainTable {
    key: Symbol,
    /// The resources that are summed up.
    counted: SmallVec<[(Box<str>, bool); 2]>,
    /// As far as changes have been read.
    seen: u64,
    places: u64,
    layout: u64,
    domains: Vec<Domain>,
    /// What each node adds to its domain, by id.
    nodes: Vec<Option<(usize, Sums)>>,
}

impl DomainTables {
    /// The domains of a node label, or of an attribute of devices, that a topology constraint names, by name.
    pub(super) fn domains(
        &mut self,
        state: &State,
        key: &str,
        scorer: Option<&PlacementScorer>,
    ) -> Vec<Domain> {
        // Slices change the domains of attributes, and no change of a node says so.
        if TopologyLevel::device_attribute(key).is_some() {
            return domains(state, key, &Domain::all_nodes(), true, scorer);
        }
        let Some(symbol) = state.symbols.get(key) else { return Vec::new() };
        let counted = || scorer.into_iter().flat_map(PlacementScorer::counted);
        let known = self.0.iter().position(|table| {
            table.key == symbol && counted().eq(table.counted.iter().map(|(name, is)| (&**name, *is)))
        });
        let table = known.map(|at| self.0.remove(at)).filter(|table| table.is_of(state));
        let mut table = table.unwrap_or_else(|| DomainTable::new(state, symbol, scorer));
        table.catch_up(state, scorer);
        let domains = table.domains.clone();
        self.0.truncate(MAX_TABLES - 1);
        self.0.insert(0, table);
        domains
    }
}

impl DomainTable {
    fn new(state: &State, key: Symbol, scorer: Option<&PlacementScorer>) -> DomainTable {
        let domains = domains(state, state.symbols.text(key), &Domain::all_nodes(), true, scorer);
        let mut nodes = Vec::new();
        for (at, domain) in domains.iter().enumerate() {
            for id in domain.nodes.iter().flat_map(|nodes| nodes.iter()) {
                nodes.resize(nodes.len().max(id.0 as usize + 1), None);
                nodes[id.0 as usize] = Some((at, Sums::of(scorer, *id, state.nodes.get(*id))));
            }
        }
        let counted = scorer.into_iter().flat_map(PlacementScorer::counted);
        DomainTable {
            key,
            counted: counted.map(|(name, is)| (name.into(), is)).collect(),
            seen: state.changes.end(),
            places: state.changes.places,
            layout: state.changes.epochs.layout,
            domains,
            nodes,
        }
    }

    /// Whether it has the nodes of a state, and can catch up.
    fn is_of(&self, state: &State) -> bool {
        let changes = &state.changes;
        (self.places, self.layout) == (changes.places, changes.epochs.layout)
            && changes.since(self.seen).is_some()
    }

    fn catch_up(&mut self, state: &State, scorer: Option<&PlacementScorer>) {
        for id in state.changes.since(self.seen).into_iter().flatten() {
            let Some((at, before)) = self.nodes.get_mut(id.0 as usize).and_then(Option::as_mut) else {
                continue;
            };
            let now = Sums::of(scorer, *id, state.nodes.get(*id));
            if now != *before {
                let sums = &mut self.domains[*at].sums;
                sums.change(before, false);
                sums.change(&now, true);
                *before = now;
            }
        }
        self.seen = state.changes.end();
    }
}
