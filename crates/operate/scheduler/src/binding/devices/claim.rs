//! Claims as the API server answers with them.

use berth_api::object::NamespacedName;
use berth_api::object::device::{AllocationResult, CLAIM_FINALIZER, ResourceClaim};
use berth_api::read::from_value;
use berth_api::resource::RESOURCE_CLAIMS;
use berth_client::call::CallError;
use berth_mirror::DeviceClaimState;
use serde_json::{Value, json};

/// Whether another try would fail in the same way.
pub(super) fn is_final(error: &CallError) -> bool {
    error.is_refusal() && !error.is_conflict() && error.code() != Some(429)
}

pub(super) fn claim_path(claim: &NamespacedName) -> String {
    RESOURCE_CLAIMS.object_path(claim.namespace(), claim.name())
}

/// A claim as an answer has it. One that cannot be read counts as not allocated, in no version.
pub(super) fn state_of(claim: &Value) -> DeviceClaimState {
    from_value::<ResourceClaim>(claim).map(|claim| DeviceClaimState::from(&claim)).unwrap_or_default()
}

/// The uids of the pods that a claim is reserved for.
pub(super) fn consumers(claim: &Value) -> impl Iterator<Item = &str> {
    let reserved = claim["status"]["reservedFor"].as_array();
    reserved.into_iter().flatten().filter_map(|of| of["uid"].as_str())
}

/// Whether a claim has exactly the devices of an allocation.
pub(super) fn has_devices(claim: &Value, allocation: &AllocationResult) -> bool {
    let Ok(claim) = from_value::<ResourceClaim>(claim) else { return false };
    let found = claim.status.allocation.unwrap_or_default().devices.results;
    let expected = &allocation.devices.results;
    found.len() == expected.len()
        && found.iter().zip(expected).all(|(a, b)| {
            (&a.request, &a.driver, &a.pool, &a.device, &a.share_id)
                == (&b.request, &b.driver, &b.pool, &b.device, &b.share_id)
        })
}

/// Returns whether the claim did not have it.
pub(super) fn add_finalizer(claim: &mut Value) -> bool {
    let finalizers = &mut claim["metadata"]["finalizers"];
    if !finalizers.is_array() {
        *finalizers = json!([]);
    }
    let Some(finalizers) = finalizers.as_array_mut() else { return false };
    let is_new = !finalizers.iter().any(|name| name == CLAIM_FINALIZER);
    if is_new {
        finalizers.push(CLAIM_FINALIZER.into());
    }
    is_new
}

/// Returns whether the claim had it.
pub(super) fn remove_finalizer(claim: &mut Value) -> bool {
    let Some(finalizers) = claim["metadata"]["finalizers"].as_array_mut() else { return false };
    let n_before = finalizers.len();
    finalizers.retain(|name| name != CLAIM_FINALIZER);
    finalizers.len() < n_before
}
