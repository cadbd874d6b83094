//! The writes of a binding, as JSON merge patches. Pure.

use berth_api::object::volume::{
    BIND_COMPLETED_ANNOTATION as BIND_COMPLETED, BOUND_BY_CONTROLLER_ANNOTATION as BOUND_BY_CONTROLLER,
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus,
};
use serde_json::{Value, json};

/// Annotations of a claim with the name of its provisioner, which waits for them.
const PROVISIONER: [&str; 2] =
    ["volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner"];

/// Lets the volume refer to the claim; `None` if it does.
pub(super) fn volume_to_claim(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<Value> {
    let meta = &claim.metadata;
    let is_reserved = volume.is_for(claim);
    if is_reserved && volume.spec.claim_ref.as_ref().is_some_and(|reference| reference.uid == meta.uid) {
        return None;
    }
    let mut patch = json!({"spec": {"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": meta.namespace, "name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version}}});
    if !is_reserved {
        patch["metadata"]["annotations"][BOUND_BY_CONTROLLER] = "yes".into();
    }
    Some(patch)
}

/// Lets the claim refer to the volume; `None` if it does.
pub(super) fn claim_to_volume(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<Value> {
    let is_named = claim.spec.volume_name == volume.metadata.name;
    let is_complete = claim.metadata.annotation(BIND_COMPLETED).is_some();
    if is_named && is_complete {
        return None;
    }
    let mut patch = json!({"metadata": {"annotations": {BIND_COMPLETED: "yes"}},
        "spec": {"volumeName": volume.metadata.name}});
    if !is_named {
        patch["metadata"]["annotations"][BOUND_BY_CONTROLLER] = "yes".into();
    }
    // A claim that has changed may have been bound to another volume.
    patch["metadata"]["resourceVersion"] = claim.metadata.resource_version.as_str().into();
    Some(patch)
}

/// Names the provisioner in the claim; `None` if it is named.
pub(super) fn provisioner(claim: &PersistentVolumeClaim, name: &str) -> Option<Value> {
    let is_named = PROVISIONER.iter().all(|key| claim.metadata.annotation(key) == Some(name));
    (!is_named).then(|| json!({"metadata": {"annotations": {PROVISIONER[0]: name, PROVISIONER[1]: name}}}))
}

/// The status of a claim, with the access modes and the capacity of its volume.
pub(super) fn claim_status(phase: &str, volume: Option<&PersistentVolume>) -> PersistentVolumeClaimStatus {
    PersistentVolumeClaimStatus {
        phase: phase.to_owned(),
        access_modes: volume.map(|volume| volume.spec.access_modes.clone()).unwrap_or_default(),
        capacity: volume.map(|volume| volume.spec.capacity.clone()).unwrap_or_default(),
    }
}

/// The status as a patch: fields that are empty now are removed.
pub(super) fn as_patch(status: &PersistentVolumeClaimStatus, old: &PersistentVolumeClaimStatus) -> Value {
    let mut patch = json!({"phase": status.phase});
    if status.access_modes != old.access_modes {
        patch["accessModes"] = match status.access_modes.is_empty() {
            true => Value::Null,
            false => json!(status.access_modes),
        };
    }
    if status.capacity != old.capacity {
        patch["capacity"] = if status.capacity.is_empty() { Value::Null } else { json!(status.capacity) };
    }
    patch
}
