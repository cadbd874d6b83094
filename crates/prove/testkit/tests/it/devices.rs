//! Claims of devices in recordings: what was decided, and how it was written.

use berth_api::object::Pod;
use berth_api::object::device::{ClaimDecision, DeviceDecision, DeviceKind, DeviceObject};
use berth_input::recording::Step;
use berth_testkit::naive::Devices;
use serde_json::Value;

/// When the recordings were made.
const RECORDED_AT: &str = "2026-09-21T14:13:20Z";

/// What was decided. The name of a claim that the scheduler makes is taken from the recording.
pub fn decisions(expected: &[ClaimDecision], got: Option<&DeviceDecision>) -> Vec<ClaimDecision> {
    let mut got = got.map(|decision| decision.claims.clone()).unwrap_or_default();
    for (got, expected) in got.iter_mut().zip(expected) {
        if got.extended.is_some() {
            got.claim = expected.claim.clone();
        }
    }
    got
}

/// Writes what a step says about claims.
pub fn write(devices: &mut Devices, step: &Step, pod: &Pod) {
    for recorded in &step.claims {
        let before = devices.claims().find(|claim| claim.metadata.namespaced_name() == recorded.claim);
        let now = RECORDED_AT.parse().expect("a time");
        let claim = recorded.decision().written(before, &pod.metadata, recorded.claim.name(), now);
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

/// kube-scheduler scores every pod by claims of devices: with 0, if it has none.
pub fn without_zero_scores(expected: &Value, got: &mut Value) {
    let Some(nodes) = got.as_object_mut() else { return };
    for (name, node) in nodes {
        let scores = node.get_mut("scores").and_then(Value::as_object_mut);
        let Some(scores) = scores else { continue };
        for plugin in ["DynamicResources", "VolumeBinding"] {
            if expected[name]["scores"].get(plugin).is_some_and(|score| *score == 0) {
                scores.entry(plugin).or_insert(0.into());
            }
        }
    }
}
