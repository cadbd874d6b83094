//! No device is allocated twice, counters and constraints hold, no pod is bound without its devices, and in the end nothing is
//! kept for pods that are gone. Allocations are judged by the check of `berth_testkit`.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::Pod;
use berth_api::object::device::{DeviceObject, ResourceClaim, ResourceSlice};
use berth_testkit::check::bindings::requests;
use berth_testkit::check::devices;
use berth_testkit::check::history::{Object, State, Step};

use crate::devices::EXTENDED_RESOURCE;

/// How often a claim was allocated.
pub fn n_allocations(steps: &[Step]) -> usize {
    let mut allocated = BTreeSet::new();
    let mut n = 0;
    for step in steps {
        let is_allocated = match step.object.as_ref() {
            Some(Object::Device(object)) => {
                matches!(&**object, DeviceObject::ResourceClaim(claim) if claim.status.allocation.is_some())
            }
            _ => false,
        };
        n += usize::from(is_allocated && allocated.insert(&step.key));
        if !is_allocated {
            allocated.remove(&step.key);
        }
    }
    n
}

/// What was wrong at any time.
pub fn check(steps: &[Step]) -> Vec<String> {
    let mut findings = Vec::new();
    let (mut state, mut published) = (State::default(), Published::default());
    for step in steps {
        let before = state.pod(&step.key.1).filter(|before| before.spec.node_name.is_empty()).cloned();
        state.apply(step);
        let problems = match &step.object {
            Some(Object::Device(object)) => match &**object {
                DeviceObject::ResourceSlice(slice) => {
                    published.add(slice);
                    Vec::new()
                }
                DeviceObject::ResourceClaim(_) => devices::check(&claims(&state), &published.slices()),
                _ => Vec::new(),
            },
            Some(Object::Pod(pod)) if before.is_some() && !pod.spec.node_name.is_empty() => {
                bound_without_devices(&state, pod)
            }
            _ => Vec::new(),
        };
        findings.extend(problems.into_iter().map(|problem| format!("version {}: {problem}", step.version)));
    }
    findings
}

/// All devices that were ever published: one may disappear after it was allocated.
#[derive(Default)]
struct Published(BTreeMap<String, ResourceSlice>);

impl Published {
    fn add(&mut self, slice: &ResourceSlice) {
        let known = self.0.entry(slice.metadata.name.clone()).or_default();
        let mut devices = std::mem::take(&mut known.spec.devices);
        devices.retain(|device| slice.spec.devices.iter().all(|new| new.name != device.name));
        devices.extend_from_slice(&slice.spec.devices);
        *known = slice.clone();
        known.spec.devices = devices;
        known.spec.pool.generation = 0;
    }

    fn slices(&self) -> Vec<ResourceSlice> {
        self.0.values().cloned().collect()
    }
}

fn claims(state: &State) -> Vec<ResourceClaim> {
    state.claims().cloned().collect()
}

/// The claims of a pod, as far as they are known: those that it names, those made for it, and that for its extended resources.
fn names_of_claims(pod: &Pod) -> Vec<Option<&str>> {
    let entries = pod.spec.resource_claims.iter().map(|entry| match &entry.resource_claim_name {
        Some(name) => Some(name.as_str()),
        None => {
            let mut made = pod.status.resource_claim_statuses.iter();
            made.find(|status| status.name == entry.name)?.resource_claim_name.as_deref()
        }
    });
    // Nodes have none of it themselves.
    let extended = requests(pod, EXTENDED_RESOURCE).then(|| {
        let status = pod.status.extended_resource_claim_status.as_ref();
        status.map(|status| status.resource_claim_name.as_str())
    });
    entries.chain(extended).collect()
}

fn bound_without_devices(state: &State, pod: &Pod) -> Vec<String> {
    let all = claims(state);
    let problem = |name: Option<&str>| {
        let Some(name) = name else { return Some("has no claim") };
        let is_its = |claim: &&ResourceClaim| {
            claim.metadata.namespace == pod.metadata.namespace && claim.metadata.name == name
        };
        let Some(claim) = all.iter().find(is_its) else { return Some("has a claim that does not exist") };
        let Some(allocation) = &claim.status.allocation else { return Some("has a claim without devices") };
        if !claim.status.is_reserved_for(&pod.metadata.uid) {
            return Some("has a claim that is not reserved for it");
        }
        let is_elsewhere = allocation.devices.results.iter().any(|result| result.pool != pod.spec.node_name);
        is_elsewhere.then_some("has devices of another node")
    };
    let problems = names_of_claims(pod).into_iter().filter_map(problem);
    problems
        .map(|problem| format!("{} was bound to {} and {problem}", pod.key(), pod.spec.node_name))
        .collect()
}

/// What is kept in the end for pods that are gone, or that wait.
pub fn leaks(state: &State) -> Vec<String> {
    let living = |uid: &str| state.pods().find(|pod| pod.metadata.uid == uid && !pod.is_terminal());
    let mut findings = Vec::new();
    for claim in state.claims() {
        let name = claim.metadata.namespaced_name();
        let consumers: BTreeSet<&str> = claim.status.reserved_for.iter().map(|of| of.uid.as_str()).collect();
        let pods: Vec<_> = consumers.iter().filter_map(|uid| living(uid)).collect();
        if pods.len() < consumers.len() {
            findings.push(format!("claim {name} is reserved for a pod that is gone"));
        }
        if !pods.is_empty() && pods.iter().all(|pod| pod.spec.node_name.is_empty()) {
            findings.push(format!("claim {name} is reserved for pods without a node"));
        }
        let Some(owner) = claim.metadata.controller().filter(|owner| owner.kind == "Pod") else { continue };
        match state.pods().find(|pod| pod.metadata.uid == owner.uid) {
            None => findings.push(format!("claim {name} is left of a pod that is gone")),
            Some(pod) if pod.spec.node_name.is_empty() && claim.is_for_extended_resources() => {
                findings.push(format!("claim {name} for extended resources is left of a failed attempt"));
            }
            Some(_) => {}
        }
    }
    findings
}
