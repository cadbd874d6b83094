//! CSIDrivers, CSINodes, CSIStorageCapacities and VolumeAttachments.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::volume::{CLASS, amount};
use crate::strategy::fields::{
    Causes, default, default_text, is_empty, items, object, quantity, repeated, text,
};
use crate::strategy::{Context, Strategy};
use crate::table::columns::{AGE, Column, NAME, Printer};
use crate::table::row::UNSET;

const FS_GROUP_POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLE_MODES: [&str; 2] = ["Ephemeral", "Persistent"];

pub struct CsiDriver;

impl Strategy for CsiDriver {
    fn default(&self, value: &mut Value) {
        let Some(spec) = object(value, "spec") else { return };
        default(spec, "attachRequired", true);
        for field in ["podInfoOnMount", "requiresRepublish", "seLinuxMount", "storageCapacity"] {
            default(spec, field, false);
        }
        default_text(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        if spec.get("volumeLifecycleModes").is_none_or(is_empty) {
            spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
        }
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let spec = &value["spec"];
        let policy = &spec["fsGroupPolicy"];
        if !FS_GROUP_POLICIES.contains(&policy.as_str().unwrap_or_default()) {
            causes.not_supported("spec.fsGroupPolicy", policy, &FS_GROUP_POLICIES);
        }
        for mode in items(spec, "volumeLifecycleModes") {
            if !LIFECYCLE_MODES.contains(&mode.as_str().unwrap_or_default()) {
                causes.not_supported("spec.volumeLifecycleModes", mode, &LIFECYCLE_MODES);
            }
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, causes: &mut Causes) {
        for field in ["attachRequired", "volumeLifecycleModes"] {
            if new["spec"][field] != old["spec"][field] {
                causes.immutable(&format!("spec.{field}"), &new["spec"][field]);
            }
        }
    }
}

pub struct CsiNode;

impl Strategy for CsiNode {
    fn default(&self, value: &mut Value) {
        if let Some(spec) = object(value, "spec") {
            default(spec, "drivers", json!([]));
        }
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let drivers = items(&value["spec"], "drivers");
        for (i, driver) in drivers.iter().enumerate() {
            let field = |name: &str| format!("spec.drivers[{i}].{name}");
            for name in ["name", "nodeID"] {
                if text(driver, &format!("/{name}")).is_empty() {
                    causes.required(&field(name), "");
                }
            }
            causes.not_negative(&field("allocatable.count"), &driver["allocatable"]["count"]);
        }
        for i in repeated(drivers.iter().map(|driver| text(driver, "/name"))) {
            causes.duplicate(&format!("spec.drivers[{i}].name"), &drivers[i]["name"]);
        }
    }

    /// A driver may come and go, and its limit may change.
    fn validate_update(&self, new: &Value, old: &Value, causes: &mut Causes) {
        let before: HashMap<_, _> =
            items(&old["spec"], "drivers").iter().map(|driver| (text(driver, "/name"), driver)).collect();
        for driver in items(&new["spec"], "drivers") {
            let Some(before) = before.get(text(driver, "/name")) else { continue };
            for field in ["nodeID", "topologyKeys"] {
                if driver[field] != before[field] {
                    causes.immutable(&format!("spec.drivers.{field}"), &driver[field]);
                }
            }
        }
    }
}

pub struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        if text(value, "/storageClassName").is_empty() {
            causes.required("storageClassName", "");
        }
        for field in ["capacity", "maximumVolumeSize"] {
            let amount = &value[field];
            if quantity(amount).is_some_and(|amount| amount.is_negative()) {
                causes.invalid(field, amount, "must be greater than or equal to 0");
            } else if !amount.is_null() && quantity(amount).is_none() {
                causes.invalid(field, amount, "must be a quantity, such as 5Gi");
            }
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, causes: &mut Causes) {
        for field in ["nodeTopology", "storageClassName"] {
            if new[field] != old[field] {
                causes.immutable(field, &new[field]);
            }
        }
    }
}

pub struct VolumeAttachment;

impl Strategy for VolumeAttachment {
    fn prepare_create(&self, _context: &Context<'_>, value: &mut Value) {
        value["status"] = json!({"attached": false});
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        for field in ["attacher", "nodeName"] {
            if text(&value["spec"], &format!("/{field}")).is_empty() {
                causes.required(&format!("spec.{field}"), "");
            }
        }
        let source = &value["spec"]["source"];
        match (is_empty(&source["persistentVolumeName"]), is_empty(&source["inlineVolumeSpec"])) {
            (true, true) => {
                let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
                causes.required("spec.source", why);
            }
            (false, false) => {
                let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
                causes.forbidden("spec.source", why);
            }
            _ => {}
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, causes: &mut Causes) {
        if new["spec"] != old["spec"] {
            causes.immutable("spec", &new["spec"]);
        }
    }
}

pub static DRIVER_COLUMNS: Printer = Printer::new(
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

pub static NODE_COLUMNS: Printer =
    Printer::new(&[NAME, Column::integer("Drivers", "How many drivers the node has."), AGE], |row| {
        vec![row.name(), row.count("/spec/drivers").into(), row.age()]
    });

pub static CAPACITY_COLUMNS: Printer =
    Printer::new(&[NAME, CLASS, Column::text("Capacity", "What is left in this topology."), AGE], |row| {
        vec![row.name(), row.text_or("/storageClassName", ""), amount(row, "/capacity"), row.age()]
    });

pub static ATTACHMENT_COLUMNS: Printer = Printer::new(
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
