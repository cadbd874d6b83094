//! Queueing hints of inter-pod affinity and anti-affinity.

use super::super::hints::{Hints, Place, Places, QueueingHint};
use super::existing::{exceeds_limit, existing_anti_affinity};
use crate::cycle::context::Context;
use crate::state::change::{Change, NodeParts, PodAt};
use crate::state::counting::counter::{Counter, Tally};
use crate::state::counting::matcher::{ExistingTermKind, Matcher, MatcherId};
use crate::state::rule_set::{ExistingTerm, RequiredTerm};

/// The counts that the required terms of a pod read.
#[derive(Debug)]
pub(super) struct InterPodHints {
    /// Pods to be near, by requirement.
    affinity: Vec<Places>,
    /// Pods to be away from.
    anti_affinity: Places,
}

impl Hints for InterPodHints {
    fn places(&mut self) -> Vec<&mut Places> {
        self.affinity.iter_mut().chain([&mut self.anti_affinity]).collect()
    }

    fn hint(&self, context: Context<'_>, change: &Change) -> QueueingHint {
        match change {
            Change::NodeChanged(_, parts) => QueueingHint::queue_if(self.node_helps(context, *parts)),
            Change::PodDetached(pod) => QueueingHint::queue_if(self.leaving_helps(context, pod)),
            Change::PodAttached(pod) => self.coming_hint(context, pod),
            Change::NamespaceChanged(namespace) => {
                QueueingHint::queue_if(self.namespace_helps(context, namespace))
            }
            _ => QueueingHint::Skip,
        }
    }
}

impl InterPodHints {
    pub(super) fn new(context: Context<'_>) -> InterPodHints {
        let places = |terms: &[RequiredTerm]| {
            let counts = terms
                .iter()
                .flat_map(|t| t.topologies.iter().map(|topology| (t.matcher, *topology, t.limit)));
            Places::new(context.state, counts)
        };
        InterPodHints {
            affinity: context.rule_set.affinity_requirements().map(places).collect(),
            anti_affinity: places(&context.rule_set.required_anti_affinity),
        }
    }

    /// Whether a change of a node could make another one feasible: its pods count in other domains now.
    fn node_helps(&self, context: Context<'_>, parts: NodeParts) -> bool {
        let by_pods =
            || !self.affinity.is_empty() || !self.anti_affinity.is_empty() || is_rejected_by_others(context);
        parts.labels && parts.has_pods && by_pods()
    }

    /// Whether a pod that left could make another node feasible than the one it left.
    fn leaving_helps(&self, context: Context<'_>, pod: &PodAt) -> bool {
        let state = context.state;
        let matched = &state.signatures.get(pod.signature).matched;
        // If nodes have changed since, the domains that it left may not be those that the node has now.
        let node = state.find_node(&pod.node).filter(|_| state.changes.places == pod.places);
        // The node alone is checked otherwise: it was removed or is not the same, or others share its domain.
        let reaches_others = |topology| node.is_none() || state.topologies.is_shared(topology);
        let tally = |counter: Option<&Counter>, topology| {
            let domain = node.and_then(|id| state.topologies.domain(topology, id));
            domain.zip(counter).map_or(Tally::default(), |(domain, counter)| counter.get(domain))
        };

        let mut anti_affinity = self.anti_affinity.matched(matched);
        if anti_affinity.any(|p| {
            let counter = state.matchers.get(p.matcher).matching_in(p.topology);
            reaches_others(p.topology)
                && tally(counter, p.topology).count <= i64::from(p.limit)
                && self.anti_affinity.allow(state, p, &pod.node)
        }) {
            return true;
        }
        // The pod may have become the first of its group.
        let unmatched =
            |p: &Place| state.matchers.get(p.matcher).matching_in(p.topology).is_none_or(Counter::is_empty);
        let mut requirements = self.affinity.iter();
        if requirements.any(|of| of.matched(matched).next().is_some() && of.iter().all(unmatched)) {
            return true;
        }
        let rejecting = &state.signatures.get(context.cycle.signature).matched_by_existing;
        // The last owner: the terms of nominated pods, on any node, do not count any more.
        let mut left = state.rule_sets.get(pod.rule_set).existing_terms.iter();
        let concerns = |t: &ExistingTerm| rejecting.binary_search(&t.matcher).is_ok();
        if left.any(|t| matches!(t.kind, ExistingTermKind::RequiredAntiAffinity(_)) && concerns(t))
            && existing_anti_affinity(context).all(|e| e.owners.is_empty())
        {
            return true;
        }
        let mut own = state.rule_sets.get(pod.rule_set).existing_terms.iter();
        own.any(|term| {
            let owners = || state.matchers.get(term.matcher).owners_in(term.topology, term.kind);
            term.kind == ExistingTermKind::RequiredAntiAffinity(0)
                && rejecting.binary_search(&term.matcher).is_ok()
                && reaches_others(term.topology)
                && tally(owners(), term.topology).count == 0
        }) || rejecting.iter().any(|id| {
            // An owner of a limited term left, or a pod that counts for it.
            let counts = matched.binary_search(id).is_ok();
            let matcher = state.matchers.get(*id);
            matcher.anti_affinity().filter(|(_, limit, _)| *limit > 0).any(|(topology, limit, owners)| {
                let kind = ExistingTermKind::RequiredAntiAffinity(limit);
                let mut own = state.rule_sets.get(pod.rule_set).existing_terms.iter();
                let n_matching = tally(matcher.matching_in(topology), topology).count;
                (counts || own.any(|t| (t.matcher, t.topology, t.kind) == (*id, topology, kind)))
                    && reaches_others(topology)
                    && !exceeds_limit(limit, Some(tally(Some(owners), topology)), n_matching)
            })
        })
    }

    /// Whether a pod that came could make a node feasible: one that the pod is to be near.
    fn coming_hint(&self, context: Context<'_>, pod: &PodAt) -> QueueingHint {
        let state = context.state;
        let near = |of: &Places, place: &Place| match state.topologies.is_shared(place.topology) {
            true => QueueingHint::queue_if(of.allow(state, place, &pod.node)),
            false => QueueingHint::CheckNode,
        };
        let matched = &state.signatures.get(pod.signature).matched;
        let hints = self.affinity.iter().flat_map(|of| of.matched(matched).map(|place| near(of, place)));
        hints.max().unwrap_or(QueueingHint::Skip)
    }

    /// Whether other labels of a namespace could change what terms match.
    fn namespace_helps(&self, context: Context<'_>, namespace: &str) -> bool {
        let matchers = &context.state.matchers;
        let looks = |m: MatcherId| matchers.get(m).looks_at_namespace_labels();
        let mut places = self.affinity.iter().flat_map(Places::iter).chain(self.anti_affinity.iter());
        // Terms of running pods that the pod may have matched until now; they may have been removed since.
        let rejects = |m: &Matcher| m.looks_at_namespace_labels() && !m.owners.is_empty();
        // With a limit, it matters as well which other pods match.
        let limits =
            |m: &Matcher| m.looks_at_namespace_labels() && m.anti_affinity().any(|(_, limit, _)| limit > 0);
        places.any(|p| looks(p.matcher))
            || matchers.any(limits)
            || (context.state.symbols.text(context.rule_set.key.namespace) == namespace
                && matchers.any(rejects))
    }
}

/// Whether running pods have required anti-affinity that could be against the pod.
fn is_rejected_by_others(context: Context<'_>) -> bool {
    let state = context.state;
    let matched = &state.signatures.get(context.cycle.signature).matched_by_existing;
    let mut topologies =
        matched.iter().flat_map(|m| state.matchers.get(*m).owners.iter().map(|owners| owners.topology));
    let is_skipped = || existing_anti_affinity(context).all(|e| e.owners.is_empty());
    topologies.any(|topology| state.topologies.is_shared(topology)) || (!matched.is_empty() && is_skipped())
}
