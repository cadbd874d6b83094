//! The status of claims: what was allocated, and to whom.

use berth_api_macros::object_type;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::class::OpaqueDeviceConfiguration;
use crate::object::{Condition, NodeSelector, ObjectMeta, Toleration, time};
use crate::resource::POD_GROUPS;
use crate::syntax::quantity::Quantity;

/// The largest number of consumers in `reservedFor` of a claim.
pub const MAX_CONSUMERS: usize = 256;

#[object_type(Eq)]
pub struct ResourceClaimStatus {
    /// What is allocated; absent while nothing is.
    pub allocation: Option<AllocationResult>,
    /// The pods, or PodGroups, that may use the claim, at most [`MAX_CONSUMERS`].
    pub reserved_for: Vec<ResourceClaimConsumerReference>,
    /// What the drivers report about the allocated devices.
    pub devices: Vec<AllocatedDeviceStatus>,
}

/// What is allocated to a claim.
#[object_type(Eq)]
pub struct AllocationResult {
    pub devices: DeviceAllocationResult,
    /// The nodes on which the devices can be used; absent for all.
    pub node_selector: Option<NodeSelector>,
    #[serde(with = "time", skip_serializing_if = "Option::is_none")]
    pub allocation_timestamp: Option<Timestamp>,
}

/// The devices of a claim and their configuration.
#[object_type(Eq)]
pub struct DeviceAllocationResult {
    /// The devices, in the order of the requests.
    pub results: Vec<DeviceRequestAllocationResult>,
    /// The configuration of the classes, then that of the claim.
    pub config: Vec<DeviceAllocationConfiguration>,
}

#[object_type(Eq)]
pub struct DeviceRequestAllocationResult {
    /// The request, or `REQUEST/SUBREQUEST` for the alternative that was used.
    pub request: String,
    pub driver: String,
    pub pool: String,
    pub device: String,
    /// Whether the device is used for administration: it is free for others.
    pub admin_access: Option<bool>,
    pub tolerations: Vec<Toleration>,
    /// The conditions of the device that must be true before the pod is bound.
    pub binding_conditions: Vec<String>,
    /// The conditions that end the attempt to bind the pod if one of them is true.
    pub binding_failure_conditions: Vec<String>,
    /// Names this share of a device that several requests share.
    #[serde(rename = "shareID")]
    pub share_id: Option<String>,
    /// What this share takes of the capacities.
    pub consumed_capacity: BTreeMap<String, Quantity>,
}

#[object_type(Eq)]
pub struct DeviceAllocationConfiguration {
    /// `FromClass` or `FromClaim`.
    pub source: String,
    /// The requests that it is for; empty for all.
    pub requests: Vec<String>,
    pub opaque: Option<OpaqueDeviceConfiguration>,
}

#[object_type(Eq, Hash)]
pub struct ResourceClaimConsumerReference {
    /// API group; empty for pods.
    pub api_group: String,
    /// Plural name, such as `pods`.
    pub resource: String,
    /// Name, in the namespace of the claim.
    pub name: String,
    pub uid: String,
}

/// What a driver reports about an allocated device.
#[object_type(Eq)]
pub struct AllocatedDeviceStatus {
    pub driver: String,
    pub pool: String,
    pub device: String,
    /// The share of a device that several requests share.
    #[serde(rename = "shareID")]
    pub share_id: Option<String>,
    /// Conditions, among them the binding conditions of the device.
    pub conditions: Vec<Condition>,
    /// Data of the driver, as it was written.
    pub data: Option<Value>,
    /// The network interface that the device is in the pod.
    pub network_data: Option<NetworkDeviceData>,
}

#[object_type(Eq, Hash)]
pub struct NetworkDeviceData {
    pub interface_name: String,
    /// Addresses with prefix lengths.
    pub ips: Vec<String>,
    pub hardware_address: String,
}

impl ResourceClaimConsumerReference {
    pub fn pod(pod: &ObjectMeta) -> ResourceClaimConsumerReference {
        let (name, uid) = (pod.name.clone(), pod.uid.clone());
        ResourceClaimConsumerReference { api_group: String::new(), resource: "pods".to_owned(), name, uid }
    }

    /// A PodGroup, whose pods use the claim.
    pub fn pod_group(name: &str, uid: &str) -> ResourceClaimConsumerReference {
        let (api_group, resource) = (POD_GROUPS.group.to_owned(), POD_GROUPS.plural.to_owned());
        ResourceClaimConsumerReference { api_group, resource, name: name.to_owned(), uid: uid.to_owned() }
    }

    /// The name of the PodGroup, if it is one.
    pub fn as_pod_group(&self) -> Option<&str> {
        (self.api_group == POD_GROUPS.group && self.resource == POD_GROUPS.plural).then_some(&*self.name)
    }
}

/// Whether the allocated devices of a claim are ready for pods to be bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceReadiness {
    /// All binding conditions are true.
    #[default]
    Ready,
    /// Some are not.
    Waits,
    /// A binding failure condition is true: its reason and message.
    Failed(String, String),
}

impl ResourceClaimStatus {
    /// Whether the allocated devices are ready for pods to be bound.
    pub fn readiness(&self) -> DeviceReadiness {
        let results = self.allocation.iter().flat_map(|allocation| &allocation.devices.results);
        let mut waits = false;
        for result in results.filter(|result| !result.binding_conditions.is_empty()) {
            let is_its = |status: &&AllocatedDeviceStatus| {
                (&status.driver, &status.pool, &status.device, &status.share_id)
                    == (&result.driver, &result.pool, &result.device, &result.share_id)
            };
            let conditions = self.devices.iter().find(is_its).map_or(&[][..], |status| &status.conditions);
            let find = |name: &String| {
                conditions.iter().find(|is| is.condition_type == *name && is.status == "True")
            };
            if let Some(failed) = result.binding_failure_conditions.iter().find_map(find) {
                return DeviceReadiness::Failed(failed.reason.clone(), failed.message.clone());
            }
            waits |= !result.binding_conditions.iter().all(|name| find(name).is_some());
        }
        if waits { DeviceReadiness::Waits } else { DeviceReadiness::Ready }
    }

    /// Whether it is reserved for the pod or the PodGroup with this uid.
    pub fn is_reserved_for(&self, uid: &str) -> bool {
        self.reserved_for.iter().any(|consumer| consumer.uid == uid)
    }

    /// Whether a pod may use the claim. Of the PodGroup that `spec.schedulingGroup` names, the name counts: it does not end before its
    /// pods.
    pub fn is_usable_by(&self, pod_uid: &str, group: Option<&str>) -> bool {
        let is_of_group =
            |consumer: &ResourceClaimConsumerReference| group.is_some() && consumer.as_pod_group() == group;
        self.is_reserved_for(pod_uid) || self.reserved_for.iter().any(is_of_group)
    }

    /// A pod does not use the claim any longer: with its last consumer it loses its devices. Returns whether it was reserved for
    /// the pod.
    pub fn release(&mut self, pod_uid: &str) -> bool {
        if !self.is_reserved_for(pod_uid) {
            return false;
        }
        self.reserved_for.retain(|consumer| consumer.uid != pod_uid);
        if self.reserved_for.is_empty() {
            *self = ResourceClaimStatus::default();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn devices_are_ready_when_all_binding_conditions_are_true() {
        let of = |conditions: &[(&str, &str)]| {
            let condition = |(name, status): &(&str, &str)| json!({"type": name, "status": status, "reason": "R", "message": "m"});
            let conditions: Vec<_> = conditions.iter().map(condition).collect();
            let status = json!({
                "allocation": {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "0",
                    "bindingConditions": ["attached", "prepared"], "bindingFailureConditions": ["broken"]}]}},
                "devices": [{"driver": "d", "pool": "p", "device": "0", "conditions": conditions}]});
            serde_json::from_value::<ResourceClaimStatus>(status).unwrap().readiness()
        };
        assert_eq!(of(&[]), DeviceReadiness::Waits);
        assert_eq!(of(&[("attached", "True")]), DeviceReadiness::Waits);
        let ready = [("attached", "True"), ("prepared", "True"), ("broken", "False")];
        assert_eq!(of(&ready), DeviceReadiness::Ready);
        let failed = DeviceReadiness::Failed("R".to_owned(), "m".to_owned());
        assert_eq!(of(&[("attached", "True"), ("broken", "True")]), failed);
    }
}
