//! DeviceClasses, ResourceClaims, their templates and ResourceSlices.

use berth_schema::resource::{
    DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource,
};

use crate::strategy::typed::Typed;
use crate::table::columns::{AGE, Column, NAME, Printer};
use crate::table::row::UNSET;

pub static CLASS: Typed = Typed::new(&DEVICE_CLASSES);
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

pub static CLAIM_COLUMNS: Printer =
    Printer::new(&[NAME, Column::text("State", "Whether it is allocated and reserved."), AGE], |row| {
        let mut states = Vec::new();
        if row.is_deleted() {
            states.push("deleted");
        }
        match row.at("/status/allocation") {
            Some(_) => states.push("allocated"),
            None if !row.is_deleted() => states.push("pending"),
            None => {}
        }
        if !row.list("/status/reservedFor").is_empty() {
            states.push("reserved");
        }
        vec![row.name(), states.join(",").into(), row.age()]
    });

pub static SLICE_COLUMNS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Node", "The node of the devices."),
        Column::text("Driver", "The driver of the devices."),
        Column::text("Pool", "The pool of the devices."),
        AGE,
    ],
    |row| {
        vec![
            row.name(),
            row.text_or("/spec/nodeName", UNSET),
            row.text_or("/spec/driver", ""),
            row.text_or("/spec/pool/name", ""),
            row.age(),
        ]
    },
);
