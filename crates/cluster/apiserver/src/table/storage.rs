//! Volumes, claims and storage classes.

use serde_json::Value;

use super::columns::{AGE, Column, NAME, Printer};
use super::row::{Row, UNSET};

const CAPACITY: Column = Column::text("Capacity", "Size of the volume.");
const ACCESS_MODES: Column = Column::text("Access Modes", "How the volume can be mounted.");
const CLASS: Column = Column::text("StorageClass", "Storage class the volume is of.");
const ATTRIBUTES: Column = Column::text("VolumeAttributesClass", "Volume attributes class the volume is of.");
const VOLUME_MODE: Column =
    Column::text("VolumeMode", "Whether it is a file system or a block device.").wide();

pub(super) static PERSISTENT_VOLUME: Printer = Printer::new(
    &[
        NAME,
        CAPACITY,
        ACCESS_MODES,
        Column::text("Reclaim Policy", "What becomes of the volume when its claim is gone."),
        Column::text("Status", "Phase of the volume."),
        Column::text("Claim", "Claim the volume is bound to."),
        CLASS,
        ATTRIBUTES,
        Column::text("Reason", "Why the volume failed."),
        AGE,
        VOLUME_MODE,
    ],
    |row| {
        let claim = match (row.text("/spec/claimRef/namespace"), row.text("/spec/claimRef/name")) {
            (namespace, Some(name)) => format!("{}/{name}", namespace.unwrap_or_default()),
            _ => String::new(),
        };
        vec![
            row.name(),
            amount(row, "/spec/capacity/storage"),
            access_modes(row, "/spec/accessModes"),
            row.text_or("/spec/persistentVolumeReclaimPolicy", ""),
            phase(row),
            claim.into(),
            class(row),
            row.text_or("/spec/volumeAttributesClassName", UNSET),
            row.text_or("/status/reason", ""),
            row.age(),
            row.text_or("/spec/volumeMode", UNSET),
        ]
    },
);

pub(super) static PERSISTENT_VOLUME_CLAIM: Printer = Printer::new(
    &[
        NAME,
        Column::text("Status", "Phase of the claim."),
        Column::text("Volume", "Volume the claim is bound to."),
        CAPACITY,
        ACCESS_MODES,
        CLASS,
        ATTRIBUTES,
        AGE,
        VOLUME_MODE,
    ],
    |row| {
        let bound = row.text("/spec/volumeName");
        let when_bound = |cell: Value| if bound.is_some() { cell } else { "".into() };
        vec![
            row.name(),
            phase(row),
            bound.unwrap_or_default().into(),
            when_bound(amount(row, "/status/capacity/storage")),
            when_bound(access_modes(row, "/status/accessModes")),
            class(row),
            row.text_or("/spec/volumeAttributesClassName", UNSET),
            row.age(),
            row.text_or("/spec/volumeMode", UNSET),
        ]
    },
);

pub(super) static STORAGE_CLASS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Provisioner", "Who makes the volumes."),
        Column::text("ReclaimPolicy", "What becomes of a volume when its claim is gone."),
        Column::text("VolumeBindingMode", "When a volume is bound."),
        Column::text("AllowVolumeExpansion", "Whether volumes may grow."),
        AGE,
    ],
    |row| {
        let is_default = row
            .at("/metadata/annotations")
            .is_some_and(|annotations| annotations["storageclass.kubernetes.io/is-default-class"] == "true");
        let name = row.text("/metadata/name").unwrap_or_default();
        vec![
            if is_default { format!("{name} (default)").into() } else { name.into() },
            row.text_or("/provisioner", ""),
            row.text_or("/reclaimPolicy", "Delete"),
            row.text_or("/volumeBindingMode", "Immediate"),
            row.at("/allowVolumeExpansion").cloned().unwrap_or(Value::Bool(false)),
            row.age(),
        ]
    },
);

pub(super) static CSI_DRIVER: Printer = Printer::new(
    &[
        NAME,
        Column::text("AttachRequired", "Whether volumes are attached before they are mounted."),
        Column::text("PodInfoOnMount", "Whether the driver gets information about the pod."),
        Column::text("StorageCapacity", "Whether the scheduler considers published capacities."),
        Column::text("TokenRequests", "Audiences of the tokens that the driver gets."),
        Column::text("RequiresRepublish", "Whether volumes are published periodically."),
        Column::text("Modes", "Lifecycle modes of the volumes."),
        AGE,
    ],
    |row| {
        let flag = |field: &str| row.at(field).cloned().unwrap_or(Value::Bool(false));
        let texts = |field: &str| {
            let all: Vec<&str> = row.list(field).iter().filter_map(Value::as_str).collect();
            Value::from(if all.is_empty() { UNSET.to_owned() } else { all.join(",") })
        };
        let requests =
            row.list("/spec/tokenRequests").iter().filter_map(|request| request["audience"].as_str());
        let audiences = requests.collect::<Vec<_>>().join(",");
        vec![
            row.name(),
            flag("/spec/attachRequired"),
            flag("/spec/podInfoOnMount"),
            flag("/spec/storageCapacity"),
            if audiences.is_empty() { UNSET.into() } else { audiences.into() },
            flag("/spec/requiresRepublish"),
            texts("/spec/volumeLifecycleModes"),
            row.age(),
        ]
    },
);

pub(super) static CSI_NODE: Printer =
    Printer::new(&[NAME, Column::integer("Drivers", "How many drivers the node has."), AGE], |row| {
        vec![row.name(), row.count("/spec/drivers").into(), row.age()]
    });

pub(super) static CSI_STORAGE_CAPACITY: Printer =
    Printer::new(&[NAME, CLASS, Column::text("Capacity", "What is left in this topology."), AGE], |row| {
        vec![row.name(), row.text_or("/storageClassName", ""), amount(row, "/capacity"), row.age()]
    });

pub(super) static VOLUME_ATTACHMENT: Printer = Printer::new(
    &[
        NAME,
        Column::text("Attacher", "Driver that attaches the volume."),
        Column::text("PV", "Volume that is attached."),
        Column::text("Node", "Node the volume is attached to."),
        Column::text("Attached", "Whether it is attached."),
        AGE,
    ],
    |row| {
        vec![
            row.name(),
            row.text_or("/spec/attacher", ""),
            row.text_or("/spec/source/persistentVolumeName", ""),
            row.text_or("/spec/nodeName", ""),
            row.at("/status/attached").cloned().unwrap_or(Value::Bool(false)),
            row.age(),
        ]
    },
);

fn phase(row: &Row<'_>) -> Value {
    if row.is_deleted() { "Terminating".into() } else { row.text_or("/status/phase", "") }
}

fn amount(row: &Row<'_>, pointer: &str) -> Value {
    row.text_or(pointer, "")
}

/// The storage class. Older objects have it as an annotation.
fn class(row: &Row<'_>) -> Value {
    let annotation = row.text("/metadata/annotations/volume.beta.kubernetes.io~1storage-class");
    annotation.or_else(|| row.text("/spec/storageClassName")).unwrap_or_default().into()
}

fn access_modes(row: &Row<'_>, pointer: &str) -> Value {
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
