//! `DynamicResources`: claims of devices, and extended resources that devices provide.
//!
//! A claim that is allocated allows the nodes that can use its devices; for the others, devices have to be found on the node
//! ([`crate::device`]). The score prefers the first alternatives of lists. Source: enhancements 4381, 4815, 4816, 5004, 5007,
//! 5055 and 5075, as kube-scheduler 1.36 evaluates them.

use std::borrow::Cow;
use std::cell::OnceCell;

use berth_api::object::ContainerExtendedResourceRequest;
use berth_api::syntax::quantity::with_unit;
use berth_input::config::Plugin;

use super::hints::{Hints, QueueingHint};
use super::rule::{Filter, Normalization, PreFilter, Reads, Rule, Scorer, TermInfo};
use crate::cycle::context::{Context, NodeRef};
use crate::device::{
    CANNOT_ALLOCATE, CycleClaim, CycleDevices, DevicesInUse, Holders, INVALID_POOLS, NodeVerdict, Obstacle,
    Refusal, Requested,
};
use crate::state::change::{Change, DeviceChange};
use crate::state::device::{Alternative, StatedClaim};
use crate::state::node::NodeId;
use crate::state::node::shortage::Shortage;
use crate::verdict::{Counts, Rejection, Status, Verdict};

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
        Some(Box::new(AllocatableClaims { context, devices, holders: OnceCell::new() }))
    }

    fn scorer<'a>(context: Context<'a>, _feasible: &[NodeId]) -> Option<Box<dyn Scorer + 'a>> {
        let devices = context.cycle.devices.as_deref()?;
        Some(Box::new(AllocatableClaims { context, devices, holders: OnceCell::new() }))
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

    /// Whether devices of the pod may take allocatable resources of its node.
    pub(crate) fn takes_allocatable(self) -> bool {
        self.state.devices_take_allocatable() && self.cycle.devices.is_some() && self.allocates_devices()
    }

    /// Whether the pod gets devices by preemption, and devices are reserved for nominated pods: an extension.
    pub(crate) fn preempts_for_devices(self) -> bool {
        self.cycle.devices.is_some()
            && self.allocates_devices()
            && self.profile.profile.dynamic_resources.preempt_for_devices
    }
}

/// Claims that are allocated or have to be.
struct AllocatableClaims<'a> {
    context: Context<'a>,
    devices: &'a CycleDevices,
    /// Found out for the first node that is explained.
    holders: OnceCell<Holders>,
}

impl Filter for AllocatableClaims<'_> {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        self.rejection(self.on(node))
    }

    fn can_fail(&self) -> bool {
        true
    }

    fn terms(&self) -> Vec<TermInfo> {
        let of_claim = |claim: &CycleClaim| {
            let term = |detail| TermInfo { term: path(&claim.name_in_pod), detail };
            match self.requested(claim) {
                None => vec![term(of_allocated(claim))],
                Some(requested) => {
                    let n_requests = requested.spec.requests.len();
                    (0..n_requests).map(|request| term(self.detail(claim, Some(request)))).collect()
                }
            }
        };
        self.devices.claims.iter().flat_map(of_claim).collect()
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        let rejection = match self.on(node) {
            NodeVerdict::Refused(refusal) => return self.refused(*refusal),
            found => self.rejection(found),
        };
        let Some(rejection) = rejection else { return Vec::new() };
        let reason = rejection.reasons.first().cloned().unwrap_or_default();
        let verdict = |detail: String, term: String| {
            let verdict = Verdict::new(Plugin::DynamicResources, rejection.status, "", detail).term(term);
            Verdict { reason: reason.clone(), ..verdict }
        };
        let state = self.context.state;
        let claims = || self.devices.claims.iter();
        let unavailable: Vec<_> = self.devices.unavailable_on(state, node.record).collect();
        let mut verdicts: Vec<_> = claims()
            .filter(|claim| unavailable.contains(&&claim.claim))
            .map(|claim| verdict(of_allocated(claim), path(&claim.name_in_pod)))
            .collect();
        if rejection.status != Status::Error && verdicts.is_empty() {
            let holders = self.holders.get_or_init(|| state.devices.holders());
            for obstacle in self.devices.obstacles_on(state, node.record, holders) {
                let Obstacle { claim, request, requested, available, excluded } = obstacle;
                let of_pod = claims().find(|of_pod| of_pod.unallocated == Some(claim));
                let (detail, term) = match of_pod {
                    Some(claim) => (self.detail(claim, request), path(&claim.name_in_pod)),
                    None => (self.extended_detail(node, request), RESOURCES.to_owned()),
                };
                let counts = Counts::Devices { requested, available, excluded_devices: excluded };
                verdicts.push(verdict(detail, term).counts(counts));
            }
        }
        if verdicts.is_empty() {
            let open = claims().filter(|claim| claim.unallocated.is_some());
            verdicts.extend(open.map(|claim| verdict(self.detail(claim, None), path(&claim.name_in_pod))));
        }
        if verdicts.is_empty() {
            verdicts.push(verdict(self.extended_detail(node, None), RESOURCES.to_owned()));
        }
        verdicts
    }
}

impl AllocatableClaims<'_> {
    fn rejection(&self, found: NodeVerdict) -> Option<Rejection> {
        match found {
            NodeVerdict::Fits(_) => None,
            // kube-scheduler says that no removal of pods helps.
            NodeVerdict::Rejected(reason)
                if self.context.preempts_for_devices()
                    && [CANNOT_ALLOCATE, INVALID_POOLS].contains(&&*reason) =>
            {
                Some(Rejection { status: Status::Unschedulable, ..unresolvable(reason.into_owned()) })
            }
            NodeVerdict::Rejected(reason) => Some(unresolvable(reason.into_owned())),
            NodeVerdict::Refused(refusal) => Some(refusal.rejection),
            NodeVerdict::Error(error) => {
                let error = format!("running \"DynamicResources\" filter plugin: {error}");
                Some(Rejection { status: Status::Error, ..unresolvable(error) })
            }
        }
    }

    fn on(&self, node: NodeRef<'_>) -> NodeVerdict {
        let state = self.context.state;
        let in_use = DevicesInUse::on(state, node.record, node.device_delta(), self.devices);
        self.devices.on(state, node.record, &in_use)
    }

    /// What the node lacks for what devices take of it, or the reason of another kind.
    fn refused(&self, Refusal { rejection, shortages }: Refusal) -> Vec<Verdict> {
        let names: Vec<_> = self.devices.claims.iter().map(|claim| path(&claim.name_in_pod)).collect();
        let verdict = |reason: Cow<'static, str>, detail: String| Verdict {
            reason,
            ..Verdict::new(Plugin::DynamicResources, rejection.status, "", detail).term(names.join(", "))
        };
        let symbols = &self.context.state.symbols;
        let of_shortage = |shortage: &Shortage| {
            let resource = shortage.resource_name(symbols).to_owned();
            let Shortage { requested, used, allocatable, .. } = *shortage;
            let amount = with_unit(&resource, requested);
            verdict(
                shortage.reason(symbols),
                format!("with what its devices take of the node, requests {amount} {resource}"),
            )
            .counts(Counts::Resource { resource, requested, used, allocatable })
        };
        match &shortages[..] {
            [] => {
                let detail = "its devices take allocatable resources of the node".to_owned();
                rejection.reasons.iter().map(|reason| verdict(reason.clone(), detail.clone())).collect()
            }
            shortages => shortages.iter().map(of_shortage).collect(),
        }
    }

    /// The claim, if it has to be allocated.
    fn requested(&self, claim: &CycleClaim) -> Option<&Requested> {
        self.devices.rules.unallocated.get(claim.unallocated?)
    }

    /// What a request of a claim requires of a node, or all its requests.
    fn detail(&self, claim: &CycleClaim, request: Option<usize>) -> String {
        let name = claim.claim.name();
        let request = self.requested(claim).zip(request).and_then(|(of, i)| of.spec.requests.get(i));
        match request {
            Some(request) => {
                let wanted: Vec<_> = request.alternatives.iter().map(Alternative::in_words).collect();
                format!("claim {name}, request {}: {}", request.name, wanted.join(", or "))
            }
            None => format!("claim {name}: the devices of all its requests must be free together"),
        }
    }

    /// What a request for an extended resource requires of a node, or all of them.
    fn extended_detail(&self, node: NodeRef<'_>, request: Option<usize>) -> String {
        let extended = self.devices.extended_on(self.context.state, node.record);
        let found = extended.as_ref().zip(request).and_then(|((claim, mappings), i)| {
            let request = claim.spec.requests.get(i)?;
            let mapping = mappings.iter().find(|mapping| *mapping.request_name == *request.name)?;
            Some((mapping, request.alternatives.first()?))
        });
        match found {
            Some((ContainerExtendedResourceRequest { container_name, resource_name, .. }, wanted)) => {
                format!("{resource_name} of container {container_name}: {}", wanted.in_words())
            }
            None => {
                "devices must provide the extended resources that the node does not have itself".to_owned()
            }
        }
    }
}

/// The path of extended resources in the pod.
const RESOURCES: &str = "spec.containers[*].resources.requests";

fn of_allocated(claim: &CycleClaim) -> String {
    format!("claim {}: the node must be able to use the devices that are allocated", claim.claim.name())
}

fn path(name_in_pod: &str) -> String {
    format!("spec.resourceClaims[{name_in_pod}]")
}

/// Alternatives count before waste.
const MAX_WASTE_SCORE: i64 = 100;

impl Scorer for AllocatableClaims<'_> {
    /// With the strategy `LeastWaste`, its score counts beside that of the alternatives.
    fn score(&self, node: NodeRef<'_>) -> i64 {
        match self.on(node) {
            NodeVerdict::Fits(found) if self.devices.least_waste.is_some() => {
                found.score * (MAX_WASTE_SCORE + 1) + found.waste.map_or(0, |waste| waste.score())
            }
            NodeVerdict::Fits(found) => found.score,
            NodeVerdict::Rejected(_) | NodeVerdict::Refused(_) | NodeVerdict::Error(_) => 0,
        }
    }

    fn normalize(&self, _nodes: &[NodeId], scores: &mut [i64]) {
        if self.devices.least_waste.is_some() && !self.devices.has_alternatives() {
            return;
        }
        let max = scores.iter().copied().max().unwrap_or(0);
        scores.iter_mut().for_each(|score| *score = Normalization::Highest.of_highest(*score, max));
    }

    fn parts(&self, node: NodeRef<'_>) -> Vec<(String, i64)> {
        let what = match self.devices.least_waste {
            Some(_) => "alternatives of prioritized requests, and waste of devices",
            None => "alternatives of prioritized requests",
        };
        vec![(what.to_owned(), self.score(node))]
    }
}

/// The changes that could help a pod with claims.
#[derive(Debug)]
struct DeviceHints;

impl Hints for DeviceHints {
    fn hint(&self, context: Context<'_>, change: &Change) -> QueueingHint {
        let Some(devices) = &context.cycle.devices else { return QueueingHint::Skip };
        QueueingHint::queue_if(match change {
            Change::Device(DeviceChange::Slice | DeviceChange::Class) => true,
            // Devices may be free, or the claim is one of the pod.
            Change::Device(DeviceChange::Claim { name, frees }) => {
                let names = |claim: &StatedClaim| matches!(claim, StatedClaim::Named(n) | StatedClaim::Made(n) if n == name);
                let waits = || !devices.rules.unallocated.is_empty() || !devices.rules.extended.is_empty();
                *frees && (waits() || devices.problem.is_some())
                    || devices.pod.claims.iter().any(|entry| names(&entry.claim))
            }
            // A selector that fails for a device of one node ends the attempt on all: another node, without this device, may help.
            Change::NodeChanged(_, parts) => parts.labels && !devices.rules.unallocated.is_empty(),
            Change::NodeRemoved => !devices.rules.unallocated.is_empty(),
            _ => false,
        })
    }
}
