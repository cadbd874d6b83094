//! What if: one node with pods removed or added hypothetically, for one pod to be placed.
//!
//! The state is not touched. What rules read of the node itself (requests, ports, number of pods) is in a
//! copy of its record; by how much the counters of its domains would differ is in a [`CounterDelta`], for the
//! counters that are relevant to the pod. Pods of other nodes can be removed as well, as far as these counters go.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::cycle::context::{Context, CounterDelta, NodeRef};
use crate::state::counting::counter::Tally;
use crate::state::counting::matcher::MatcherId;
use crate::state::device::PodDevices;
use crate::state::node::{NodeId, NodeRecord};
use crate::state::pod::PodRecord;
use crate::state::pod::signature::SignatureId;
use crate::state::rule_set::{ExistingTerm, RuleSetId};
use crate::state::volume::PodVolumes;

/// The matchers whose counters decide whether a pod fits.
pub(crate) struct RelevantMatchers<'a> {
    context: Context<'a>,
    /// Pods that match these.
    matching: SmallVec<[MatcherId; 4]>,
    /// Whether the removal of a pod that is being deleted changes counts that it has no part in: kube-scheduler's PodTopologySpread
    /// does not count such pods, but its `AddPod` and `RemovePod` do.
    counts_terminating: bool,
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
        RelevantMatchers { context, matching, counts_terminating: true }
    }

    /// With the counts that there are once the pods have left.
    pub(crate) fn exact(context: Context<'a>) -> RelevantMatchers<'a> {
        RelevantMatchers { counts_terminating: false, ..RelevantMatchers::new(context) }
    }

    pub(crate) fn on(&self, id: NodeId) -> NodeWhatIf<'_> {
        let record = self.context.state.nodes.get(id);
        let n_pods = record.pods.len() as i64;
        let delta = CounterDelta { n_pods, ..CounterDelta::default() };
        NodeWhatIf { relevant: self, id, record: record.without_pods(), delta }
    }
}

impl RelevantMatchers<'_> {
    /// Counts a pod that a node has more or less.
    fn count(
        &self,
        delta: &mut CounterDelta,
        rule_set: RuleSetId,
        signature: SignatureId,
        volumes: Option<&Arc<PodVolumes>>,
        sign: i64,
    ) {
        let Context { state, cycle, .. } = self.context;
        if let Some(volumes) = volumes.filter(|_| cycle.volumes.is_some()) {
            let is_opposite =
                |(known, n): &(Arc<PodVolumes>, i64)| Arc::ptr_eq(known, volumes) && *n == -sign;
            match delta.volumes.iter().position(is_opposite) {
                Some(at) => drop(delta.volumes.remove(at)),
                None => delta.volumes.push((volumes.clone(), sign)),
            }
        }
        let signature = state.signatures.get(signature);
        let matches = |matcher| match self.counts_terminating {
            true => state.matches_while_alive(matcher, signature),
            false => signature.matches(matcher),
        };
        for matcher in self.matching.iter().filter(|matcher| matches(**matcher)) {
            match delta.matching.iter_mut().find(|(m, _)| m == matcher) {
                Some((_, n)) => *n += sign,
                None => delta.matching.push((*matcher, sign)),
            }
        }
        let matched = &state.signatures.get(cycle.signature).matched_by_existing;
        for ExistingTerm { matcher, topology, kind, .. } in &state.rule_sets.get(rule_set).existing_terms {
            let Some(limit) = kind.anti_affinity_limit() else { continue };
            if matched.binary_search(matcher).is_err() {
                continue;
            }
            let tally = Tally::one(sign, i64::from(signature.matches(*matcher)));
            let key = (*matcher, *topology, limit);
            match delta.owners.iter_mut().find(|(m, t, l, _)| (*m, *t, *l) == key) {
                Some((.., known)) => *known = *known + tally,
                None => delta.owners.push((key.0, key.1, key.2, tally)),
            }
        }
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
        let compiled = context.state.rule_sets.get(rule_set);
        let rules = compiled.rules();
        self.record.account(&compiled.requests, &rules.requests, &rules.host_ports, sign);
        if let Some(devices) = devices
            && let Some(taken) = context.state.taken_by(Some(devices))
        {
            self.record.account_devices(&taken, sign);
            self.delta.devices.change_left(devices, sign);
        }
        self.delta.n_pods += sign;
        if let Some(devices) = devices.filter(|_| context.preempts_for_devices()) {
            self.delta.devices.add(devices, sign);
        }
        self.relevant.count(&mut self.delta, rule_set, signature, volumes, sign);
    }

    /// The same for a pod of another node. Devices of such pods stay in use.
    pub(crate) fn change_elsewhere(&mut self, node: NodeId, pod: &PodRecord, sign: i64) {
        let elsewhere = &mut self.delta.elsewhere;
        let at = elsewhere.iter().position(|(known, _)| *known == node).unwrap_or_else(|| {
            elsewhere.push((node, CounterDelta::default()));
            elsewhere.len() - 1
        });
        let delta = &mut elsewhere[at].1;
        self.relevant.count(delta, pod.rule_set, pod.signature, pod.volumes.as_ref(), sign);
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
