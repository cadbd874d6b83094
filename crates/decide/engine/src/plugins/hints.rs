//! Queueing hints: which changes of the cluster could help a pod that a rule rejected.
//!
//! What a rule reads of a node says most of it: a change of that node helps if all rules admit the pod there afterwards. A
//! rule that counts pods in other places adds its own hints.

use rustc_hash::FxHashSet;

use crate::cycle::context::Context;
use crate::state::State;
use crate::state::change::Change;
use crate::state::counting::matcher::MatcherId;
use crate::state::counting::topology::{DomainId, TopologyId};
use crate::state::node::NodeId;

/// Whether a change could help a rejected pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QueueingHint {
    /// It does not help.
    Skip,
    /// It helps if all rules admit the pod to the changed node now.
    CheckNode,
    /// It could help.
    Queue,
}

impl QueueingHint {
    /// [`QueueingHint::Queue`] if a condition holds.
    pub(crate) fn queue_if(condition: bool) -> QueueingHint {
        if condition { QueueingHint::Queue } else { QueueingHint::Skip }
    }
}

/// What one rule requires of the cluster, for a pod that it may have rejected.
///
/// The hints stay right whatever happens to the cluster afterwards, but may become coarser.
pub(crate) trait Hints: std::fmt::Debug + Send + Sync {
    /// The counts that the rule reads: their domains are gathered once.
    fn places(&mut self) -> Vec<&mut Places> {
        Vec::new()
    }

    /// Whether a change could help.
    fn hint(&self, context: Context<'_>, change: &Change) -> QueueingHint;
}

/// The hints of a rule that reads counters and does not say which changes help.
#[derive(Debug)]
pub(crate) struct AnyChange;

impl Hints for AnyChange {
    fn hint(&self, _context: Context<'_>, _change: &Change) -> QueueingHint {
        QueueingHint::Queue
    }
}

/// Counts of matching pods, where they matter.
#[derive(Debug)]
pub(crate) struct Places {
    all: Vec<Place>,
    /// The state of nodes when the domains were gathered.
    gathered: u64,
}

/// Matching pods in the domains of a topology.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) matcher: MatcherId,
    pub(crate) topology: TopologyId,
    /// Of anti-affinity.
    pub(crate) limit: u32,
    /// Domains with a node that the pod's rules about nodes alone allow.
    domains: FxHashSet<DomainId>,
}

impl Places {
    /// By matcher, topology and limit; without domains.
    pub(crate) fn new(state: &State, counts: impl Iterator<Item = (MatcherId, TopologyId, u32)>) -> Places {
        let place =
            |(matcher, topology, limit)| Place { matcher, topology, limit, domains: FxHashSet::default() };
        Places { all: counts.map(place).collect(), gathered: state.changes.places }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Place> {
        self.all.iter()
    }

    /// The places whose matcher is one of these, which are sorted.
    pub(crate) fn matched<'a>(&'a self, matched: &'a [MatcherId]) -> impl Iterator<Item = &'a Place> {
        self.all.iter().filter(|place| matched.binary_search(&place.matcher).is_ok())
    }

    /// Adds the domains of a node that the rules about nodes alone allow.
    pub(crate) fn add_node(&mut self, state: &State, node: NodeId) {
        for place in &mut self.all {
            place.domains.extend(state.topologies.domain(place.topology, node));
        }
    }

    /// Whether the domain of a node has a node that rules about nodes alone allow; yes if nodes have changed since the domains
    /// were gathered, or the node was removed.
    pub(crate) fn allow(&self, state: &State, place: &Place, node: &str) -> bool {
        let Some(id) = state.find_node(node).filter(|_| state.changes.places == self.gathered) else {
            return true;
        };
        state.topologies.domain(place.topology, id).is_some_and(|d| place.domains.contains(&d))
    }
}
