//! Claims and what is allocated to them.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::Toleration;
use berth_api::object::device::{
    ALLOCATION_MODE_ALL, ALLOCATION_MODE_EXACT_COUNT, AllocationResult, CapacityRequirements,
    DeviceConstraint, DeviceReadiness, DeviceRequest, DeviceSelector, ResourceClaim,
    ResourceClaimConsumerReference, ResourceClaimSpec,
};
use berth_api::resource::POD_GROUPS;
use berth_api::syntax::quantity::Quantity;
use berth_rules::TolerationRule;
use rustc_hash::FxHasher;

use super::PoolName;
use super::pod_devices::PodDevices;
use super::scope::NodeScope;
use super::selector::Selector;
use crate::state::interned::intern::{Symbol, Symbols};

/// What a claim requests. Claims with equal specifications share it.
#[derive(Debug)]
pub(crate) struct ClaimSpec {
    pub(crate) requests: Box<[ClaimRequest]>,
    pub(crate) constraints: Box<[Constraint]>,
    /// What a later version of the API has put into it, in kube-scheduler's words: nothing is allocated.
    pub(crate) unsupported: Option<String>,
    /// As it is written.
    pub(crate) source: ResourceClaimSpec,
}

#[derive(Debug)]
pub(crate) struct ClaimRequest {
    pub(crate) name: Box<str>,
    /// Whether it is a list of alternatives, of which the first that can be satisfied counts.
    pub(crate) is_prioritized: bool,
    pub(crate) alternatives: Box<[Alternative]>,
}

/// A way to satisfy a request.
#[derive(Debug)]
pub(crate) struct Alternative {
    /// The name of the request, and of the alternative: `r0` or `r0/s1`.
    pub(crate) full_name: Box<str>,
    pub(crate) class: Box<str>,
    pub(crate) selectors: Box<[Arc<Selector>]>,
    pub(crate) count: CountMode,
    pub(crate) admin_access: bool,
    pub(crate) tolerations: Box<[TolerationRule]>,
    pub(crate) written_tolerations: Vec<Toleration>,
    /// How much of the capacities to take, by their names.
    pub(crate) capacity: BTreeMap<String, Quantity>,
}

impl Alternative {
    /// The name of the request, or of the alternative alone.
    pub(crate) fn name(&self) -> &str {
        self.full_name.rsplit('/').next().unwrap_or_default()
    }

    /// Such as `2 devices of class gpu`.
    pub(crate) fn in_words(&self) -> String {
        let class = &self.class;
        match self.count {
            CountMode::Exactly(1) => format!("1 device of class {class}"),
            CountMode::Exactly(n) => format!("{n} devices of class {class}"),
            CountMode::All => format!("all devices of class {class}"),
        }
    }
}

/// How many devices a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountMode {
    Exactly(usize),
    All,
}

/// What the devices of some requests must have in common, or must not.
#[derive(Debug)]
pub(crate) struct Constraint {
    pub(crate) attribute: Box<str>,
    pub(crate) is_distinct: bool,
    /// Requests, or alternatives by their full names; empty for all.
    requests: Box<[String]>,
}

impl ClaimSpec {
    pub(super) fn compile(
        source: &ResourceClaimSpec,
        selector: &mut impl FnMut(&str) -> Arc<Selector>,
    ) -> ClaimSpec {
        let requests = source.devices.requests.iter().map(|request| ClaimRequest::compile(request, selector));
        let constraint = |constraint: &DeviceConstraint| {
            let (attribute, is_distinct) = match (&constraint.match_attribute, &constraint.distinct_attribute)
            {
                (Some(attribute), _) => (attribute.as_str(), false),
                (None, Some(attribute)) => (attribute.as_str(), true),
                (None, None) => ("", false),
            };
            Constraint {
                attribute: attribute.into(),
                is_distinct,
                requests: constraint.requests.clone().into(),
            }
        };
        ClaimSpec {
            requests: requests.collect(),
            constraints: source.devices.constraints.iter().map(constraint).collect(),
            unsupported: unsupported(source),
            source: source.clone(),
        }
    }

    /// What is made of requests without selectors.
    pub(crate) fn of_requests(source: ResourceClaimSpec) -> ClaimSpec {
        ClaimSpec::compile(&source, &mut |text| Arc::new(Selector::compile(text)))
    }

    pub(super) fn hash(source: &ResourceClaimSpec) -> u64 {
        let mut hasher = FxHasher::default();
        for request in &source.devices.requests {
            request.name.hash(&mut hasher);
            if let Some(exactly) = &request.exactly {
                (&exactly.device_class_name, &exactly.selectors, exactly.count).hash(&mut hasher);
            }
            for alternative in &request.first_available {
                (&alternative.device_class_name, &alternative.selectors, alternative.count).hash(&mut hasher);
            }
        }
        source.devices.constraints.hash(&mut hasher);
        hasher.finish()
    }

    /// The requests with the names of their claims' fields, for errors.
    pub(crate) fn alternatives(&self) -> impl Iterator<Item = &Alternative> {
        self.requests.iter().flat_map(|request| &request.alternatives)
    }
}

impl PartialEq for ClaimSpec {
    fn eq(&self, other: &ClaimSpec) -> bool {
        self.source == other.source
    }
}

impl ClaimRequest {
    fn compile(request: &DeviceRequest, selector: &mut impl FnMut(&str) -> Arc<Selector>) -> ClaimRequest {
        let mut alternative = |name: &str, fields: AlternativeFields<'_>| Alternative {
            full_name: name.into(),
            class: fields.class.into(),
            selectors: (fields.selectors.iter())
                .map(|s| selector(s.cel.as_ref().map_or("", |cel| cel.expression.as_str())))
                .collect(),
            count: match fields.is_for_all {
                true => CountMode::All,
                false => CountMode::Exactly(usize::try_from(fields.count.max(1)).unwrap_or(usize::MAX)),
            },
            admin_access: fields.admin_access,
            tolerations: (fields.tolerations.iter())
                .map(|t| TolerationRule::parse(t, FeatureGates::default()))
                .collect(),
            written_tolerations: fields.tolerations.iter().map(defaulted).collect(),
            capacity: fields.capacity.map(|capacity| capacity.requests.clone()).unwrap_or_default(),
        };
        let alternatives = match &request.exactly {
            Some(exactly) => {
                let fields = AlternativeFields {
                    class: &exactly.device_class_name,
                    selectors: &exactly.selectors,
                    is_for_all: exactly.is_for_all(),
                    count: exactly.count,
                    admin_access: exactly.admin_access == Some(true),
                    tolerations: &exactly.tolerations,
                    capacity: exactly.capacity.as_ref(),
                };
                [alternative(&request.name, fields)].into()
            }
            None => {
                let each = request.first_available.iter().map(|sub| {
                    let fields = AlternativeFields {
                        class: &sub.device_class_name,
                        selectors: &sub.selectors,
                        is_for_all: sub.is_for_all(),
                        count: sub.count,
                        admin_access: false,
                        tolerations: &sub.tolerations,
                        capacity: sub.capacity.as_ref(),
                    };
                    alternative(&format!("{}/{}", request.name, sub.name), fields)
                });
                each.collect()
            }
        };
        ClaimRequest {
            name: request.name.as_str().into(),
            is_prioritized: request.exactly.is_none(),
            alternatives,
        }
    }
}

/// What a later version of the API has put into a specification.
fn unsupported(source: &ResourceClaimSpec) -> Option<String> {
    let of_fields = |name: &str, selectors: &[DeviceSelector], mode: &str| {
        if let Some(i) = selectors.iter().position(|selector| selector.cel.is_none()) {
            let what = "CEL expression empty (unsupported selector type?)";
            return Some(format!("request {name}, selector #{i}: {what}"));
        }
        let is_known = matches!(mode, "" | ALLOCATION_MODE_EXACT_COUNT | ALLOCATION_MODE_ALL);
        (!is_known).then(|| format!("request {name}: unsupported count mode {mode}"))
    };
    let of_request = |request: &DeviceRequest| match &request.exactly {
        Some(fields) => of_fields(&request.name, &fields.selectors, &fields.allocation_mode),
        None => (request.first_available.iter())
            .find_map(|fields| of_fields(&fields.name, &fields.selectors, &fields.allocation_mode)),
    };
    let constraints = &source.devices.constraints;
    let of_constraints = || {
        let is_unknown =
            |each: &DeviceConstraint| each.match_attribute.is_none() && each.distinct_attribute.is_none();
        let i = constraints.iter().position(is_unknown)?;
        Some(format!("constraint #{i}: empty constraint (unsupported constraint type?)"))
    };
    source.devices.requests.iter().find_map(of_request).or_else(of_constraints)
}

/// As the API server defaults it.
fn defaulted(toleration: &Toleration) -> Toleration {
    let mut toleration = toleration.clone();
    if toleration.operator.is_empty() {
        toleration.operator.push_str("Equal");
    }
    toleration
}

/// What requests and their alternatives have in common.
struct AlternativeFields<'a> {
    class: &'a str,
    selectors: &'a [DeviceSelector],
    is_for_all: bool,
    count: i64,
    admin_access: bool,
    tolerations: &'a [Toleration],
    capacity: Option<&'a CapacityRequirements>,
}

impl Constraint {
    /// Whether it is about the devices of an alternative of a request.
    pub(crate) fn concerns(&self, request: &ClaimRequest, alternative: &Alternative) -> bool {
        let is_named = |name: &String| **name == *request.name || **name == *alternative.full_name;
        self.requests.is_empty() || self.requests.iter().any(is_named)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ClaimRecord {
    pub(crate) uid: Box<str>,
    pub(crate) spec: Arc<ClaimSpec>,
    pub(crate) is_deleting: bool,
    /// The name and uid of the pod that it was made for.
    pod: Option<(Box<str>, Box<str>)>,
    /// The PodGroup that it was made for.
    pub(crate) group: Option<Consumer>,
    /// What is allocated by the object.
    pub(crate) written: Option<Arc<Allocation>>,
    /// What was decided and is not written yet.
    pub(crate) assumed: Option<Arc<Allocation>>,
    /// The pod for which the assumed allocation is being written: until then no other pod gets the claim.
    pub(crate) in_flight_for: Option<Consumer>,
    pub(crate) consumers: Vec<Consumer>,
    /// Whether its devices are ready for its pods.
    pub(crate) readiness: Readiness,
    /// Made by the scheduler for the extended resources of its pod.
    pub(crate) is_extended: bool,
}

impl ClaimRecord {
    pub(super) fn compile(symbols: &mut Symbols, claim: &ResourceClaim, spec: Arc<ClaimSpec>) -> ClaimRecord {
        let ResourceClaim { metadata, status, .. } = claim;
        let controller = metadata.owner_references.iter().find(|owner| owner.controller == Some(true));
        let pod = controller.filter(|owner| owner.kind == "Pod");
        let group = controller.filter(|owner| owner.kind == POD_GROUPS.kind);
        ClaimRecord {
            uid: metadata.uid.as_str().into(),
            spec,
            is_deleting: metadata.is_deleting(),
            pod: pod.map(|owner| (owner.name.as_str().into(), owner.uid.as_str().into())),
            group: group.map(|owner| Consumer::pod_group(&owner.name, &owner.uid)),
            written: status
                .allocation
                .as_ref()
                .map(|allocation| Arc::new(Allocation::compile(symbols, allocation))),
            assumed: None,
            in_flight_for: None,
            consumers: status.reserved_for.iter().map(Consumer::of).collect(),
            readiness: Readiness::of(claim),
            is_extended: claim.is_for_extended_resources(),
        }
    }

    /// Whether its pods fare as with another state of it.
    pub(super) fn is_as(&self, other: &ClaimRecord) -> bool {
        (&self.uid, &self.spec, self.is_deleting, self.readiness)
            == (&other.uid, &other.spec, other.is_deleting, other.readiness)
            && (&self.written, &self.assumed) == (&other.written, &other.assumed)
            && (&self.consumers, &self.pod, &self.group) == (&other.consumers, &other.pod, &other.group)
    }

    /// What is allocated or assumed.
    pub(crate) fn allocation(&self) -> Option<&Arc<Allocation>> {
        self.written.as_ref().or(self.assumed.as_ref())
    }

    /// The name and uid of the pod whose extended resources it is for, if it is allocated.
    pub(super) fn extended_resources_of(&self) -> Option<(&str, &str)> {
        let (name, uid) = self.pod.as_ref().filter(|_| self.is_extended && self.written.is_some())?;
        Some((name, uid))
    }

    /// Whether it was made for a pod.
    pub(crate) fn is_of(&self, pod: &PodDevices) -> bool {
        self.pod.as_ref().is_some_and(|(name, uid)| **name == *pod.pod.name() && *uid == pod.pod_uid)
    }

    /// Whether it is reserved for the pod itself.
    pub(crate) fn is_reserved_for(&self, pod: &PodDevices) -> bool {
        self.consumers.iter().any(|consumer| consumer.uid == pod.pod_uid)
    }

    /// Whether the object shows the reservation for a PodGroup: what is assumed does not count.
    pub(crate) fn shows(&self, group: &Consumer) -> bool {
        self.consumers.iter().any(|consumer| consumer.uid == group.uid && consumer.is_written)
    }

    /// The uid of the pod whose extended resources it is for.
    pub(super) fn extended_for(&self) -> Option<&str> {
        self.pod.as_ref().filter(|_| self.is_extended).map(|(_, uid)| &**uid)
    }

    pub(super) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        [&self.written, &self.assumed].into_iter().flatten().flat_map(|allocation| allocation.scope.symbols())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Consumer {
    /// The name of a pod of the claim's namespace; empty for an object of another kind.
    pub(crate) pod: Box<str>,
    /// The name of a PodGroup; empty for an object of another kind.
    pub(crate) group: Box<str>,
    pub(crate) uid: Box<str>,
    /// Whether the object has it; otherwise it is assumed.
    pub(crate) is_written: bool,
}

impl Consumer {
    fn of(reference: &ResourceClaimConsumerReference) -> Consumer {
        let is_pod = reference.api_group.is_empty() && reference.resource == "pods";
        let pod = if is_pod { reference.name.as_str() } else { "" };
        let group = reference.as_pod_group().unwrap_or_default();
        Consumer {
            pod: pod.into(),
            group: group.into(),
            uid: reference.uid.as_str().into(),
            is_written: true,
        }
    }

    pub(super) fn assumed(reference: &ResourceClaimConsumerReference) -> Consumer {
        Consumer { is_written: false, ..Consumer::of(reference) }
    }

    pub(crate) fn pod_group(name: &str, uid: &str) -> Consumer {
        Consumer::assumed(&ResourceClaimConsumerReference::pod_group(name, uid))
    }

    pub(crate) fn is(&self, pod: &PodDevices) -> bool {
        *self.pod == *pod.pod.name() && self.uid == pod.pod_uid
    }
}

/// Whether the devices of a claim are ready for its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// Conditions are not true yet that have to be before pods are bound. With the time of the allocation in seconds since 1970, if
    /// it is known.
    WaitsSince(Option<i64>),
    /// A condition is true that ends the attempt to bind.
    Failed,
}

impl Readiness {
    fn of(claim: &ResourceClaim) -> Readiness {
        match claim.status.readiness() {
            DeviceReadiness::Ready => Readiness::Ready,
            DeviceReadiness::Failed(..) => Readiness::Failed,
            DeviceReadiness::Waits => {
                let since = claim.status.allocation.as_ref().and_then(|a| a.allocation_timestamp);
                Readiness::WaitsSince(since.map(|at| at.as_second()))
            }
        }
    }
}

/// What is allocated to a claim. A user of the symbols of its scope.
#[derive(Debug, PartialEq)]
pub(crate) struct Allocation {
    pub(crate) devices: Box<[AllocatedDevice]>,
    pub(crate) scope: NodeScope,
    pub(crate) has_timestamp: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) struct AllocatedDevice {
    pub(crate) pool: PoolName,
    pub(crate) device: Arc<str>,
    /// The alternative that was used, by its full name; none for a request without alternatives.
    pub(crate) alternative: Option<Box<str>>,
    /// For administration: the device is free for others.
    pub(crate) is_admin: bool,
    /// What it takes of the capacities of a device that others share.
    pub(crate) share: Option<BTreeMap<String, Quantity>>,
}

impl Allocation {
    pub(super) fn compile(symbols: &mut Symbols, allocation: &AllocationResult) -> Allocation {
        let devices = allocation.devices.results.iter().map(|result| AllocatedDevice {
            pool: PoolName { driver: result.driver.as_str().into(), pool: result.pool.as_str().into() },
            device: result.device.as_str().into(),
            alternative: result.request.contains('/').then(|| result.request.as_str().into()),
            is_admin: result.admin_access == Some(true),
            share: result.share_id.is_some().then(|| result.consumed_capacity.clone()),
        });
        Allocation {
            devices: devices.collect(),
            scope: match &allocation.node_selector {
                Some(selector) => NodeScope::selected(symbols, selector),
                None => NodeScope::All,
            },
            has_timestamp: allocation.allocation_timestamp.is_some(),
        }
    }
}
