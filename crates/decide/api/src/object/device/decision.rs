//! What a scheduler decides about the claims of a pod.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{AllocationResult, DeviceRequest, ResourceClaim, ResourceClaimConsumerReference};
use crate::object::{
    ContainerExtendedResourceRequest, NamespacedName, NodeAllocatableResourceClaimStatus, ObjectMeta,
};

/// What a decision does about the claims of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceDecision {
    /// The claims in the order of the pod; that for extended resources is the last.
    pub claims: Vec<ClaimDecision>,
    /// What the devices take of the allocatable resources of the node, by the names of the claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_allocatable: Vec<NodeAllocatableResourceClaimStatus>,
}

/// What a decision does about one claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimDecision {
    /// The claim. A claim for extended resources is made by the scheduler, and has a name that no object can have.
    pub claim: NamespacedName,
    /// Its name in the pod; absent for extended resources.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub name_in_pod: Option<String>,
    /// What is allocated to it; absent if that was done before. Shares are numbered: the scheduler gives them identifiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<AllocationResult>,
    pub is_reserved_now: bool,
    /// The PodGroup that it is reserved for instead of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<ResourceClaimConsumerReference>,
    /// Whether conditions of its devices have to become true before the pod is bound.
    pub waits: bool,
    /// What a claim for extended resources requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extended: Option<ExtendedResourceClaim>,
}

impl ClaimDecision {
    /// What the claim is reserved for when this pod is placed.
    pub fn consumer(&self, pod: &ObjectMeta) -> ResourceClaimConsumerReference {
        self.group.clone().unwrap_or_else(|| ResourceClaimConsumerReference::pod(pod))
    }

    /// The claim as a scheduler leaves it before it binds the pod. A claim for extended resources, of which there is none before,
    /// gets the name `made`.
    pub fn written(
        &self,
        before: Option<&ResourceClaim>,
        pod: &ObjectMeta,
        made: &str,
        now: Timestamp,
    ) -> ResourceClaim {
        let made = || {
            let requests = self.extended.as_ref().map(|extended| &*extended.requests).unwrap_or_default();
            ResourceClaim::for_extended_resources(pod, made, requests)
        };
        let mut claim = before.cloned().unwrap_or_else(made);
        if let Some(allocation) = &self.allocation {
            claim.status.allocation =
                Some(AllocationResult { allocation_timestamp: Some(now), ..allocation.clone() });
        }
        if self.is_reserved_now {
            claim.status.reserved_for.push(self.consumer(pod));
        }
        claim
    }
}

/// A claim that the scheduler makes for the extended resources of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtendedResourceClaim {
    pub requests: Vec<DeviceRequest>,
    pub mappings: Vec<ContainerExtendedResourceRequest>,
}
