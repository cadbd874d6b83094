//! PersistentVolumeClaims.

use std::cmp::Reverse;

use berth_api::object::volume::STORAGE_CLASS_ANNOTATION as BETA_CLASS;
use berth_api::syntax;
use berth_schema::resource::{PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES};

use super::volume::{
    self, ACCESS_MODES_COLUMN, ATTRIBUTES, CAPACITY, CLASS, STORAGE, VOLUME_MODE, access_modes, phase,
};
use crate::kinds::prelude::*;
use crate::strategy::volume_claim::validate_claim;

/// Whether the older field can have this source.
fn is_of_claims(source: &Value) -> bool {
    let of = (text(source, "/apiGroup"), text(source, "/kind"));
    matches!(of, ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot"))
}

/// Keeps a claim while pods use it. The PVC protection controller removes it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

pub struct PersistentVolumeClaim;

/// How far the resize of a volume is.
const RESIZES: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

impl Strategy for PersistentVolumeClaim {
    fn default(&self, value: &mut Value) {
        if let Some(spec) = object(value, "spec") {
            default(spec, "volumeMode", "Filesystem");
        }
    }

    fn prepare_create(&self, context: &Context<'_>, value: &mut Value) {
        unify_sources(value, &Value::Null);
        value["status"] = json!({"phase": "Pending"});
        add_finalizer(value, "metadata", PROTECTION);
        let has_class = !value["spec"]["storageClassName"].is_null()
            || !value["metadata"]["annotations"][BETA_CLASS].is_null();
        if !has_class && let Some(class) = default_class(context) {
            value["spec"]["storageClassName"] = class.into();
        }
    }

    fn prepare_update(&self, context: &Context<'_>, new: &mut Value, old: &Value) {
        if context.subresource.is_empty() {
            self.default(new);
            unify_sources(new, old);
        }
        if let Some(status) = object(new, "status") {
            default_text(status, "phase", "Pending");
        }
    }

    fn validate_status(&self, new: &Value, _old: &Value, causes: &mut Causes) {
        let status = &new["status"];
        for field in ["capacity", "allocatedResources"] {
            for (name, amount) in status[field].as_object().into_iter().flatten() {
                if field == "allocatedResources" && name != STORAGE && !name.contains('/') {
                    causes.not_supported("status.allocatedResources", &name.as_str().into(), &[STORAGE]);
                }
                if let Some(amount) = quantity(amount).filter(|amount| amount.is_negative()) {
                    let why = "must be a valid resource quantity";
                    causes.invalid(&format!("status.{field}[{name}]"), &amount.units().into(), why);
                }
            }
        }
        for (name, resize) in status["allocatedResourceStatuses"].as_object().into_iter().flatten() {
            if !RESIZES.contains(&text(resize, "")) {
                let name = Value::from(name.as_str());
                causes.not_supported("status.allocatedResourceStatuses", &name, RESIZES);
            }
        }
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let spec = &value["spec"];
        validate_claim(spec, "spec", causes);
        let [source, reference] = ["dataSource", "dataSourceRef"].map(|field| {
            validate_source(&spec[field], &format!("spec.{field}"), causes);
            &spec[field]
        });
        let is_other = |field: &str| source[field] != reference[field];
        if source.is_null() || reference.is_null() {
        } else if !is_empty(&reference["namespace"]) {
            causes.invalid(
                "spec",
                &json!({}),
                "may not be specified when dataSourceRef.namespace is specified",
            );
        } else if ["apiGroup", "kind", "name"].into_iter().any(is_other) {
            causes.invalid("spec", &json!({}), "must match dataSourceRef");
        }
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        let is_bound = old["status"]["phase"] == "Bound";
        let capacity = &old["status"]["capacity"][STORAGE];
        let (new, old) = (&new["spec"], &old["spec"]);
        let mut allowed = new.clone();
        // Binding sets the volume, the default class is set later, and a bound claim may grow.
        for field in ["volumeName", "storageClassName"] {
            if is_empty(&old[field]) && !(field == "storageClassName" && old[field] == "") {
                take(&mut allowed, old, field);
            }
        }
        if is_bound {
            take(&mut allowed, old, "volumeAttributesClassName");
            if let Some(resources) = allowed.get_mut("resources") {
                resources["requests"][STORAGE] = size(old).clone();
            }
        }
        if allowed != *old {
            let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName \
                       for bound claims";
            causes.forbidden("spec", why);
        }
        let amount = |value: &Value| quantity(value).unwrap_or_default();
        if amount(size(new)) < amount(size(old)) && amount(size(new)) <= amount(capacity) {
            causes.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity");
        }
        causes.unchanged("volumeMode", &new["volumeMode"], &old["volumeMode"]);
    }

    /// A claim may grow if its class allows that.
    fn authorize_update(&self, context: &Context<'_>, new: &Value, old: &Value) -> ApiResult {
        if !context.subresource.is_empty() || !volume::compare(size(&new["spec"]), size(&old["spec"])).is_gt()
        {
            return Ok(());
        }
        let annotated = text(new, "/metadata/annotations/volume.beta.kubernetes.io~1storage-class");
        let class = if annotated.is_empty() { text(new, "/spec/storageClassName") } else { annotated };
        let class = context.lookup.get(&STORAGE_CLASSES, "", class);
        if class.is_some_and(|class| class.parsed()["allowVolumeExpansion"] == true) {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                   support resize";
        let name = text(new, "/metadata/name");
        Err(Status::forbidden(&PERSISTENT_VOLUME_CLAIMS, name, why))
    }
}

/// Of two fields for one thing, the one that is absent gets the value of the other. The older one is dropped where there was none, if it cannot
/// have its value.
fn unify_sources(value: &mut Value, old: &Value) {
    let Some(spec) = value["spec"].as_object_mut() else { return };
    let given = |spec: &Map<String, Value>, field: &str| spec.get(field).filter(|of| !of.is_null()).cloned();
    if old["spec"]["dataSource"].is_null() && given(spec, "dataSource").is_some_and(|of| !is_of_claims(&of)) {
        spec.remove("dataSource");
    }
    // A source in another namespace needs the gate CrossNamespaceVolumeDataSource, which is off.
    let is_elsewhere = spec.get("dataSourceRef").is_some_and(|of| !is_empty(&of["namespace"]));
    if is_elsewhere && is_empty(&old["spec"]["dataSourceRef"]["namespace"]) {
        spec.remove("dataSourceRef");
    }
    match (given(spec, "dataSource"), given(spec, "dataSourceRef")) {
        (Some(source), None) => drop(spec.insert("dataSourceRef".to_owned(), source)),
        (None, Some(mut reference)) if is_empty(&reference["namespace"]) => {
            reference.as_object_mut().map(|fields| fields.remove("namespace"));
            spec.insert("dataSource".to_owned(), reference);
        }
        _ => {}
    }
}

fn validate_source(source: &Value, path: &str, causes: &mut Causes) {
    if source.is_null() {
        return;
    }
    let (kind, group) = (text(source, "/kind"), text(source, "/apiGroup"));
    causes.not_empty(&format!("{path}.name"), &source["name"]);
    causes.not_empty(&format!("{path}.kind"), &source["kind"]);
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        causes.invalid(
            path,
            &kind.into(),
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        );
    } else if !group.is_empty() {
        causes.problems(&format!("{path}.apiGroup"), &group.into(), syntax::dns_subdomain(group));
    }
    let namespace = text(source, "/namespace");
    if !namespace.is_empty() {
        causes.problems(&format!("{path}.namespace"), &namespace.into(), syntax::dns_label(namespace));
    }
}

fn size(spec: &Value) -> &Value {
    &spec["resources"]["requests"][STORAGE]
}

/// The name of the default storage class: of several, the newest, and of these the first by name.
fn default_class(context: &Context<'_>) -> Option<String> {
    let classes = context.lookup.list(&STORAGE_CLASSES, None);
    let classes = classes.iter().map(|class| class.parsed());
    let defaults = classes.filter(|class| class["metadata"]["annotations"][IS_DEFAULT] == "true");
    let ranked = defaults.map(|class| {
        let of = |field: &str| text(&class["metadata"], field).to_owned();
        (Reverse(of("/creationTimestamp")), of("/name"))
    });
    ranked.min().map(|(_, name)| name)
}

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Status", "Phase of the claim.", phase),
    Column::field("Volume", "Volume the claim is bound to.", "/spec/volumeName"),
    CAPACITY.with(|row| when_bound(row, row.text_or("/status/capacity/storage", ""))),
    ACCESS_MODES_COLUMN.with(|row| when_bound(row, access_modes(row, "/status/accessModes"))),
    CLASS,
    ATTRIBUTES,
    AGE,
    VOLUME_MODE,
];

fn when_bound(row: &Row<'_>, cell: Value) -> Value {
    if row.text("/spec/volumeName").is_some() { cell } else { "".into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::User;
    use crate::strategy::fake_cluster::FakeCluster;

    #[test]
    fn only_some_fields_of_a_claim_may_change() {
        let claim = |phase: &str, change: Value| {
            let mut claim = json!({"spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": phase, "capacity": {"storage": "1Gi"}}});
            json_patch::merge(&mut claim["spec"], &change);
            claim
        };
        let size = |size: &str| json!({"resources": {"requests": {"storage": size}}});
        for (phase, before, after, fields) in [
            ("Pending", json!({}), json!({"volumeName": "v"}), vec![]),
            ("Pending", json!({"volumeName": "v"}), json!({"volumeName": "w"}), vec!["spec"]),
            ("Pending", json!({}), json!({"storageClassName": "s"}), vec![]),
            ("Pending", json!({"storageClassName": ""}), json!({"storageClassName": "s"}), vec!["spec"]),
            ("Pending", json!({"storageClassName": "r"}), json!({"storageClassName": "s"}), vec!["spec"]),
            ("Pending", json!({}), json!({"accessModes": ["ReadOnlyMany"]}), vec!["spec"]),
            ("Pending", json!({}), size("2Gi"), vec!["spec"]),
            ("Bound", json!({}), size("2Gi"), vec![]),
            ("Bound", json!({}), size("1Mi"), vec!["spec.resources.requests.storage"]),
        ] {
            let mut causes = Causes::default();
            let (new, old) = (claim(phase, after.clone()), claim(phase, before.clone()));
            let (cluster, user) = (FakeCluster::default(), User::admin());
            PersistentVolumeClaim.validate_update(&cluster.context(&user), &new, &old, &mut causes);
            let found: Vec<_> = causes.0.iter().map(|cause| cause.field.as_str()).collect();
            assert_eq!(found, fields, "{phase} {before} {after}");
        }
    }
}
