//! PersistentVolumes.

use super::volume::{
    ACCESS_MODES_COLUMN, ATTRIBUTES, CAPACITY, CLASS, STORAGE, VOLUME_MODE, access_modes, phase,
    validate_driver_name,
};
use crate::kinds::prelude::*;
use crate::strategy::volume_claim;

/// Keeps a volume until no claim is bound to it. The PV protection controller removes it.
const PROTECTION: &str = "kubernetes.io/pv-protection";
/// The fields of `spec` that name a storage.
const SOURCES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "hostPath",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

pub struct PersistentVolume;

impl Strategy for PersistentVolume {
    fn default(&self, value: &mut Value) {
        if let Some(spec) = object(value, "spec") {
            default_text(spec, "persistentVolumeReclaimPolicy", "Retain");
            default(spec, "volumeMode", "Filesystem");
            if let Some(source) = spec.get_mut("hostPath").and_then(Value::as_object_mut) {
                default_text(source, "type", "");
            }
        }
    }

    fn prepare_create(&self, _context: &Context<'_>, value: &mut Value) {
        value["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now()});
        add_finalizer(value, "metadata", PROTECTION);
    }

    fn prepare_update(&self, context: &Context<'_>, new: &mut Value, old: &Value) {
        self.default(new);
        if let Some(status) = object(new, "status") {
            default_text(status, "phase", "Pending");
        }
        // A client may set the time.
        let time = &old["status"]["lastPhaseTransitionTime"];
        let given = &new["status"]["lastPhaseTransitionTime"];
        if context.subresource == "status" && (given.is_null() || given == time) {
            let is_same = new["status"]["phase"] == old["status"]["phase"];
            let time = if is_same { time.clone() } else { now().into() };
            if !time.is_null() {
                new["status"]["lastPhaseTransitionTime"] = time;
            }
        }
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let spec = &value["spec"];
        volume_claim::validate_spec(spec, "spec", "", causes);
        let none = Map::new();
        let capacity = spec["capacity"].as_object().unwrap_or(&none);
        if capacity.is_empty() {
            causes.required("spec.capacity", "");
        }
        if capacity.len() > 1 || !capacity.contains_key(STORAGE) {
            let capacity = Value::Object(capacity.clone());
            causes.not_supported("spec.capacity", &capacity, &[STORAGE]);
        }
        for (name, amount) in capacity {
            if let Some(amount) = quantity(amount).filter(|amount| amount.is_negative()) {
                let why = "must be a valid resource quantity";
                causes.invalid(&format!("spec.capacity[{name}]"), &amount.units().into(), why);
            }
            volume_claim::validate_amount(&format!("spec.capacity[{name}]"), amount, causes);
        }
        let policy = &spec["persistentVolumeReclaimPolicy"];
        causes.one_of("spec.persistentVolumeReclaimPolicy", policy, &["Delete", "Recycle", "Retain"]);
        validate_source(spec, causes);
        let affinity = &spec["nodeAffinity"];
        if affinity.is_object() && affinity["required"].is_null() {
            causes.required("spec.nodeAffinity.required", "must specify required node constraints");
        } else if affinity.is_object() && is_empty(&affinity["required"]["nodeSelectorTerms"]) {
            let why = "must have at least one node selector term";
            causes.required("spec.nodeAffinity.required.nodeSelectorTerms", why);
        } else {
            validate_node_selector(&affinity["required"], "spec.nodeAffinity.required", causes);
        }
    }

    fn validate_update(&self, context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        let (new, old) = (&new["spec"], &old["spec"]);
        if SOURCES.iter().any(|source| new[source] != old[source]) {
            let why = "spec.persistentvolumesource is immutable after creation";
            causes.forbidden("spec.persistentvolumesource", why);
        }
        causes.unchanged("volumeMode", &new["volumeMode"], &old["volumeMode"]);
        // Without the gate, it may be set once.
        let is_fixed = !context.feature_gates.mutable_pv_node_affinity && !old["nodeAffinity"].is_null();
        if is_fixed && new["nodeAffinity"] != old["nodeAffinity"] {
            let why = "field is immutable, except for updating from beta label to GA";
            causes.invalid("nodeAffinity", &new["nodeAffinity"], why);
        }
    }
}

fn validate_source(spec: &Value, causes: &mut Causes) {
    let given: Vec<&str> = SOURCES.into_iter().filter(|source| !spec[source].is_null()).collect();
    if given.is_empty() {
        causes.required("spec", "must specify a volume type");
    }
    for more in given.iter().skip(1) {
        causes.forbidden(&format!("spec.{more}"), "may not specify more than 1 volume type");
    }
    for (source, field) in
        [("csi", "driver"), ("csi", "volumeHandle"), ("local", "path"), ("hostPath", "path"), ("nfs", "path")]
    {
        if given.contains(&source) && text(&spec[source], &format!("/{field}")).is_empty() {
            causes.required(&format!("spec.{source}.{field}"), "");
        }
    }
    if given.contains(&"csi") && !is_empty(&spec["csi"]["driver"]) {
        validate_driver_name("spec.csi.driver", &spec["csi"]["driver"], causes);
    }
    if given.contains(&"local") && spec["nodeAffinity"].is_null() {
        causes.required("spec.nodeAffinity", "Local volume requires node affinity");
    }
    if spec["hostPath"]["path"] == "/" && spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        let why = "may not be 'recycle' for a hostPath of '/'";
        causes.forbidden("spec.persistentVolumeReclaimPolicy", why);
    }
}

pub const COLUMNS: &[Column] = &[
    NAME,
    CAPACITY.with(|row| row.text_or("/spec/capacity/storage", "")),
    ACCESS_MODES_COLUMN.with(|row| access_modes(row, "/spec/accessModes")),
    Column::field(
        "Reclaim Policy",
        "What happens to the volume when its claim is gone.",
        "/spec/persistentVolumeReclaimPolicy",
    ),
    Column::text("Status", "Phase of the volume.", phase),
    Column::text("Claim", "Claim the volume is bound to.", |row| {
        match (row.text("/spec/claimRef/namespace"), row.text("/spec/claimRef/name")) {
            (namespace, Some(name)) => format!("{}/{name}", namespace.unwrap_or_default()).into(),
            _ => "".into(),
        }
    }),
    CLASS,
    ATTRIBUTES,
    Column::field("Reason", "Why the volume failed.", "/status/reason"),
    AGE,
    VOLUME_MODE,
];

#[cfg(test)]
mod tests {
    use berth_api::feature_gates::FeatureGates;

    use super::*;
    use crate::request::User;
    use crate::strategy::fake_cluster::FakeCluster;

    fn volume(change: Value) -> Value {
        let mut volume = json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "csi": {"driver": "d", "volumeHandle": "h"}}});
        PersistentVolume.default(&mut volume);
        json_patch::merge(&mut volume["spec"], &change);
        volume
    }

    #[test]
    fn the_source_of_a_volume_is_immutable() {
        let old = volume(json!({}));
        let fields = |new: Value| {
            let mut causes = Causes::default();
            let (cluster, user) = (FakeCluster::default(), User::admin());
            PersistentVolume.validate_update(&cluster.context(&user), &new, &old, &mut causes);
            causes.0.into_iter().map(|cause| cause.field).collect::<Vec<_>>()
        };
        assert_eq!(fields(volume(json!({"csi": {"volumeHandle": "i"}}))), ["spec.persistentvolumesource"]);
        assert_eq!(fields(volume(json!({"volumeMode": "Block"}))), ["volumeMode"]);
        let grown = json!({"capacity": {"storage": "2Gi"}, "claimRef": {"name": "c"}, "nodeAffinity": {"required": {}}});
        assert_eq!(fields(volume(grown)), [""; 0]);
    }

    /// Enhancement 5381: with the gate, the node affinity can be changed and removed; without, it is set once.
    #[test]
    fn the_node_affinity_of_a_volume_is_mutable_with_its_gate() {
        let in_zone = |zone: &str| {
            let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
            volume(json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}))
        };
        let (cluster, user) = (FakeCluster::default(), User::admin());
        for mutable_pv_node_affinity in [false, true] {
            let feature_gates = FeatureGates { mutable_pv_node_affinity, ..FeatureGates::default() };
            let context = Context { feature_gates, ..cluster.context(&user) };
            let is_accepted = |new: &Value, old: &Value| {
                let mut causes = Causes::default();
                PersistentVolume.validate_update(&context, new, old, &mut causes);
                causes.0.is_empty()
            };
            assert!(is_accepted(&in_zone("a"), &volume(json!({}))));
            assert_eq!(is_accepted(&in_zone("b"), &in_zone("a")), mutable_pv_node_affinity);
            assert_eq!(is_accepted(&volume(json!({})), &in_zone("a")), mutable_pv_node_affinity);
        }
    }

    #[test]
    fn sources_are_validated() {
        for (change, field) in [
            (json!({"csi": null}), "spec"),
            (json!({"csi": {"driver": ""}}), "spec.csi.driver"),
            (json!({"nfs": {"path": "/", "server": "s"}}), "spec.nfs"),
            (json!({"csi": null, "local": {"path": "/x"}}), "spec.nodeAffinity"),
        ] {
            let mut causes = Causes::default();
            validate_source(&volume(change.clone())["spec"], &mut causes);
            let fields: Vec<_> = causes.0.iter().map(|cause| cause.field.as_str()).collect();
            assert_eq!(fields, [field], "{change}");
        }
    }
}
