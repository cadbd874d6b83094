//! What PersistentVolumes, claims and the CSI kinds have in common.

use std::cmp::Ordering;

use berth_api::syntax;

pub use berth_api::object::volume::STORAGE;

use crate::kinds::prelude::*;

/// Compares two amounts; those that cannot be read are equal.
pub fn compare(a: &Value, b: &Value) -> Ordering {
    match (quantity(a), quantity(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => Ordering::Equal,
    }
}

/// The name of a CSI driver, which may have capital letters.
pub fn validate_driver_name(path: &str, name: &Value, causes: &mut Causes) {
    let text = text(name, "");
    if text.is_empty() {
        return causes.required(path, "");
    }
    if text.len() > 63 {
        causes.too_long(path, 63);
    }
    causes.problems(path, name, syntax::dns_subdomain(&text.to_lowercase()));
}

/// The cells say of what the size is.
pub const CAPACITY: Column = Column::field("Capacity", "Size of the volume.", "");

pub const ACCESS_MODES_COLUMN: Column = Column::field("Access Modes", "How the volume can be mounted.", "");

/// Older objects have their storage class as an annotation.
pub const CLASS: Column = Column::text("StorageClass", "Storage class the volume is of.", |row| {
    let annotation = row.text("/metadata/annotations/volume.beta.kubernetes.io~1storage-class");
    annotation.or_else(|| row.text("/spec/storageClassName")).unwrap_or_default().into()
});

pub const ATTRIBUTES: Column = Column::field(
    "VolumeAttributesClass",
    "Volume attributes class the volume is of.",
    "/spec/volumeAttributesClassName",
)
.or(UNSET);

pub const VOLUME_MODE: Column =
    Column::field("VolumeMode", "Whether it is a file system or a block device.", "/spec/volumeMode")
        .or(UNSET)
        .wide();

pub fn phase(row: &Row<'_>) -> Value {
    if row.is_deleted() { "Terminating".into() } else { row.text_or("/status/phase", "") }
}

pub fn access_modes(row: &Row<'_>, pointer: &str) -> Value {
    let modes = row.list(pointer);
    let each: Vec<&str> = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .into_iter()
    .filter(|(mode, _)| modes.iter().any(|m| m == mode))
    .map(|(_, short)| short)
    .collect();
    each.join(",").into()
}
