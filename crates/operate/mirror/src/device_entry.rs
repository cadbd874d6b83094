//! Objects that decide where pods with claims of devices may run, as they are read.
//!
//! An object that cannot be read is reported in the log and counts as absent: it must not keep the others from being used.

use std::hash::{DefaultHasher, Hash, Hasher};

use berth_api::object::device::{
    AllocatedDeviceStatus, AllocationResult, DeviceKind, DeviceObject, DeviceRequestAllocationResult,
    ResourceClaim,
};
use berth_client::{KubeObject, StreamEvent};
use serde_json::Value;

/// A claim of devices, as far as its binding to a pod is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceClaimState {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`, as a number.
    pub version: u64,
    /// Stands for what is allocated: equal allocations have equal numbers. None while nothing is.
    pub allocation: Option<u64>,
    /// Whether the allocated devices are ready for pods to be bound.
    pub readiness: DeviceReadiness,
}

/// Whether the devices of a claim are ready for pods to be bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceReadiness {
    /// All binding conditions are true.
    #[default]
    Ready,
    /// Some are not.
    Waits,
    /// A condition is true that ends the attempt to bind: why.
    Failed(String),
}

impl From<&ResourceClaim> for DeviceClaimState {
    fn from(claim: &ResourceClaim) -> DeviceClaimState {
        let ResourceClaim { metadata, status, .. } = claim;
        let readiness = status.allocation.as_ref().map(|allocation| {
            let results = &allocation.devices.results;
            readiness(&metadata.name, results, &status.devices)
        });
        DeviceClaimState {
            uid: metadata.uid.clone(),
            version: metadata.resource_version.parse().unwrap_or_default(),
            allocation: status.allocation.as_ref().map(number_of),
            readiness: readiness.unwrap_or_default(),
        }
    }
}

fn number_of(allocation: &AllocationResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    // The types of the API have text for keys: this cannot fail.
    serde_json::to_vec(allocation).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

fn readiness(
    claim: &str,
    results: &[DeviceRequestAllocationResult],
    statuses: &[AllocatedDeviceStatus],
) -> DeviceReadiness {
    let mut waits = false;
    for result in results.iter().filter(|result| !result.binding_conditions.is_empty()) {
        let is_its = |status: &&AllocatedDeviceStatus| {
            (&status.driver, &status.pool, &status.device, &status.share_id)
                == (&result.driver, &result.pool, &result.device, &result.share_id)
        };
        let conditions = statuses.iter().find(is_its).map_or(&[][..], |status| &status.conditions);
        let find =
            |name: &String| conditions.iter().find(|is| is.condition_type == *name && is.status == "True");
        if let Some(failed) = result.binding_failure_conditions.iter().find_map(find) {
            let (reason, message) = (&failed.reason, &failed.message);
            return DeviceReadiness::Failed(format!(
                "claim {claim} binding failed: reason={reason}, message={message:?}"
            ));
        }
        waits |= !result.binding_conditions.iter().all(|name| find(name).is_some());
    }
    if waits { DeviceReadiness::Waits } else { DeviceReadiness::Ready }
}

/// An object of a watch; none if it could not be read.
pub(crate) struct DeviceEntry {
    pub(crate) object: Option<DeviceObject>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) version: String,
}

impl KubeObject for DeviceEntry {
    fn resource_version(&self) -> &str {
        &self.version
    }

    fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

/// Reads the object of an event.
pub(crate) fn device_entry(kind: DeviceKind, event: StreamEvent<Value>) -> StreamEvent<DeviceEntry> {
    event.map(|value: Value| {
        let (namespace, name) = value.key();
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let version = value.resource_version().to_owned();
        let object = DeviceObject::decode(kind, &value);
        let object = object.inspect_err(|error| tracing::error!("{error}: the object is ignored")).ok();
        DeviceEntry { object, namespace, name, version }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(conditions: &Value) -> DeviceClaimState {
        let claim = json!({"metadata": {"name": "c", "uid": "u", "resourceVersion": "7"}, "status": {
            "allocation": {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "0",
                "bindingConditions": ["attached", "prepared"], "bindingFailureConditions": ["broken"]}]}},
            "devices": [{"driver": "d", "pool": "p", "device": "0", "conditions": conditions}]}});
        DeviceClaimState::from(&serde_json::from_value::<ResourceClaim>(claim).unwrap())
    }

    #[test]
    fn a_claim_is_ready_when_all_binding_conditions_are_true() {
        let condition =
            |name: &str, status: &str| json!({"type": name, "status": status, "reason": "R", "message": "m"});
        let of = |conditions: Value| state(&conditions).readiness;
        assert_eq!(of(json!([])), DeviceReadiness::Waits);
        assert_eq!(of(json!([condition("attached", "True")])), DeviceReadiness::Waits);
        let ready = json!([
            condition("attached", "True"),
            condition("prepared", "True"),
            condition("broken", "False")
        ]);
        assert_eq!(of(ready), DeviceReadiness::Ready);
        let failed = json!([condition("attached", "True"), condition("broken", "True")]);
        let why = "claim c binding failed: reason=R, message=\"m\"";
        assert_eq!(of(failed), DeviceReadiness::Failed(why.to_owned()));
        assert_eq!(state(&json!([])).allocation, state(&json!([condition("attached", "True")])).allocation);
    }
}
