//! Claims of devices in recordings.

use std::collections::BTreeMap;

use berth_api::object::device::{
    AllocationResult, CLAIM_FINALIZER, ClaimDecision, DeviceAllocationResult, DeviceDecision, DeviceObject,
    EXTENDED_RESOURCE_CLAIM_ANNOTATION, ResourceClaim, ResourceClaimConsumerReference,
};
use berth_api::object::{NamespacedName, OwnerReference, Pod};
use berth_api::recording::{RecordedClaim, RecordedPostFilter, Step};
use berth_engine::{Cluster, DevicePostFilter};
use jiff::Timestamp;

use super::RECORDED_AT;
use super::comparison::Comparison;

/// The claims of a scenario, as the recorded steps write them.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims(BTreeMap<NamespacedName, ResourceClaim>);

impl Claims {
    /// Notes an object of the scenario.
    pub(super) fn note(&mut self, object: &DeviceObject) {
        if let DeviceObject::ResourceClaim(claim) = object {
            self.0.insert(claim.metadata.namespaced_name(), (**claim).clone());
        }
    }

    /// Writes what a step says to the claims, as PreBind and PostFilter do.
    pub(super) fn write(&mut self, cluster: &mut Cluster, step: &Step, pod: &Pod) {
        for recorded in &step.claims {
            let claim = self.0.entry(recorded.claim.clone()).or_insert_with(|| made_for(recorded, pod));
            if recorded.new {
                if !claim.metadata.finalizers.iter().any(|finalizer| finalizer == CLAIM_FINALIZER) {
                    claim.metadata.finalizers.push(CLAIM_FINALIZER.to_owned());
                }
                claim.status.allocation = Some(AllocationResult {
                    devices: DeviceAllocationResult {
                        results: recorded.devices.clone(),
                        config: recorded.config.clone(),
                    },
                    node_selector: recorded.node_selector.clone(),
                    allocation_timestamp: Timestamp::from_second(RECORDED_AT).ok(),
                });
            }
            claim.status.reserved_for.extend(recorded.reserved_for.clone());
            cluster.set_device_object(&DeviceObject::ResourceClaim(Box::new(claim.clone())));
        }
        let Some(post_filter) = &step.post_filter else { return };
        if let Some(claim) = post_filter.deallocated.as_ref().and_then(|name| self.0.get_mut(name)) {
            claim.status.allocation = None;
            claim.status.reserved_for.clear();
            cluster.set_device_object(&DeviceObject::ResourceClaim(Box::new(claim.clone())));
        }
        if let Some(name) = &post_filter.deleted
            && let Some(claim) = self.0.remove(name)
        {
            let kind = DeviceObject::ResourceClaim(Box::new(claim)).kind();
            cluster.remove_device_object(kind, name.namespace(), name.name());
        }
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

impl Comparison<'_> {
    /// Compares what was decided about claims.
    pub(super) fn claims(&mut self, expected: &[RecordedClaim], got: Option<&DeviceDecision>, pod: &Pod) {
        let got = got.map(|decision| &*decision.claims).unwrap_or_default();
        let got: Vec<_> = got.iter().map(|claim| recorded(claim, pod)).collect();
        let mut expected = expected.to_vec();
        for (expected, got) in expected.iter_mut().zip(&got) {
            // The name of a claim that the scheduler makes is random.
            if expected.name_in_pod.is_none() {
                expected.claim = got.claim.clone();
            }
        }
        self.same("claims", &expected, &got);
    }

    /// Compares what is done about the claims of a pod that fits nowhere.
    pub(super) fn post_filter(&mut self, expected: Option<&RecordedPostFilter>, got: &DevicePostFilter) {
        let text = |what: &str, claim: &NamespacedName| format!("{what} {claim}");
        let got = match got {
            DevicePostFilter::Nothing => None,
            DevicePostFilter::Deallocate(claims) => claims.first().map(|claim| text("deallocated", claim)),
            DevicePostFilter::Delete(claim) => Some(text("deleted", claim)),
        };
        let expected = expected.and_then(|expected| {
            let deallocated = expected.deallocated.as_ref().map(|claim| text("deallocated", claim));
            deallocated.or(expected.deleted.as_ref().map(|claim| text("deleted", claim)))
        });
        self.same("postFilter", &expected, &got);
    }
}

/// A decision as it is recorded.
fn recorded(claim: &ClaimDecision, pod: &Pod) -> RecordedClaim {
    let extended = claim.extended.clone().unwrap_or_default();
    let allocation = claim.allocation.clone();
    let AllocationResult { devices, node_selector, .. } = allocation.unwrap_or_default();
    RecordedClaim {
        claim: claim.claim.clone(),
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
}
