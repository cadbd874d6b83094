//! Bound volumes, and claims that are bound or provisioned once their first pod is scheduled.

mod score;

use berth_input::config::Plugin;
use smallvec::SmallVec;

use super::rule::{Filter, PreFilter, Reads, Rule, Scorer, TermInfo};
use super::volumes::{claim_path, pre_filter_by, volume_path};
use crate::cycle::context::{Context, NodeRef};
use crate::state::node::NodeId;
use crate::state::volume::ClaimKey;
use crate::verdict::{Rejection, Status, Verdict, ViolatedRule, bounded};
use crate::volume::{BindingVerdict, CycleVolumes};

const REASON_AFFINITY: &str = "node(s) didn't match PersistentVolume's node affinity";
const REASON_NO_VOLUME: &str = "node(s) didn't find available persistent volumes to bind";
const REASON_NO_CAPACITY: &str = "node(s) did not have enough free storage";
const REASON_MISSING: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

pub(super) struct VolumeBinding;

impl Rule for VolumeBinding {
    const PLUGIN: Plugin = Plugin::VolumeBinding;
    const READS: Reads = Reads::VOLUMES.and(Reads::NODE_LABELS);
    const VIOLATION: Option<ViolatedRule> = Some(ViolatedRule::VolumeBinding);

    /// Rejects a pod whose claims cannot be used, or should have been bound before.
    fn pre_filter(context: Context<'_>) -> PreFilter {
        let problem = context.cycle.volumes.as_ref().and_then(|volumes| volumes.binding.as_ref());
        pre_filter_by(Plugin::VolumeBinding, problem)
    }

    fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        let volumes = context.cycle.volumes.as_deref()?;
        let needed = !volumes.rules.bound.is_empty() || !volumes.rules.unbound.is_empty();
        needed.then(|| Box::new(BindableVolumes { context, volumes }) as Box<dyn Filter>)
    }

    fn scorer<'a>(context: Context<'a>, _feasible: &[NodeId]) -> Option<Box<dyn Scorer + 'a>> {
        score::scorer(context)
    }
}

impl Context<'_> {
    pub(crate) fn binds_volumes(self) -> bool {
        self.profile.profile.filter.contains(&Plugin::VolumeBinding)
    }
}

struct BindableVolumes<'a> {
    context: Context<'a>,
    volumes: &'a CycleVolumes,
}

impl BindingVerdict {
    fn reasons(self) -> impl Iterator<Item = &'static str> {
        let reasons = [
            (self.affinity_conflict, REASON_AFFINITY),
            (self.no_volume, REASON_NO_VOLUME),
            (self.no_capacity, REASON_NO_CAPACITY),
            (self.volume_missing, REASON_MISSING),
        ];
        reasons.into_iter().filter(|(holds, _)| *holds).map(|(_, reason)| reason)
    }
}

impl Filter for BindableVolumes<'_> {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        let verdict = self.volumes.binding_on(self.context.state, node.record);
        let reasons: SmallVec<[_; 1]> = verdict.reasons().map(Into::into).collect();
        let status = Status::UnschedulableAndUnresolvable;
        (!reasons.is_empty()).then_some(Rejection { plugin: Plugin::VolumeBinding, status, reasons })
    }

    fn admits(&self, node: NodeRef<'_>) -> bool {
        self.volumes.binding_on(self.context.state, node.record).fits()
    }

    fn terms(&self) -> Vec<TermInfo> {
        let volumes = &self.context.state.volumes;
        let bound = self.volumes.pod.claims.iter().filter_map(|used| {
            let claim = volumes.claim(&used.key).filter(|claim| claim.is_bound)?;
            let detail = self.bound_detail(&used.key, &claim.volume);
            let has_affinity = volumes.volume(&claim.volume)?.offer.affinity.is_some();
            has_affinity.then(|| TermInfo { term: volume_path(&used.volume), detail })
        });
        let unbound = self.volumes.unbound.iter().map(|key| TermInfo {
            term: claim_path(&self.volumes.pod, key),
            detail: self.unbound_detail(key),
        });
        bound.chain(unbound).collect()
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        let state = self.context.state;
        let found = self.volumes.binding_on(state, node.record);
        let verdict = |reason, detail| {
            Verdict::new(Plugin::VolumeBinding, Status::UnschedulableAndUnresolvable, reason, detail)
        };
        let mut verdicts = Vec::new();
        for used in &self.volumes.pod.claims {
            let Some(claim) = state.volumes.claim(&used.key).filter(|claim| claim.is_bound) else { continue };
            let detail = || self.bound_detail(&used.key, &claim.volume);
            let reason = match self.volumes.bound_rule_of(state, claim) {
                Some(rule) if rule.is_missing() => REASON_MISSING,
                Some(rule) if !rule.allows(state, node.record) => REASON_AFFINITY,
                _ => continue,
            };
            verdicts.push(verdict(reason, detail()).term(volume_path(&used.volume)));
        }
        for (holds, reason) in [(found.no_volume, REASON_NO_VOLUME), (found.no_capacity, REASON_NO_CAPACITY)]
        {
            let rejected = self.volumes.unbound.iter().filter(|_| holds);
            let of_claim = |key: &ClaimKey| {
                verdict(reason, self.unbound_detail(key)).term(claim_path(&self.volumes.pod, key))
            };
            verdicts.extend(rejected.map(of_claim));
        }
        verdicts
    }
}

impl BindableVolumes<'_> {
    /// Names where the volume is, if its node affinity says so.
    fn bound_detail(&self, claim: &ClaimKey, volume: &str) -> String {
        let state = self.context.state;
        let affinity = state.volumes.volume(volume).and_then(|volume| volume.offer.affinity.as_ref());
        let place = affinity.and_then(|affinity| affinity.required_labels(&state.symbols));
        let place = place.map(|place| format!(" in {place}")).unwrap_or_default();
        bounded(format_args!(
            "claim {} is bound to volume {volume}{place}: the node must match the volume's node affinity",
            claim.1
        ))
    }

    fn unbound_detail(&self, key: &ClaimKey) -> String {
        let volumes = &self.context.state.volumes;
        let Some(claim) = volumes.claim(key) else { return String::new() };
        let class = &claim.class;
        if let Some(node) = claim.selected_node() {
            return format!("the volume of claim {} is being provisioned for node {node}", key.1);
        }
        let provisions = volumes.class(class).is_some_and(|class| class.provisions());
        let size = claim.requested.map(|size| format!(" of {size}")).unwrap_or_default();
        if provisions {
            format!(
                "a volume{size} of class {class} for claim {} must be available or provisioned on the node",
                key.1
            )
        } else {
            format!(
                "a volume{size} of class {class} for claim {} must be available on the node: add one, or free one",
                key.1
            )
        }
    }
}
