//! Resolving the claims of a pod, in the order and with the words of kube-scheduler's plugin.

use std::sync::Arc;

use berth_api::object::NamespacedName;
use berth_api::object::device::MAX_CONSUMERS;
use berth_input::config::LeastWaste;

use super::score::score_of_allocated;
use super::{AllocatableRules, CycleClaim, CycleDevices, DeviceRules, ExtendedResource, Requested};
use crate::state::State;
use crate::state::device::{
    ClaimRecord, ClaimRequest, ClaimSpec, ClassRecord, Consumer, NodeScope, PodDevices, Readiness,
    StatedClaim,
};

impl CycleDevices {
    /// `binding_timeout` is that of the pod's profile, in seconds, and `least_waste` its scoring strategy.
    pub(super) fn resolve(
        state: &State,
        pod: &Arc<PodDevices>,
        binding_timeout: i64,
        least_waste: Option<Arc<LeastWaste>>,
    ) -> CycleDevices {
        let mut resolved = CycleDevices {
            pod: pod.clone(),
            problem: None,
            claims: Vec::new(),
            rules: Arc::default(),
            least_waste,
            write_problem: None,
            binding_timeout,
            requests: None,
        };
        let mut rules = DeviceRules::default();
        resolved.problem = resolved.resolve_claims(state, &mut rules, binding_timeout).err();
        let mut names: Vec<&str> = pod.extended_resources().collect();
        names.sort_unstable();
        names.dedup();
        let provided = |name| {
            let class = state.devices.class_of_resource(name)?.clone();
            Some(ExtendedResource { name: name.into(), class })
        };
        rules.extended = names.into_iter().filter_map(provided).collect();
        if !rules.extended.is_empty() {
            rules.containers = pod.containers.clone();
        }
        rules.has_stale_claim = !rules.extended.is_empty()
            && state.devices.extended_claim_of(pod).is_some_and(|(_, claim)| !claim.spec.requests.is_empty());
        rules.allocatable = AllocatableRules::of(state, pod, &resolved.claims);
        resolved.rules = Arc::new(rules);
        resolved
    }

    fn resolve_claims(
        &mut self,
        state: &State,
        rules: &mut DeviceRules,
        binding_timeout: i64,
    ) -> Result<(), String> {
        let found = named_claims(state, &self.pod)?;
        for NamedClaim { name_in_pod, name, claim, group } in found {
            let mut unallocated = None;
            match claim.allocation() {
                Some(_)
                    if claim.written.is_none()
                        && claim.in_flight_for.as_ref().is_some_and(|by| !by.is(&self.pod))
                        && !claim.is_reserved_for(&self.pod) =>
                {
                    return Err(format!("resource claim {name} is in the process of being allocated"));
                }
                Some(allocation) => {
                    let is_usable = match claim.readiness {
                        Readiness::Ready => true,
                        Readiness::WaitsSince(None) => true,
                        Readiness::WaitsSince(Some(at)) => {
                            state.devices.now < at.saturating_add(binding_timeout)
                        }
                        Readiness::Failed => false,
                    };
                    let scope = if is_usable { allocation.scope.clone() } else { NodeScope::None };
                    rules.score += score_of_allocated(&claim.spec, allocation);
                    rules.allocated.push((name.clone(), scope));
                }
                None => {
                    let classes = classes_of(state, &claim.spec)?;
                    unallocated = Some(rules.unallocated.len());
                    rules.unallocated.push(Requested {
                        claim: name.clone(),
                        spec: claim.spec.clone(),
                        classes,
                    });
                }
            }
            let problem = self.write_problem(name, claim, group.as_ref());
            self.write_problem = self.write_problem.take().or(problem);
            self.claims.push(CycleClaim {
                name_in_pod: name_in_pod.into(),
                claim: name.clone(),
                unallocated,
                group,
            });
        }
        Ok(())
    }

    /// Why the API server would refuse what is to be written to a claim.
    fn write_problem(
        &self,
        name: &NamespacedName,
        claim: &ClaimRecord,
        group: Option<&Consumer>,
    ) -> Option<String> {
        let is_named_before = self.claims.iter().any(|before| before.claim == *name);
        if group.map_or_else(|| claim.is_reserved_for(&self.pod), |group| claim.shows(group)) {
            return None;
        }
        if is_named_before && claim.allocation().is_none() {
            return Some(format!("claim {name} got allocated elsewhere in the meantime"));
        }
        let refused = |why: &str| {
            format!(
                "add reservation to claim {name}: ResourceClaim.resource.k8s.io {:?} is invalid: {why}",
                name.name()
            )
        };
        let has_timestamp = claim.written.as_ref().is_none_or(|allocation| allocation.has_timestamp);
        if is_named_before {
            return Some(refused("status.reservedFor: Duplicate value: the pod names the claim twice"));
        }
        if claim.consumers.len() >= MAX_CONSUMERS {
            let n = claim.consumers.len() + 1;
            return Some(refused(&format!(
                "status.reservedFor: Too many: {n}: must have at most {MAX_CONSUMERS} items"
            )));
        }
        (!has_timestamp && !claim.consumers.is_empty()).then(|| {
            refused("status.allocation: Invalid value: field is immutable: it has no allocationTimestamp")
        })
    }
}

/// A claim that a pod names.
struct NamedClaim<'a> {
    name_in_pod: &'a str,
    name: &'a NamespacedName,
    claim: &'a ClaimRecord,
    /// The PodGroup that shares it.
    group: Option<Consumer>,
}

/// The claims that a pod names, in its order.
fn named_claims<'a>(state: &'a State, pod: &'a PodDevices) -> Result<Vec<NamedClaim<'a>>, String> {
    let mut found = Vec::new();
    for entry in &pod.claims {
        let (name, is_made) = match &entry.claim {
            StatedClaim::Named(name) => (name, false),
            StatedClaim::Made(name) => (name, true),
            StatedClaim::NotNeeded => continue,
            StatedClaim::NotMade => {
                return Err(format!("pod \"{}\": ResourceClaim not created yet", pod.pod));
            }
        };
        let claim = state.devices.claim(name);
        let claim = claim.ok_or_else(|| format!("could not find ResourceClaim \"{name}\""))?;
        if claim.is_deleting {
            return Err(format!("resourceclaim {:?} is being deleted", name.name()));
        }
        let group = state.shares_claim(pod, entry, claim);
        if is_made && group.is_none() && !claim.is_of(pod) {
            return Err(format!(
                "ResourceClaim {name} was not created for Pod {} (Pod is not owner)",
                pod.pod
            ));
        }
        found.push(NamedClaim { name_in_pod: &entry.name, name, claim, group });
    }
    Ok(found)
}

/// The classes of the requests of a claim.
fn classes_of(state: &State, spec: &ClaimSpec) -> Result<Arc<[Arc<ClassRecord>]>, String> {
    // A request of a later version of the API says in another way what it is for.
    let is_unknown = |request: &&ClaimRequest| {
        request.alternatives.is_empty() || request.alternatives.iter().any(|each| each.class.is_empty())
    };
    if let Some(request) = spec.requests.iter().find(is_unknown) {
        return Err(format!("request {}: unsupported request type", request.name));
    }
    let class = |alternative: &crate::state::device::Alternative| {
        let (name, class) = (&alternative.full_name, &alternative.class);
        let missing = || format!("request {name}: device class {class} does not exist");
        state.devices.class(class).cloned().ok_or_else(missing)
    };
    spec.alternatives().map(class).collect()
}
