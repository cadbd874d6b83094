//! Volumes, claims, their classes and CSI drivers.

mod class;
mod csi;
mod persistent_volume;
mod persistent_volume_claim;
mod volume;

use berth_schema::resource::*;

use crate::kinds::kind::kinds;

kinds! {
    PERSISTENT_VOLUME_CLAIMS: persistent_volume_claim::PersistentVolumeClaim, persistent_volume_claim::COLUMNS;
    PERSISTENT_VOLUMES: persistent_volume::PersistentVolume, persistent_volume::COLUMNS;
    CSI_DRIVERS: csi::CsiDriver, csi::DRIVER_COLUMNS, needs_version: true;
    CSI_NODES: csi::CsiNode, csi::NODE_COLUMNS, needs_version: true;
    CSI_STORAGE_CAPACITIES: csi::CsiStorageCapacity, csi::CAPACITY_COLUMNS, needs_version: true;
    STORAGE_CLASSES: class::StorageClass, class::STORAGE_COLUMNS;
    VOLUME_ATTACHMENTS: csi::VolumeAttachment, csi::ATTACHMENT_COLUMNS, needs_version: true;
    VOLUME_ATTRIBUTES_CLASSES: class::VolumeAttributesClass, class::ATTRIBUTES_COLUMNS;
}
