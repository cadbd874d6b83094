//! Dynamic resource allocation (`resource.k8s.io`): devices that drivers publish, classes of devices, and claims.
//!
//! The types have the shape of `resource.k8s.io/v1`; [`crate::read`] converts objects of the earlier versions.

mod claim;
mod class;
mod decision;
mod slice;
mod status;

pub use self::claim::*;
pub use self::class::*;
pub use self::decision::*;
pub use self::slice::*;
pub use self::status::*;
use super::kinds::object_kinds;

object_kinds! {
    /// An object that decides where pods with claims of devices may run.
    DeviceKind, DeviceObject {
        ResourceSlice(Box<ResourceSlice>) = RESOURCE_SLICES,
        DeviceClass(Box<DeviceClass>) = DEVICE_CLASSES,
        ResourceClaim(Box<ResourceClaim>) = RESOURCE_CLAIMS,
        ResourceClaimTemplate(Box<ResourceClaimTemplate>) = RESOURCE_CLAIM_TEMPLATES,
        DeviceTaintRule(Box<DeviceTaintRule>) = DEVICE_TAINT_RULES,
    }
}
