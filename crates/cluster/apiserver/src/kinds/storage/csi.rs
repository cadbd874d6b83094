//! CSIDrivers, CSINodes, CSIStorageCapacities and VolumeAttachments.

use std::collections::HashMap;

use super::volume::CLASS;
use crate::kinds::prelude::*;
use crate::strategy::metadata::count_generation;

pub struct CsiDriver;

impl Strategy for CsiDriver {
    fn prepare_update(&self, _context: &Context<'_>, new: &mut Value, old: &Value) {
        self.default(new);
        count_generation(new, old);
    }

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
        let policies = ["File", "None", "ReadWriteOnceWithFSType"];
        causes.one_of("spec.fsGroupPolicy", &spec["fsGroupPolicy"], &policies);
        for mode in items(spec, "volumeLifecycleModes") {
            causes.one_of("spec.volumeLifecycleModes", mode, &["Ephemeral", "Persistent"]);
        }
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        for field in ["attachRequired", "volumeLifecycleModes"] {
            causes.unchanged(&format!("spec.{field}"), &new["spec"][field], &old["spec"][field]);
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
                causes.not_empty(&field(name), &driver[name]);
            }
            causes.not_negative(&field("allocatable.count"), &driver["allocatable"]["count"]);
        }
        for i in repeated(drivers.iter().map(|driver| text(driver, "/name"))) {
            causes.duplicate(&format!("spec.drivers[{i}].name"), &drivers[i]["name"]);
        }
    }

    /// A driver may come and go, and its limit may change.
    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        let before: HashMap<_, _> =
            items(&old["spec"], "drivers").iter().map(|driver| (text(driver, "/name"), driver)).collect();
        for driver in items(&new["spec"], "drivers") {
            let Some(before) = before.get(text(driver, "/name")) else { continue };
            for field in ["nodeID", "topologyKeys"] {
                causes.unchanged(&format!("spec.drivers.{field}"), &driver[field], &before[field]);
            }
        }
    }
}

pub struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        causes.not_empty("storageClassName", &value["storageClassName"]);
        validate_label_selector("nodeTopology", &value["nodeTopology"], causes);
        for field in ["capacity", "maximumVolumeSize"] {
            let amount = &value[field];
            if quantity(amount).is_some_and(|amount| amount.is_negative()) {
                causes.invalid(field, amount, "must be greater than or equal to 0");
            } else if !amount.is_null() && quantity(amount).is_none() {
                causes.invalid(field, amount, "must be a quantity, such as 5Gi");
            }
        }
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        for field in ["nodeTopology", "storageClassName"] {
            causes.unchanged(field, &new[field], &old[field]);
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
            causes.not_empty(&format!("spec.{field}"), &value["spec"][field]);
        }
        let source = &value["spec"]["source"];
        let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        match (is_empty(&source["persistentVolumeName"]), is_empty(&source["inlineVolumeSpec"])) {
            (true, true) => causes.required("spec.source", why),
            (false, false) => causes.forbidden("spec.source", why),
            _ => {}
        }
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        causes.unchanged("spec", &new["spec"], &old["spec"]);
    }
}

pub const DRIVER_COLUMNS: &[Column] = &[
    NAME,
    Column::flag(
        "AttachRequired",
        "Whether volumes are attached before they are mounted.",
        "/spec/attachRequired",
    ),
    Column::flag(
        "PodInfoOnMount",
        "Whether the driver gets information about the pod.",
        "/spec/podInfoOnMount",
    ),
    Column::flag(
        "StorageCapacity",
        "Whether the scheduler considers published capacities.",
        "/spec/storageCapacity",
    ),
    Column::text("TokenRequests", "Audiences of the tokens that the driver gets.", |row| {
        let requests = row.list("/spec/tokenRequests").iter();
        let audiences: Vec<_> = requests.filter_map(|request| request["audience"].as_str()).collect();
        if audiences.join(",").is_empty() { UNSET.into() } else { audiences.join(",").into() }
    }),
    Column::flag(
        "RequiresRepublish",
        "Whether volumes are published periodically.",
        "/spec/requiresRepublish",
    ),
    Column::text("Modes", "Lifecycle modes of the volumes.", |row| {
        let modes = row.texts("/spec/volumeLifecycleModes");
        if modes.is_empty() { UNSET.into() } else { modes.join(",").into() }
    }),
    AGE,
];

pub const NODE_COLUMNS: &[Column] =
    &[NAME, Column::count("Drivers", "How many drivers the node has.", "/spec/drivers"), AGE];

pub const CAPACITY_COLUMNS: &[Column] = &[
    NAME,
    CLASS.with(|row| row.text_or("/storageClassName", "")),
    Column::field("Capacity", "What is left in this topology.", "/capacity"),
    AGE,
];

pub const ATTACHMENT_COLUMNS: &[Column] = &[
    NAME,
    Column::field("Attacher", "Driver that attaches the volume.", "/spec/attacher"),
    Column::field("PV", "Volume that is attached.", "/spec/source/persistentVolumeName"),
    Column::field("Node", "Node the volume is attached to.", "/spec/nodeName"),
    Column::flag("Attached", "Whether it is attached.", "/status/attached"),
    AGE,
];
