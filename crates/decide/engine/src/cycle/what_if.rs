//! What if: one node with pods removed or added hypothetically, for one pod to be placed.
//!
//! The state is not touched. What rules read of the node itself (requests, ports, number of pods) is in a
//! copy of its record; by how much the counters of its domains would differ is in a [`CounterDelta`], for the
//! counters that are relevant to the pod.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::cycle::context::{Context, CounterDelta, NodeRef};
use crate::state::counting::counter::Tally;
use crate::state::counting::matcher::MatcherId;
use crate::state::device::PodDevices;
use crate::state::node::{NodeId, NodeRecord};
use crate::state::pod::signature::SignatureId;
use crate::state::rule_set::{ExistingTerm, RuleSetId};
use crate::state::volume::PodVolumes;

/// The matchers whose counters decide whether a pod fits.
pub(crate) struct RelevantMatchers<'a> {
    context: Context<'a>,
    /// Pods that match these.
    matching: SmallVec<[MatcherId; 4]>,
}

impl<'a> RelevantMatchers<'a> {
    pub(crate) fn new(context: Context<'a>) -> RelevantMatchers<'a> {
        let rule_set = context.rule_set;
        let terms =
            rule_set.required_affinity.iter().chain(&rule_set.required_anti_affinity).map(|t| t.matcher);
        let spread = context.cycle.spread.iter().filter_map(|s| s.matcher);
        let state = context.state;
        let existing = state.signatures.get(context.cycle.signature).matched_by_existing.iter().copied();
        let is_limited = |(_, limit, _)| limit > 0;
        let limited = existing.filter(|m| state.matchers.get(*m).anti_affinity().any(is_limited));
        let mut matching: SmallVec<[MatcherId; 4]> = terms.chain(spread).chain(limited).collect();
        matching.sort_unstable();
        matching.dedup();
        RelevantMatchers { context, matching }
    }

    /// A node as it is.
    pub(crate) fn on(&self, id: NodeId) -> NodeWhatIf<'_> {
        let record = self.context.state.nodes.get(id);
        let n_pods = record.pods.len() as i64;
        let delta = CounterDelta { n_pods, ..CounterDelta::default() };
        NodeWhatIf { relevant: self, id, record: record.without_pods(), delta }
    }
}

/// A node with other pods than it has.
pub(crate) struct NodeWhatIf<'a> {
    relevant: &'a RelevantMatchers<'a>,
    id: NodeId,
    record: NodeRecord,
    delta: CounterDelta,
}

impl NodeWhatIf<'_> {
    /// Adds (`sign` 1) or removes (−1) a pod.
    pub(crate) fn change(
        &mut self,
        rule_set: RuleSetId,
        signature: SignatureId,
        volumes: Option<&Arc<PodVolumes>>,
        devices: Option<&Arc<PodDevices>>,
        sign: i64,
    ) {
        let context = self.relevant.context;
        let Context { state, cycle, .. } = context;
        let compiled = state.rule_sets.get(rule_set);
        let rules = compiled.rules();
        self.record.account(&compiled.requests, &rules.requests, &rules.host_ports, sign);
        self.delta.n_pods += sign;
        self.delta.volumes.extend(volumes.filter(|_| cycle.volumes.is_some()).map(|v| (v.clone(), sign)));
        if let Some(devices) = devices.filter(|_| context.preempts_for_devices()) {
            self.delta.devices.add(devices, sign);
        }
        // PodTopologySpread does not count pods that are being deleted, but its `AddPod` and `RemovePod` do.
        let signature = state.signatures.get(signature);
        let matching = self.relevant.matching.iter();
        for matcher in matching.filter(|m| state.matches_while_alive(**m, signature)) {
            match self.delta.matching.iter_mut().find(|(m, _)| m == matcher) {
                Some((_, n)) => *n += sign,
                None => self.delta.matching.push((*matcher, sign)),
            }
        }
        let matched = &state.signatures.get(cycle.signature).matched_by_existing;
        for ExistingTerm { matcher, topology, kind, .. } in &compiled.existing_terms {
            let Some(limit) = kind.anti_affinity_limit() else { continue };
            if matched.binary_search(matcher).is_err() {
                continue;
            }
            let tally = Tally::one(sign, i64::from(signature.matches(*matcher)));
            let key = (*matcher, *topology, limit);
            match self.delta.owners.iter_mut().find(|(m, t, l, _)| (*m, *t, *l) == key) {
                Some((.., known)) => *known = *known + tally,
                None => self.delta.owners.push((key.0, key.1, key.2, tally)),
            }
        }
    }

    /// Adds (`sign` 1) or removes (−1) the pods nominated to the node; returns whether there are any.
    pub(crate) fn change_nominated(&mut self, sign: i64) -> bool {
        let Context { state, cycle, .. } = self.relevant.context;
        let pods = cycle.nominated.on(state, self.id);
        for pod in &pods {
            self.change(pod.rule_set, pod.signature, pod.volumes.as_ref(), pod.devices.as_ref(), sign);
            self.delta.devices.change_victims(&pod.victims, sign);
        }
        !pods.is_empty()
    }

    /// Deallocates the claims of devices whose pods are gone.
    pub(crate) fn without_gone(&mut self) {
        self.delta.devices.without_gone = self.relevant.context.preempts_for_devices();
    }

    /// The node as the rules are to see it.
    pub(crate) fn node(&self) -> NodeRef<'_> {
        NodeRef { id: self.id, record: &self.record, delta: Some(&self.delta) }
    }
}
