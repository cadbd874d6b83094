//! Dynamic resource allocation (`resource.k8s.io`): devices that drivers publish, classes of devices, and claims.
//!
//! The types have the shape of `resource.k8s.io/v1`; [`crate::read`] converts objects of the earlier versions.

mod claim;
mod class;
mod decision;
mod slice;
mod status;

use serde::{Deserialize, Serialize};

pub use self::claim::*;
pub use self::class::*;
pub use self::decision::*;
pub use self::slice::*;
pub use self::status::*;
use super::ObjectMeta;
use crate::resource::{self, Resource};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DeviceKind {
    ResourceSlice,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    DeviceTaintRule,
}

impl DeviceKind {
    pub const ALL: [DeviceKind; 5] = [
        DeviceKind::ResourceSlice,
        DeviceKind::DeviceClass,
        DeviceKind::ResourceClaim,
        DeviceKind::ResourceClaimTemplate,
        DeviceKind::DeviceTaintRule,
    ];

    /// The resource that objects of this kind belong to.
    pub fn resource(self) -> Resource {
        match self {
            DeviceKind::ResourceSlice => resource::RESOURCE_SLICES,
            DeviceKind::DeviceClass => resource::DEVICE_CLASSES,
            DeviceKind::ResourceClaim => resource::RESOURCE_CLAIMS,
            DeviceKind::ResourceClaimTemplate => resource::RESOURCE_CLAIM_TEMPLATES,
            DeviceKind::DeviceTaintRule => resource::DEVICE_TAINT_RULES,
        }
    }
}

/// An object that decides where pods with claims of devices may run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DeviceObject {
    ResourceSlice(Box<ResourceSlice>),
    DeviceClass(Box<DeviceClass>),
    ResourceClaim(Box<ResourceClaim>),
    ResourceClaimTemplate(Box<ResourceClaimTemplate>),
    DeviceTaintRule(Box<DeviceTaintRule>),
}

impl DeviceObject {
    pub fn kind(&self) -> DeviceKind {
        match self {
            DeviceObject::ResourceSlice(_) => DeviceKind::ResourceSlice,
            DeviceObject::DeviceClass(_) => DeviceKind::DeviceClass,
            DeviceObject::ResourceClaim(_) => DeviceKind::ResourceClaim,
            DeviceObject::ResourceClaimTemplate(_) => DeviceKind::ResourceClaimTemplate,
            DeviceObject::DeviceTaintRule(_) => DeviceKind::DeviceTaintRule,
        }
    }

    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            DeviceObject::ResourceSlice(o) => &o.metadata,
            DeviceObject::DeviceClass(o) => &o.metadata,
            DeviceObject::ResourceClaim(o) => &o.metadata,
            DeviceObject::ResourceClaimTemplate(o) => &o.metadata,
            DeviceObject::DeviceTaintRule(o) => &o.metadata,
        }
    }

    /// The metadata, to change it.
    pub fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            DeviceObject::ResourceSlice(o) => &mut o.metadata,
            DeviceObject::DeviceClass(o) => &mut o.metadata,
            DeviceObject::ResourceClaim(o) => &mut o.metadata,
            DeviceObject::ResourceClaimTemplate(o) => &mut o.metadata,
            DeviceObject::DeviceTaintRule(o) => &mut o.metadata,
        }
    }
}
