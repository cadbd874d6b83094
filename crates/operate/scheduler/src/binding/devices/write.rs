//! What is to be written to the claims of a pod.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use berth_api::object::device::{
    AllocationResult, CLAIM_FINALIZER, ClaimDecision, ExtendedResourceClaim, ResourceClaim,
    ResourceClaimConsumerReference,
};
use berth_api::object::{NamespacedName, NodeAllocatableResourceClaimStatus, Pod};
use berth_api::resource::RESOURCE_CLAIMS;
use berth_mirror::DeviceClaimState;
use serde_json::{Value, json};

use super::claim::claim_path;

/// The longest start of a generated name, as on the API server.
const MAX_GENERATED_BASE: usize = 58;

pub(crate) struct DeviceWrite {
    pub(crate) pod: Arc<Pod>,
    pub(crate) claims: Vec<ClaimWrite>,
    /// What the devices take of the node, for the status of the pod.
    pub(crate) node_allocatable: Vec<NodeAllocatableResourceClaimStatus>,
    /// Set when the node is deleted, or the attempt ended: then nothing more is bound.
    pub(crate) abandoned: Arc<AtomicBool>,
}

pub(crate) struct ClaimWrite {
    pub(crate) claim: NamespacedName,
    /// Its uid; none for a claim that is made for extended resources.
    pub(crate) uid: Option<String>,
    pub(crate) step: ClaimStep,
    /// What it is reserved for: the pod, or its PodGroup.
    pub(crate) consumer: ResourceClaimConsumerReference,
    /// What a claim that is made for extended resources requests.
    pub(crate) extended: Option<ExtendedResourceClaim>,
}

pub(crate) enum ClaimStep {
    Allocate(Box<AllocationResult>),
    /// It is to be reserved; the number stands for what is allocated ([`DeviceClaimState::allocation`]).
    Reserve(u64),
    /// It is to be reserved when it is allocated: another pod of the group is doing so, and may reserve it for all of them.
    ReserveLater,
    /// It is allocated and reserved already.
    Nothing,
}

impl ClaimWrite {
    /// What is to be written to a claim, as it was decided. `known` is the claim as it was when it was decided.
    pub(crate) fn new(pod: &Pod, decided: &ClaimDecision, known: Option<&DeviceClaimState>) -> ClaimWrite {
        let step = match (&decided.allocation, known.and_then(|known| known.allocation)) {
            (Some(allocation), _) => ClaimStep::Allocate(Box::new(with_share_ids(allocation))),
            (None, _) if !decided.is_reserved_now => ClaimStep::Nothing,
            (None, Some(number)) => ClaimStep::Reserve(number),
            (None, None) => ClaimStep::ReserveLater,
        };
        let claim = match &decided.extended {
            Some(_) => NamespacedName::new(&pod.metadata.namespace, &generated_name(&pod.metadata.name)),
            None => decided.claim.clone(),
        };
        let uid = known.filter(|_| decided.extended.is_none()).map(|known| known.uid.clone());
        let consumer = decided.consumer(&pod.metadata);
        ClaimWrite { claim, uid, step, consumer, extended: decided.extended.clone() }
    }

    pub(super) fn path(&self) -> String {
        claim_path(&self.claim)
    }

    pub(super) fn object(&self, pod: &Pod, extended: &ExtendedResourceClaim) -> Value {
        let mut claim =
            ResourceClaim::for_extended_resources(&pod.metadata, self.claim.name(), &extended.requests);
        claim.metadata.generate_name = format!("{}-extended-resources-", pod.metadata.name);
        claim.metadata.finalizers.push(CLAIM_FINALIZER.to_owned());
        let mut object = json!(claim);
        object["apiVersion"] = RESOURCE_CLAIMS.api_version().into();
        object["kind"] = RESOURCE_CLAIMS.kind.into();
        object
    }
}

/// The engine numbers shares. On the API server each has an identifier of its own.
fn with_share_ids(allocation: &AllocationResult) -> AllocationResult {
    let mut allocation = allocation.clone();
    for result in &mut allocation.devices.results {
        result.share_id = result.share_id.as_ref().map(|_| uuid::Uuid::new_v4().to_string());
    }
    allocation
}

/// A name as the API server generates it. It is known before the claim is created, so that a repeated request creates no second
/// claim.
fn generated_name(pod: &str) -> String {
    let base = format!("{pod}-extended-resources-");
    let suffix = std::iter::repeat_with(fastrand::lowercase).take(5);
    base.chars().take(MAX_GENERATED_BASE).chain(suffix).collect()
}
