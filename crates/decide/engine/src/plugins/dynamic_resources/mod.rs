//! `DynamicResources`: claims of devices, and extended resources that devices provide.
//!
//! A claim that is allocated allows the nodes that can use its devices; for the others, devices have to be found on the node
//! ([`crate::device`]). The score prefers the first alternatives of lists. Source: enhancements 4381, 4815, 4816, 5004, 5007,
//! 5055 and 5075, as kube-scheduler 1.36 evaluates them.

use berth_api::config::Plugin;

use super::hints::{Hints, QueueingHint};
use super::rule::{Filter, Normalization, PreFilter, Reads, Rule, Scorer, TermInfo};
use crate::cycle::context::{Context, NodeRef};
use crate::device::{CycleDevices, NodeVerdict};
use crate::state::change::{Change, DeviceChange};
use crate::state::device::StatedClaim;
use crate::state::node::NodeId;
use crate::verdict::{Rejection, Status, Verdict};

pub(crate) struct DynamicResources;

impl Rule for DynamicResources {
    const PLUGIN: Plugin = Plugin::DynamicResources;
    const READS: Reads = Reads::NODE.and(Reads::DEVICES);
    const NORMALIZATION: Normalization = Normalization::OfScorer;

    fn pre_filter(context: Context<'_>) -> PreFilter {
        let problem = context.cycle.devices.as_ref().and_then(|devices| devices.problem.as_ref());
        problem.map_or(PreFilter::AllNodes, |reason| PreFilter::Rejected(unresolvable(reason.clone())))
    }

    fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        let devices = context.cycle.devices.as_deref()?;
        Some(Box::new(AllocatableClaims { context, devices }))
    }

    fn scorer<'a>(context: Context<'a>, _feasible: &[NodeId]) -> Option<Box<dyn Scorer + 'a>> {
        let devices = context.cycle.devices.as_deref()?;
        Some(Box::new(AllocatableClaims { context, devices }))
    }

    fn hints(context: Context<'_>) -> Option<Box<dyn Hints>> {
        context.cycle.devices.is_some().then(|| Box::new(DeviceHints) as Box<dyn Hints>)
    }
}

fn unresolvable(reason: String) -> Rejection {
    Rejection {
        plugin: Plugin::DynamicResources,
        status: Status::UnschedulableAndUnresolvable,
        reasons: [reason.into()].into_iter().collect(),
    }
}

impl Context<'_> {
    /// Whether the profile allocates claims of devices.
    pub(crate) fn allocates_devices(self) -> bool {
        self.profile.profile.filter.contains(&Plugin::DynamicResources)
    }
}

/// Claims that are allocated or have to be.
struct AllocatableClaims<'a> {
    context: Context<'a>,
    devices: &'a CycleDevices,
}

impl Filter for AllocatableClaims<'_> {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        match self.devices.on(self.context.state, node.record) {
            NodeVerdict::Fits(_) => None,
            NodeVerdict::Rejected(reason) => Some(unresolvable(reason.to_owned())),
            NodeVerdict::Error(error) => {
                let error = format!("running \"DynamicResources\" filter plugin: {error}");
                Some(Rejection { status: Status::Error, ..unresolvable(error) })
            }
        }
    }

    fn can_fail(&self) -> bool {
        true
    }

    fn terms(&self) -> Vec<TermInfo> {
        let of_claim = |claim: &crate::device::CycleClaim| TermInfo {
            term: path(&claim.name_in_pod),
            detail: self.detail(claim),
        };
        self.devices.claims.iter().map(of_claim).collect()
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        let Some(rejection) = self.check(node) else { return Vec::new() };
        let unavailable: Vec<_> = self.devices.unavailable_on(self.context.state, node.record).collect();
        let is_concerned = |claim: &&crate::device::CycleClaim| match unavailable.is_empty() {
            true => claim.unallocated.is_some(),
            false => unavailable.contains(&&claim.claim),
        };
        let reason = rejection.reasons.first().cloned().unwrap_or_default();
        let concerned = self.devices.claims.iter().filter(is_concerned);
        let mut verdicts: Vec<_> = concerned
            .map(|claim| {
                let verdict =
                    Verdict::new(Plugin::DynamicResources, rejection.status, "", self.detail(claim));
                let mut verdict = verdict.term(path(&claim.name_in_pod));
                verdict.reason = reason.clone();
                verdict
            })
            .collect();
        if verdicts.is_empty() {
            let detail =
                "devices must provide the extended resources that the node does not have itself".to_owned();
            let mut verdict = Verdict::new(Plugin::DynamicResources, rejection.status, "", detail);
            verdict.reason = reason;
            verdicts.push(verdict.term("spec.containers[*].resources.requests"));
        }
        verdicts
    }
}

impl AllocatableClaims<'_> {
    fn detail(&self, claim: &crate::device::CycleClaim) -> String {
        match claim.unallocated {
            Some(_) => {
                format!("claim {}: devices for all its requests must be free on the node", claim.claim.name())
            }
            None => format!(
                "claim {}: the node must be able to use the devices that are allocated",
                claim.claim.name()
            ),
        }
    }
}

/// The path of a claim in the pod.
fn path(name_in_pod: &str) -> String {
    format!("spec.resourceClaims[{name_in_pod}]")
}

impl Scorer for AllocatableClaims<'_> {
    fn score(&self, node: NodeRef<'_>) -> i64 {
        match self.devices.on(self.context.state, node.record) {
            NodeVerdict::Fits(found) => found.score,
            NodeVerdict::Rejected(_) | NodeVerdict::Error(_) => 0,
        }
    }

    fn normalize(&self, _nodes: &[NodeId], scores: &mut [i64]) {
        let max = scores.iter().copied().max().unwrap_or(0);
        scores.iter_mut().for_each(|score| *score = Normalization::Highest.of_highest(*score, max));
    }

    fn parts(&self, node: NodeRef<'_>) -> Vec<(String, i64)> {
        vec![("alternatives of prioritized requests".to_owned(), self.score(node))]
    }
}

/// The changes that could help a pod with claims.
#[derive(Debug)]
struct DeviceHints;

impl Hints for DeviceHints {
    fn hint(&self, context: Context<'_>, change: &Change) -> QueueingHint {
        let Some(devices) = &context.cycle.devices else { return QueueingHint::Skip };
        QueueingHint::queue_if(match change {
            // Devices may be free, or the claim is one of the pod.
            Change::Device(DeviceChange::Slice | DeviceChange::Class) => true,
            Change::Device(DeviceChange::Claim(name)) => {
                let names = |claim: &StatedClaim| matches!(claim, StatedClaim::Named(n) | StatedClaim::Made(n) if n == name);
                !devices.rules.unallocated.is_empty()
                    || !devices.rules.extended.is_empty()
                    || devices.problem.is_some()
                    || devices.pod.claims.iter().any(|entry| names(&entry.claim))
            }
            _ => false,
        })
    }
}
