//! DeviceClasses, ResourceClaims, their templates and ResourceSlices.

use berth_schema::resource::{RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource};

use crate::kinds::prelude::*;

pub static CLAIM: Typed = claim(&RESOURCE_CLAIMS);
pub static CLAIM_TEMPLATE: Typed = claim(&RESOURCE_CLAIM_TEMPLATES);

const fn claim(resource: &'static Resource) -> Typed {
    Typed {
        defaults: &[
            ("DeviceSubRequest", "allocationMode", r#""ExactCount""#),
            ("DeviceToleration", "operator", r#""Equal""#),
            ("ExactDeviceRequest", "allocationMode", r#""ExactCount""#),
        ],
        enums: &[
            ("DeviceSubRequest", "allocationMode", &["All", "ExactCount"]),
            ("DeviceToleration", "operator", &["Equal", "Exists"]),
            ("ExactDeviceRequest", "allocationMode", &["All", "ExactCount"]),
        ],
        immutable: &["/spec"],
        ..Typed::new(resource)
    }
}

/// A slice stays with its driver, its pool and its node: a node writes only its own.
pub static SLICE: Typed = Typed {
    enums: &[("DeviceTaint", "effect", &["NoExecute", "NoSchedule", "None"])],
    immutable: &["/spec/driver", "/spec/pool/name", "/spec/nodeName"],
    ..Typed::new(&RESOURCE_SLICES)
};

pub const CLAIM_COLUMNS: &[Column] = &[
    NAME,
    Column::text("State", "Whether it is allocated and reserved.", |row| {
        let allocation = match row.at("/status/allocation") {
            Some(_) => Some("allocated"),
            None => (!row.is_deleted()).then_some("pending"),
        };
        let reserved = (!row.list("/status/reservedFor").is_empty()).then_some("reserved");
        let states = [row.is_deleted().then_some("deleted"), allocation, reserved];
        states.into_iter().flatten().collect::<Vec<_>>().join(",").into()
    }),
    AGE,
];

pub const SLICE_COLUMNS: &[Column] = &[
    NAME,
    Column::field("Node", "The node of the devices.", "/spec/nodeName").or(UNSET),
    Column::field("Driver", "The driver of the devices.", "/spec/driver"),
    Column::field("Pool", "The pool of the devices.", "/spec/pool/name"),
    AGE,
];
