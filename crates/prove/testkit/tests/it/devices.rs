//! Claims of devices in recordings: what was decided, and how it was written.

use berth_api::object::device::{
    AllocationResult, CLAIM_FINALIZER, DeviceAllocationResult, DeviceDecision, DeviceKind, DeviceObject,
    EXTENDED_RESOURCE_CLAIM_ANNOTATION, ResourceClaim, ResourceClaimConsumerReference,
};
use berth_api::object::{OwnerReference, Pod};
use berth_api::recording::{RecordedClaim, Step};
use berth_testkit::naive::Devices;
use serde_json::Value;

/// When the recordings were made.
const RECORDED_AT: &str = "2026-09-21T14:13:20Z";

/// A decision as it is recorded. The name of a claim that the scheduler makes is taken from the recording.
pub fn recorded(expected: &[RecordedClaim], got: Option<&DeviceDecision>, pod: &Pod) -> Vec<RecordedClaim> {
    let got = got.map(|decision| &decision.claims[..]).unwrap_or_default();
    let each = got.iter().enumerate().map(|(i, claim)| {
        let extended = claim.extended.clone().unwrap_or_default();
        let AllocationResult { devices, node_selector, .. } = claim.allocation.clone().unwrap_or_default();
        RecordedClaim {
            claim: match (&claim.name_in_pod, expected.get(i)) {
                (None, Some(expected)) => expected.claim.clone(),
                _ => claim.claim.clone(),
            },
            name_in_pod: claim.name_in_pod.clone(),
            new: claim.allocation.is_some(),
            devices: devices.results,
            config: devices.config,
            node_selector,
            reserved_for: claim.is_reserved_now.then(|| ResourceClaimConsumerReference {
                resource: "pods".to_owned(),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
                ..ResourceClaimConsumerReference::default()
            }),
            waits: claim.waits,
            requests: extended.requests,
            mappings: extended.mappings,
        }
    });
    each.collect()
}

/// Writes what a step says about claims.
pub fn write(devices: &mut Devices, step: &Step, pod: &Pod) {
    for recorded in &step.claims {
        let claim =
            devices.claims().find(|claim| claim.metadata.namespaced_name() == recorded.claim).cloned();
        let mut claim = claim.unwrap_or_else(|| made_for(recorded, pod));
        if recorded.new {
            claim.metadata.finalizers = vec![CLAIM_FINALIZER.to_owned()].into();
            claim.status.allocation = Some(AllocationResult {
                devices: DeviceAllocationResult {
                    results: recorded.devices.clone(),
                    config: recorded.config.clone(),
                },
                node_selector: recorded.node_selector.clone(),
                allocation_timestamp: Some(RECORDED_AT.parse().expect("a time")),
            });
        }
        claim.status.reserved_for.extend(recorded.reserved_for.clone());
        devices.set(DeviceObject::ResourceClaim(Box::new(claim)));
    }
    let Some(post_filter) = &step.post_filter else { return };
    if let Some(name) = &post_filter.deallocated {
        let claim = devices.claims().find(|claim| claim.metadata.namespaced_name() == *name);
        let mut claim = claim.expect("a claim that exists").clone();
        claim.status.allocation = None;
        claim.status.reserved_for.clear();
        devices.set(DeviceObject::ResourceClaim(Box::new(claim)));
    }
    if let Some(name) = &post_filter.deleted {
        devices.remove(DeviceKind::ResourceClaim, name);
    }
}

/// The claim that the scheduler makes for the extended resources of a pod.
fn made_for(recorded: &RecordedClaim, pod: &Pod) -> ResourceClaim {
    let mut claim = ResourceClaim::default();
    claim.metadata.namespace = recorded.claim.namespace().to_owned();
    claim.metadata.name = recorded.claim.name().to_owned();
    claim.metadata.uid = format!("uid-{}", recorded.claim);
    claim.metadata.annotations.insert(EXTENDED_RESOURCE_CLAIM_ANNOTATION.into(), "true".into());
    claim.metadata.owner_references.push(OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        controller: Some(true),
        ..OwnerReference::default()
    });
    claim.spec.devices.requests.clone_from(&recorded.requests);
    claim
}

/// kube-scheduler scores every pod by claims of devices: with 0, if it has none.
pub fn without_zero_scores(expected: &Value, got: &mut Value) {
    let Some(nodes) = got.as_object_mut() else { return };
    for (name, node) in nodes {
        let scores = node.get_mut("scores").and_then(Value::as_object_mut);
        if let (Some(score), Some(scores)) = (expected[name]["scores"].get("DynamicResources"), scores)
            && *score == 0
        {
            scores.entry("DynamicResources").or_insert(0.into());
        }
    }
}
