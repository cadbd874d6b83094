//! `DynamicResources`: claims of devices, from Kubernetes' documentation of dynamic resource allocation and its
//! enhancements (KEP-4381, 4815, 4816, 5004, 5007, 5018, 5055, 5075, 5517).

mod allocatable;
mod capacity;
mod extended;
mod pools;
mod preemption;
mod search;

use berth_api::object::device::{
    AllocationResult, ClaimDecision, DeviceClass, DeviceDecision, DeviceKind, DeviceObject,
    DeviceRequestAllocationResult, ExtendedResourceClaim, MAX_CONSUMERS, ResourceClaim, ResourceSlice,
};
use berth_api::object::{NamespacedName, Node, NodeAllocatableResourceClaimStatus};

use self::search::Found;
use super::{Code, Question, Verdict, node_affinity, normalize, reject};

pub(super) use extended::is_of_devices;
pub(super) use preemption::{is_enabled as preempts_for_devices, without_gone};

/// A subrequest is worth this much less its index.
const MAX_ALTERNATIVES: i64 = 8;

/// The objects that decide about claims of devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Devices {
    /// Slices, classes, claims and the others, names unique for each kind.
    pub objects: Vec<DeviceObject>,
    /// The time, in seconds since 1970.
    pub now: i64,
}

impl Devices {
    pub fn set(&mut self, object: DeviceObject) {
        let key = (object.kind(), object.metadata().namespaced_name());
        match self.objects.iter_mut().find(|old| (old.kind(), old.metadata().namespaced_name()) == key) {
            Some(old) => *old = object,
            None => self.objects.push(object),
        }
    }

    /// Removes an object, if it exists.
    pub fn remove(&mut self, kind: DeviceKind, key: &NamespacedName) {
        self.objects.retain(|o| (o.kind(), o.metadata().namespaced_name()) != (kind, key.clone()));
    }

    /// Gives devices the taints of the rules that select them; rules that come later have no effect.
    pub fn add_taints_of_rules(&mut self) {
        let rules: Vec<_> = self
            .objects
            .iter()
            .filter_map(|object| match object {
                DeviceObject::DeviceTaintRule(rule) => Some(rule.spec.clone()),
                _ => None,
            })
            .collect();
        let selects =
            |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        for object in &mut self.objects {
            let DeviceObject::ResourceSlice(slice) = object else { continue };
            let (driver, pool) = (slice.spec.driver.clone(), slice.spec.pool.name.clone());
            for device in &mut slice.spec.devices {
                let selected = rules.iter().filter(|rule| {
                    rule.device_selector.as_ref().is_some_and(|selector| {
                        selects(&selector.driver, &driver)
                            && selects(&selector.pool, &pool)
                            && selects(&selector.device, &device.name)
                    })
                });
                device.taints.extend(selected.map(|rule| rule.taint.clone()));
            }
        }
    }

    pub fn slices(&self) -> impl Iterator<Item = &ResourceSlice> {
        self.objects.iter().filter_map(|object| match object {
            DeviceObject::ResourceSlice(slice) => Some(&**slice),
            _ => None,
        })
    }

    pub fn classes(&self) -> impl Iterator<Item = &DeviceClass> {
        self.objects.iter().filter_map(|object| match object {
            DeviceObject::DeviceClass(class) => Some(&**class),
            _ => None,
        })
    }

    pub fn claims(&self) -> impl Iterator<Item = &ResourceClaim> {
        self.objects.iter().filter_map(|object| match object {
            DeviceObject::ResourceClaim(claim) => Some(&**claim),
            _ => None,
        })
    }

    fn class(&self, name: &str) -> Option<&DeviceClass> {
        self.classes().find(|class| class.metadata.name == name)
    }

    /// The devices that are in use: all that are allocated, except for administration.
    fn in_use(&self) -> Vec<&DeviceRequestAllocationResult> {
        let results = self.claims().filter_map(|c| c.status.allocation.as_ref());
        results.flat_map(|a| &a.devices.results).filter(|r| r.admin_access != Some(true)).collect()
    }
}

struct PodClaim<'a> {
    name_in_pod: &'a str,
    claim: &'a ResourceClaim,
}

/// The claims that the pod names, in its order; `Err` with the reason for every node.
fn claims(q: Question<'_>) -> Result<Vec<PodClaim<'_>>, String> {
    let mut claims = Vec::new();
    let namespace = &q.pod.metadata.namespace;
    for reference in &*q.pod.spec.resource_claims {
        let is_made = reference.resource_claim_name.is_none();
        let name = match &reference.resource_claim_name {
            Some(name) => name,
            None => {
                let statuses = &q.pod.status.resource_claim_statuses;
                let Some(status) = statuses.iter().find(|status| status.name == reference.name) else {
                    return Err(format!("pod {:?}: ResourceClaim not created yet", q.pod.key()));
                };
                // No name: the pod does not need the claim.
                let Some(name) = &status.resource_claim_name else { continue };
                name
            }
        };
        let mut all = q.world.devices.claims();
        let claim = all.find(|c| c.metadata.namespace == *namespace && c.metadata.name == *name);
        let claim = claim.ok_or_else(|| format!("could not find ResourceClaim \"{namespace}/{name}\""))?;
        if claim.metadata.is_deleting() {
            return Err(format!("resourceclaim {name:?} is being deleted"));
        }
        if is_made && !claim.metadata.is_controlled_by(&q.pod.metadata.uid) {
            let pod = q.pod.key();
            return Err(format!(
                "ResourceClaim {namespace}/{name} was not created for Pod {pod} (Pod is not owner)"
            ));
        }
        claims.push(PodClaim { name_in_pod: &reference.name, claim });
    }
    Ok(claims)
}

/// Whether the pod needs devices; `Err` with the reason for every node.
pub(super) fn pre_filter(q: Question) -> Result<bool, String> {
    let claims = claims(q)?;
    for PodClaim { claim, .. } in claims.iter().filter(|c| c.claim.status.allocation.is_none()) {
        for request in &claim.spec.devices.requests {
            for wish in search::wishes(request) {
                if q.world.devices.class(wish.class).is_none() {
                    let (name, class) = (wish.full_name(), wish.class);
                    return Err(format!("request {name}: device class {class} does not exist"));
                }
            }
        }
    }
    Ok(!claims.is_empty() || extended::is_wanted(q))
}

/// What becomes of the claims on a node.
struct OnNode<'a> {
    claims: Vec<PodClaim<'a>>,
    extended: Option<(ResourceClaim, ExtendedResourceClaim)>,
    /// For each claim without allocation, and last that for extended resources.
    allocated: Vec<AllocationResult>,
    /// What the devices take of the node.
    taken: Vec<NodeAllocatableResourceClaimStatus>,
}

fn on_node<'a>(q: Question<'a>, node: &Node) -> Result<OnNode<'a>, (Code, Vec<String>)> {
    let allocated = allocation_on(q, &preemption::found_on(q, node), node)?;
    let claims = claims(q).unwrap_or_default();
    let extended = extended::claim(q, node);
    let mut new = allocated.iter();
    let mut of_claims: Vec<(&ResourceClaim, &AllocationResult)> = Vec::new();
    for claim in claims.iter().map(|c| c.claim).chain(extended.as_ref().map(|(claim, _)| claim)) {
        of_claims.extend(claim.status.allocation.as_ref().or_else(|| new.next()).map(|of| (claim, of)));
    }
    let taken = allocatable::taken(q, node, &of_claims)?;
    Ok(OnNode { claims, extended, allocated, taken })
}

/// What is allocated to the claims on a node, if these devices are there.
fn allocation_on(
    q: Question<'_>,
    devices: &Devices,
    node: &Node,
) -> Result<Vec<AllocationResult>, (Code, Vec<String>)> {
    let rejected = |code: Code, reason: &str| (code, vec![reason.to_owned()]);
    let unresolvable = |reason: &str| rejected(Code::UnschedulableAndUnresolvable, reason);
    let claims = claims(q).map_err(|reason| unresolvable(&reason))?;
    if extended::has_claim_left_over(q) {
        return Err(unresolvable("cannot schedule extended resource claim"));
    }
    if let Some(reason) = allocatable::shared(q, node, &claims) {
        return Err(unresolvable(&reason));
    }
    let extended = extended::claim(q, node);
    let is_unavailable = |claim: &&PodClaim| {
        let Some(allocation) = &claim.claim.status.allocation else { return false };
        let selector = allocation.node_selector.as_ref();
        selector.is_some_and(|selector| !node_affinity::selects_node(selector, node))
            || is_given_up(q, claim.claim)
    };
    let is_available = !claims.iter().any(|claim| is_unavailable(&claim));
    let missing = claims.iter().map(|c| c.claim).filter(|c| c.status.allocation.is_none());
    let missing: Vec<_> = missing.chain(extended.as_ref().map(|(claim, _)| claim)).collect();
    // Other pods may have the devices.
    let scarce = match preemption::is_enabled(q) {
        true => Code::Unschedulable,
        false => Code::UnschedulableAndUnresolvable,
    };
    let allocated = match missing.is_empty() {
        true => Vec::new(),
        false => match search::allocate(devices, node, &missing, q.options.feature_gates) {
            Ok(Found::Allocation(results)) => results,
            Ok(Found::Nothing) => return Err(rejected(scarce, "cannot allocate all claims")),
            Ok(Found::UnusablePool(reason)) => return Err(unresolvable(&reason)),
            Ok(Found::InvalidPools) => {
                return Err(rejected(scarce, "invalid resource pools were encountered"));
            }
            Err(error) => {
                let reason = format!("running \"DynamicResources\" filter plugin: {error}");
                return Err(rejected(Code::Error, &reason));
            }
        },
    };
    if !is_available {
        return Err(unresolvable("resourceclaim not available on the node"));
    }
    Ok(allocated)
}

pub(super) fn filter(q: Question, node: &Node) -> Verdict {
    match pre_filter(q) {
        Ok(true) => on_node(q, node).map(|_| ()),
        Ok(false) => Ok(()),
        Err(reason) => reject(Code::UnschedulableAndUnresolvable, &reason),
    }
}

/// The allocated devices whose conditions have to be true first: `Err` if one has failed, else whether all are ready.
fn readiness(claim: &ResourceClaim) -> Result<bool, ()> {
    let results = claim.status.allocation.iter().flat_map(|a| &a.devices.results);
    for result in results.filter(|result| !result.binding_conditions.is_empty()) {
        let status = claim.status.devices.iter().find(|status| {
            (&status.driver, &status.pool, &status.device) == (&result.driver, &result.pool, &result.device)
                && status.share_id == result.share_id
        });
        let Some(status) = status else { return Ok(false) };
        let is_true =
            |name: &String| status.conditions.iter().any(|c| c.condition_type == *name && c.status == "True");
        if result.binding_failure_conditions.iter().any(is_true) {
            return Err(());
        }
        if !result.binding_conditions.iter().all(is_true) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the devices of a claim have failed, or have not become ready in time.
fn is_given_up(q: Question, claim: &ResourceClaim) -> bool {
    let (now, timeout) = (q.world.devices.now, q.profile.dynamic_resources.binding_timeout.as_secs() as i64);
    let since = claim.status.allocation.as_ref().and_then(|a| a.allocation_timestamp);
    match readiness(claim) {
        Err(()) => true,
        Ok(true) => false,
        Ok(false) => since.is_some_and(|since| since.as_second() + timeout < now),
    }
}

/// The better the alternatives, the higher the score. Claims that were allocated before count only beside new ones.
pub(super) fn score(q: Question, feasible: &[&Node]) -> Option<Vec<i64>> {
    if !pre_filter(q).is_ok_and(|needs_devices| needs_devices) {
        return None;
    }
    let raw = feasible.iter().map(|node| {
        let Ok(OnNode { claims, allocated, .. }) = on_node(q, node) else { return 0 };
        if allocated.is_empty() {
            return 0;
        }
        let mut new = allocated.iter();
        let each = claims.iter().map(|PodClaim { claim, .. }| {
            let allocation = claim.status.allocation.as_ref().or_else(|| new.next());
            allocation.map_or(0, |allocation| worth(claim, allocation))
        });
        each.sum()
    });
    Some(normalize(&raw.collect::<Vec<_>>(), false))
}

/// 8 less the index of the alternative, for each request that has alternatives.
fn worth(claim: &ResourceClaim, allocation: &AllocationResult) -> i64 {
    let is_used =
        |wish: &search::Wish| allocation.devices.results.iter().any(|r| r.request == wish.full_name());
    let requests = claim.spec.devices.requests.iter().filter(|r| !r.first_available.is_empty());
    let used = requests.filter_map(|request| search::wishes(request).iter().position(is_used));
    used.map(|index| MAX_ALTERNATIVES - index as i64).sum()
}

/// What is written about the claims when the pod is bound; `Err` if the API server refuses that.
pub(super) fn decision(q: Question, node: &Node) -> Result<Option<DeviceDecision>, String> {
    if !pre_filter(q).is_ok_and(|needs_devices| needs_devices) {
        return Ok(None);
    }
    // Nominated pods get their devices first.
    let mut world = q.world.clone();
    world.pods.extend(q.nominated_to(node));
    let reserved = Question { world: &world, ..q };
    let Ok(OnNode { claims, extended, allocated, taken }) = on_node(reserved, node) else { return Ok(None) };
    if !claims.is_empty() && extended.is_none() && extended::is_wanted(q) {
        return Err("nil or empty request mappings".to_owned());
    }
    if claims.is_empty() && extended.is_none() {
        return Ok(None);
    }
    let mut allocated = allocated.into_iter();
    let mut decisions: Vec<ClaimDecision> = Vec::new();
    for PodClaim { name_in_pod, claim } in claims {
        let name = claim.metadata.namespaced_name();
        let allocation = if claim.status.allocation.is_none() { allocated.next() } else { None };
        if decisions.iter().any(|earlier| earlier.claim == name) {
            return Err(format!("claim {name} is named twice"));
        }
        let is_reserved_now = !claim.status.is_reserved_for(&q.pod.metadata.uid);
        if is_reserved_now && claim.status.reserved_for.len() >= MAX_CONSUMERS {
            return Err(format!("add reservation to claim {name}: too many"));
        }
        let waits = match &allocation {
            Some(new) => waits(new),
            None => readiness(claim) != Ok(true),
        };
        decisions.push(ClaimDecision {
            claim: name,
            name_in_pod: Some(name_in_pod.to_owned()),
            allocation,
            is_reserved_now,
            waits,
            group: None,
            extended: None,
        });
    }
    if let Some((claim, extended)) = extended {
        let allocation = allocated.next();
        decisions.push(ClaimDecision {
            claim: claim.metadata.namespaced_name(),
            name_in_pod: None,
            waits: allocation.as_ref().is_some_and(waits),
            allocation,
            is_reserved_now: true,
            group: None,
            extended: Some(extended),
        });
    }
    Ok(Some(DeviceDecision { claims: decisions, node_allocatable: taken }))
}

fn waits(allocation: &AllocationResult) -> bool {
    allocation.devices.results.iter().any(|result| !result.binding_conditions.is_empty())
}
