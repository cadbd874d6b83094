//! Claims of devices, as far as their binding to pods is concerned.

use std::hash::{DefaultHasher, Hash, Hasher};

use berth_api::object::device::{AllocationResult, DeviceReadiness, ResourceClaim};

/// A claim of devices, as far as its binding to a pod is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceClaimState {
    pub uid: String,
    /// `metadata.resourceVersion`, as a number.
    pub version: u64,
    /// Stands for what is allocated: equal allocations have equal numbers. None while nothing is.
    pub allocation: Option<u64>,
    /// Whether the allocated devices are ready for pods to be bound.
    pub readiness: DeviceReadiness,
}

impl From<&ResourceClaim> for DeviceClaimState {
    fn from(claim: &ResourceClaim) -> DeviceClaimState {
        let ResourceClaim { metadata, status, .. } = claim;
        DeviceClaimState {
            uid: metadata.uid.clone(),
            version: metadata.resource_version.parse().unwrap_or_default(),
            allocation: status.allocation.as_ref().map(number_of),
            readiness: status.readiness(),
        }
    }
}

fn number_of(allocation: &AllocationResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    // The types of the API have text for keys: this cannot fail.
    serde_json::to_vec(allocation).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_number_of_an_allocation_does_not_depend_on_conditions() {
        let state = |allocation: Value, devices: Value| {
            let status = json!({"allocation": allocation, "devices": devices});
            let claim =
                json!({"metadata": {"name": "c", "uid": "u", "resourceVersion": "7"}, "status": status});
            DeviceClaimState::from(&serde_json::from_value::<ResourceClaim>(claim).unwrap()).allocation
        };
        let of = |device: &str| json!({"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": device}]}});
        let reported = json!([{"driver": "d", "pool": "p", "device": "0", "conditions": [{"type": "attached", "status": "True"}]}]);
        assert_eq!(state(of("0"), json!([])), state(of("0"), reported));
        assert_ne!(state(of("0"), json!([])), state(of("1"), json!([])));
        assert_eq!(state(Value::Null, json!([])), None);
    }
}
