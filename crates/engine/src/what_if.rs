//! What if: one node with pods taken away or added in thought, for one pod to be placed.
//!
//! The cluster is not touched. What rules read of the node itself (requests, ports, number of pods) stands in a
//! copy of its record; by how much the counters of its domains would differ stands in a [`Shift`], for the
//! counters that concern the pod.

use smallvec::SmallVec;

use crate::plugins::{Context, NodeRef};
use crate::state::class::ClassId;
use crate::state::identity::IdentityId;
use crate::state::matcher::{CarriedKind, MatcherId};
use crate::state::node::{NodeId, NodeRecord};
use crate::state::topology::TopologyId;

/// The counters that decide whether a pod fits.
pub(crate) struct Concerns<'a> {
    context: Context<'a>,
    /// Pods that match these.
    matching: SmallVec<[MatcherId; 4]>,
}

/// By how much counts differ in the domains of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shift {
    matching: SmallVec<[(MatcherId, i64); 4]>,
    /// Pods with a term of required anti-affinity.
    carrying: SmallVec<[(MatcherId, TopologyId, i64); 2]>,
    n_pods: i64,
}

impl Shift {
    pub(crate) fn n_pods(&self) -> i64 {
        self.n_pods
    }

    /// Pods that match, more (or fewer) than counted.
    pub(crate) fn matching(&self, matcher: MatcherId) -> i64 {
        self.matching.iter().find(|(m, _)| *m == matcher).map_or(0, |(_, n)| *n)
    }

    /// Pods that carry a term of required anti-affinity, more (or fewer) than counted.
    pub(crate) fn carrying(&self, matcher: MatcherId, topology: TopologyId) -> i64 {
        let found = self.carrying.iter().find(|(m, t, _)| (*m, *t) == (matcher, topology));
        found.map_or(0, |(.., n)| *n)
    }
}

impl<'a> Concerns<'a> {
    pub(crate) fn new(context: Context<'a>) -> Concerns<'a> {
        let class = context.class;
        let terms = class.required_affinity.iter().chain(&class.required_anti_affinity).map(|t| t.matcher);
        let spread = context.incoming.spread.iter().filter_map(|s| s.matcher);
        let mut matching: SmallVec<[MatcherId; 4]> = terms.chain(spread).collect();
        matching.sort_unstable();
        matching.dedup();
        Concerns { context, matching }
    }

    /// A node as it is.
    pub(crate) fn on(&self, id: NodeId) -> WhatIf<'_> {
        let record = self.context.cluster.nodes.get(id).without_pods();
        let n_pods = self.context.cluster.nodes.get(id).pods.len() as i64;
        WhatIf { concerns: self, id, record, shift: Shift { n_pods, ..Shift::default() } }
    }
}

/// A node with other pods than it has.
pub(crate) struct WhatIf<'a> {
    concerns: &'a Concerns<'a>,
    id: NodeId,
    record: NodeRecord,
    shift: Shift,
}

impl WhatIf<'_> {
    /// Adds (`sign` 1) or takes away (−1) a pod.
    pub(crate) fn change(&mut self, class: ClassId, identity: IdentityId, sign: i64) {
        let Context { cluster, incoming, .. } = self.concerns.context;
        let compiled = cluster.classes.get(class);
        let rules = compiled.rules();
        self.record.charge(&compiled.requests, &rules.requests, &rules.host_ports, sign);
        self.shift.n_pods += sign;
        let matched = &cluster.identities.get(identity).matched;
        for matcher in self.concerns.matching.iter().filter(|m| matched.binary_search(m).is_ok()) {
            match self.shift.matching.iter_mut().find(|(m, _)| m == matcher) {
                Some((_, n)) => *n += sign,
                None => self.shift.matching.push((*matcher, sign)),
            }
        }
        let asked = &cluster.identities.get(incoming.identity).matched_by_existing;
        for carried in compiled.carried.iter().filter(|c| c.kind == CarriedKind::RequiredAntiAffinity) {
            if asked.binary_search(&carried.matcher).is_err() {
                continue;
            }
            let key = (carried.matcher, carried.topology);
            match self.shift.carrying.iter_mut().find(|(m, t, _)| (*m, *t) == key) {
                Some((.., n)) => *n += sign,
                None => self.shift.carrying.push((key.0, key.1, sign)),
            }
        }
    }

    /// The node as the rules are to see it.
    pub(crate) fn node(&self) -> NodeRef<'_> {
        NodeRef { id: self.id, record: &self.record, shift: Some(&self.shift) }
    }
}
