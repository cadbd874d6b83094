//! Claims of devices and their templates.

use berth_api_macros::object_type;
use std::collections::BTreeMap;

use super::class::{DeviceConfiguration, DeviceSelector};
use super::status::ResourceClaimStatus;
use crate::object::{ObjectMeta, OwnerReference, Toleration};
use crate::syntax::quantity::Quantity;

/// The annotation of a claim made from a template: the name of the claim in the pod.
pub const POD_CLAIM_NAME_ANNOTATION: &str = "resource.kubernetes.io/pod-claim-name";

/// The annotation of a claim made from a template for a PodGroup: the name of the claim in the group.
pub const POD_GROUP_CLAIM_NAME_ANNOTATION: &str = "resource.kubernetes.io/podgroup-claim-name";

/// The annotation of a claim that the scheduler made for a pod's extended resources.
pub const EXTENDED_RESOURCE_CLAIM_ANNOTATION: &str = "resource.kubernetes.io/extended-resource-claim";

/// The finalizer of an allocated claim.
pub const CLAIM_FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// The label of the namespaces whose claims may have requests with `adminAccess`.
pub const ADMIN_ACCESS_LABEL: &str = "resource.kubernetes.io/admin-access";

/// The `allocationMode` of a request for all matching devices.
pub const ALLOCATION_MODE_ALL: &str = "All";

/// The `allocationMode` of a request for `count` devices; the default.
pub const ALLOCATION_MODE_EXACT_COUNT: &str = "ExactCount";

/// Names of claims are as long as a DNS label; their suffix has five characters.
const MAX_NAME_BASE: usize = 57;

/// The name of a claim that is made for an entry of a pod or of a PodGroup, without its suffix: `OWNER-ENTRY-`; if that is too long,
/// both names are cut in proportion to their lengths.
pub fn claim_name_base(owner: &str, entry: &str) -> String {
    let base = format!("{owner}-{entry}-");
    if base.len() <= MAX_NAME_BASE {
        return base;
    }
    let cut =
        |name: &str| name[..name.floor_char_boundary(name.len() * MAX_NAME_BASE / base.len())].to_owned();
    format!("{}-{}", cut(owner), cut(entry))
}

#[object_type(Eq)]
pub struct ResourceClaim {
    pub metadata: ObjectMeta,
    pub spec: ResourceClaimSpec,
    pub status: ResourceClaimStatus,
}

impl ResourceClaim {
    /// The claim that a scheduler makes for the extended resources of a pod.
    pub fn for_extended_resources(pod: &ObjectMeta, name: &str, requests: &[DeviceRequest]) -> ResourceClaim {
        let mut claim = ResourceClaim::default();
        claim.metadata.namespace.clone_from(&pod.namespace);
        name.clone_into(&mut claim.metadata.name);
        claim.metadata.annotations.insert(EXTENDED_RESOURCE_CLAIM_ANNOTATION.to_owned(), "true".to_owned());
        claim.metadata.owner_references.push(OwnerReference::of_pod(pod));
        claim.spec.devices.requests = requests.to_vec();
        claim
    }

    /// Whether a scheduler made it for the extended resources of a pod, its controller.
    pub fn is_for_extended_resources(&self) -> bool {
        self.metadata.annotation(EXTENDED_RESOURCE_CLAIM_ANNOTATION) == Some("true")
    }
}

/// A template from which a claim is made for each pod.
#[object_type(Eq)]
pub struct ResourceClaimTemplate {
    pub metadata: ObjectMeta,
    pub spec: ResourceClaimTemplateSpec,
}

#[object_type(Eq)]
pub struct ResourceClaimTemplateSpec {
    /// Labels and annotations of the claims.
    pub metadata: ObjectMeta,
    pub spec: ResourceClaimSpec,
}

#[object_type(Eq)]
pub struct ResourceClaimSpec {
    pub devices: DeviceClaim,
}

/// The devices that a claim requests.
#[object_type(Eq)]
pub struct DeviceClaim {
    /// The requests, all of which must be satisfied.
    pub requests: Vec<DeviceRequest>,
    /// What the devices of several requests must have in common.
    pub constraints: Vec<DeviceConstraint>,
    pub config: Vec<DeviceConfiguration>,
}

/// A request of devices: `exactly` or `first_available`.
#[object_type(Eq)]
pub struct DeviceRequest {
    /// Name in the claim.
    pub name: String,
    /// One way to satisfy the request.
    pub exactly: Option<ExactDeviceRequest>,
    /// Alternatives; the first that can be satisfied counts.
    pub first_available: Vec<DeviceSubRequest>,
}

#[object_type(Eq)]
pub struct ExactDeviceRequest {
    pub device_class_name: String,
    /// What a device must satisfy besides the class, ANDed.
    pub selectors: Vec<DeviceSelector>,
    /// `ExactCount` (also when empty) or `All`.
    pub allocation_mode: String,
    /// Number of devices for `ExactCount`; 0 before defaulting, which makes it 1.
    pub count: i64,
    /// Whether to use devices for administration, also if they are allocated to others.
    pub admin_access: Option<bool>,
    /// Taints that the devices may have.
    pub tolerations: Vec<Toleration>,
    /// How much of each device to take, if it can be shared.
    pub capacity: Option<CapacityRequirements>,
}

/// An alternative: devices of a class.
#[object_type(Eq)]
pub struct DeviceSubRequest {
    pub name: String,
    pub device_class_name: String,
    /// What a device must satisfy besides the class, ANDed.
    pub selectors: Vec<DeviceSelector>,
    /// `ExactCount` (also when empty) or `All`.
    pub allocation_mode: String,
    /// Number of devices for `ExactCount`; 0 before defaulting, which makes it 1.
    pub count: i64,
    /// Taints that the devices may have.
    pub tolerations: Vec<Toleration>,
    /// How much of each device to take, if it can be shared.
    pub capacity: Option<CapacityRequirements>,
}

/// How much of a device to take.
#[object_type(Eq)]
pub struct CapacityRequirements {
    /// Amounts by the name of the capacity.
    pub requests: BTreeMap<String, Quantity>,
}

/// What the devices of requests must have in common. One of the attributes is set.
#[object_type(Eq, Hash)]
pub struct DeviceConstraint {
    /// The requests; empty for all of the claim. `REQUEST/SUBREQUEST` names an alternative.
    pub requests: Vec<String>,
    /// An attribute, with domain, that has the same value on all devices.
    pub match_attribute: Option<String>,
    /// An attribute, with domain, that has another value on each device.
    pub distinct_attribute: Option<String>,
}

impl ExactDeviceRequest {
    /// Whether it is for all matching devices.
    pub fn is_for_all(&self) -> bool {
        self.allocation_mode == ALLOCATION_MODE_ALL
    }
}

impl DeviceSubRequest {
    /// Whether it is for all matching devices.
    pub fn is_for_all(&self) -> bool {
        self.allocation_mode == ALLOCATION_MODE_ALL
    }
}
