//! CSIDrivers, CSINodes, CSIStorageCapacities and VolumeAttachments.

use std::collections::HashMap;

use berth_api::syntax;

use super::volume::{CLASS, validate_driver_name};
use crate::kinds::prelude::*;
use crate::kinds::scheduling::validate_declared_driver;
use crate::strategy::metadata::count_generation;

/// How long the name of a node may be that a driver gives it.
const MAX_NODE_ID: usize = 256;

pub struct CsiDriver;

impl Strategy for CsiDriver {
    fn prepare_create(&self, context: &Context<'_>, value: &mut Value) {
        if context.feature_gates.is_on("VolumeLimitScaling")
            && let Some(spec) = object(value, "spec")
        {
            default(spec, "preventPodSchedulingIfMissing", false);
        }
    }

    fn prepare_update(&self, context: &Context<'_>, new: &mut Value, old: &Value) {
        self.default(new);
        self.prepare_create(context, new);
        count_generation(new, old);
    }

    fn default(&self, value: &mut Value) {
        let Some(spec) = object(value, "spec") else { return };
        default(spec, "attachRequired", true);
        for field in ["podInfoOnMount", "requiresRepublish", "seLinuxMount", "storageCapacity"] {
            default(spec, field, false);
        }
        default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        if spec.get("volumeLifecycleModes").is_none_or(is_empty) {
            spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
        }
    }

    fn warnings(&self, value: &Value) -> Vec<String> {
        let spec = &value["spec"];
        let is_unset = !is_empty(&spec["tokenRequests"]) && spec["serviceAccountTokenInSecrets"].is_null();
        let warning = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible \
                       logging of tokens in volume attributes";
        is_unset.then(|| warning.to_owned()).into_iter().collect()
    }

    fn update_warnings(&self, _context: &Context<'_>, new: &Value, old: &Value) -> Vec<String> {
        let is_same = new["spec"]["tokenRequests"] == old["spec"]["tokenRequests"];
        if is_same { Vec::new() } else { self.warnings(new) }
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let spec = &value["spec"];
        let policies = ["File", "None", "ReadWriteOnceWithFSType"];
        causes.one_of("spec.fsGroupPolicy", &spec["fsGroupPolicy"], &policies);
        for mode in items(spec, "volumeLifecycleModes") {
            causes.one_of("spec.volumeLifecycleModes", mode, &["Persistent", "Ephemeral"]);
        }
        let requests = items(spec, "tokenRequests");
        for (i, request) in requests.iter().enumerate() {
            let seconds = &request["expirationSeconds"];
            if seconds.as_i64().is_some_and(|seconds| seconds < 600) {
                let why = "may not specify a duration less than 10 minutes";
                causes.invalid(&format!("spec.tokenRequests[{i}].expirationSeconds"), seconds, why);
            }
        }
        for i in repeated(requests.iter().map(|request| text(request, "/audience"))) {
            causes.duplicate(&format!("spec.tokenRequests[{i}].audience"), &requests[i]["audience"]);
        }
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        for (field, path) in
            [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
        {
            causes.unchanged(&format!("spec.{path}"), &new["spec"][field], &old["spec"][field]);
        }
    }
}

pub struct CsiNode;

impl Strategy for CsiNode {
    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let drivers = items(&value["spec"], "drivers");
        for (i, driver) in drivers.iter().enumerate() {
            let field = |name: &str| format!("spec.drivers[{i}].{name}");
            validate_driver_name(&field("name"), &driver["name"], causes);
            causes.not_empty(&field("nodeID"), &driver["nodeID"]);
            if text(driver, "/nodeID").len() > MAX_NODE_ID {
                let why = format!("must be {MAX_NODE_ID} characters or less");
                causes.invalid(&field("nodeID"), &driver["nodeID"], &why);
            }
            // Of keys, kube-apiserver names the driver.
            let path = format!("spec.drivers[{i}]");
            let keys = items(driver, "topologyKeys");
            for j in repeated(keys) {
                causes.duplicate(&path, &keys[j]);
            }
            for key in keys {
                if is_empty(key) {
                    causes.required(&path, "");
                }
                causes.problems(&path, key, syntax::label_key(text(key, "")));
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
            if ["nodeID", "topologyKeys"].iter().any(|field| driver[field] != before[field]) {
                causes.immutable("spec.drivers", driver);
            }
        }
    }
}

pub struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let class = text(value, "/storageClassName");
        causes.problems("storageClassName", &class.into(), syntax::dns_subdomain(class));
        validate_label_selector("nodeTopology", &value["nodeTopology"], causes);
        // kube-apiserver looks at no other amount.
        let capacity = &value["capacity"];
        if quantity(capacity).is_some_and(|amount| amount.is_negative()) {
            causes.invalid("capacity", capacity, "must be greater than or equal to 0");
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
        let spec = &value["spec"];
        let source = &spec["source"];
        let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        match (source["persistentVolumeName"].is_null(), source["inlineVolumeSpec"].is_null()) {
            (true, true) => causes.required("spec.source", why),
            (false, false) => causes.forbidden("spec.source", why),
            (false, true) => {
                let (path, name) =
                    ("spec.source.persistentVolumeName", text(source, "/persistentVolumeName"));
                if name.is_empty() {
                    causes.required(path, "must specify non empty persistentVolumeName");
                }
                causes.problems(path, &name.into(), syntax::dns_subdomain(name));
            }
            (true, false) => {}
        }
        let node = text(spec, "/nodeName");
        causes.problems("spec.nodeName", &node.into(), syntax::dns_subdomain(node));
        causes.not_empty("spec.attacher", &spec["attacher"]);
        validate_declared_driver("spec.attacher", &spec["attacher"], causes);
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
