//! StatefulSets.

use berth_api::syntax;

use super::shared::{READY, Workload, default_strategy, number_or_percent, validate_int_or_percent};
use crate::kinds::prelude::*;

/// The fields of the spec that an update may change; the selector has a message for itself.
const MUTABLE: [&str; 8] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
    "selector",
];
/// Those that it may not change, each with its own message.
const FIXED: [&str; 3] = ["podManagementPolicy", "volumeClaimTemplates", "serviceName"];

fn default_claim(claim: &mut Value) {
    if let Some(spec) = object(claim, "spec") {
        default(spec, "volumeMode", "Filesystem");
    }
    if let Some(claim) = claim.as_object_mut() {
        default_text(claim, "apiVersion", "v1");
        default_text(claim, "kind", "PersistentVolumeClaim");
    }
    if let Some(status) = object(claim, "status") {
        default_text(status, "phase", "Pending");
    }
}

fn validate_strategy(strategy: &Value, causes: &mut Causes) {
    let path = "spec.updateStrategy";
    let rolling = &strategy["rollingUpdate"];
    let shown = match rolling {
        Value::Null => Value::Null,
        _ => json!({"Partition": rolling["partition"], "MaxUnavailable": rolling["maxUnavailable"]}),
    };
    match text(strategy, "/type") {
        "" => causes.required(path, ""),
        "OnDelete" if !rolling.is_null() => {
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            causes.invalid(&format!("{path}.rollingUpdate"), &shown, why);
        }
        "OnDelete" | "RollingUpdate" => {}
        ty => {
            let shown = json!({"Type": ty, "RollingUpdate": shown});
            causes.invalid(path, &shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
    let path = format!("{path}.rollingUpdate");
    causes.not_negative(&format!("{path}.partition"), &rolling["partition"]);
    let (path, most) = (format!("{path}.maxUnavailable"), &rolling["maxUnavailable"]);
    validate_int_or_percent(&path, most, true, causes);
    if !most.is_null() && number_or_percent(most) == 0 {
        causes.invalid(&path, most, "cannot be 0");
    }
}

pub static STRATEGY: Workload = Workload {
    name_problems: syntax::dns_label,
    default: |spec| {
        default(spec, "replicas", 1);
        default(spec, "revisionHistoryLimit", 10);
        default_text(spec, "podManagementPolicy", "OrderedReady");
        // With a type that the user wrote, what is absent stays so.
        let strategy = spec.get("updateStrategy").unwrap_or(&Value::Null);
        if is_empty(&strategy["type"]) || !strategy["rollingUpdate"].is_null() {
            default_strategy(spec, "updateStrategy", json!({"partition": 0, "maxUnavailable": 1}));
        }
        let claims = spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut);
        claims.into_iter().flatten().for_each(default_claim);
        // Go writes it in any case.
        default(spec, "serviceName", "");
        let retention = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
        default(spec, "persistentVolumeClaimRetentionPolicy", retention);
        if let Some(retention) = spec["persistentVolumeClaimRetentionPolicy"].as_object_mut() {
            ["whenDeleted", "whenScaled"].iter().for_each(|when| default_text(retention, when, "Retain"));
        }
    },
    counts: &["replicas"],
    of_selector: "statefulset",
    check: |spec, causes| {
        let policy = &spec["podManagementPolicy"];
        if !["OrderedReady", "Parallel"].contains(&policy.as_str().unwrap_or_default()) {
            causes.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'");
        }
        validate_strategy(&spec["updateStrategy"], causes);
        for field in ["whenDeleted", "whenScaled"] {
            let policy = &spec["persistentVolumeClaimRetentionPolicy"][field];
            let path = format!("spec.persistentVolumeClaimRetentionPolicy.{field}");
            if !policy.is_null() {
                causes.one_of(&path, policy, &["Retain", "Delete"]);
            }
        }
        causes.not_negative("spec.ordinals.start", &spec["ordinals"]["start"]);
        let service = text(spec, "/serviceName");
        if !service.is_empty() {
            causes.problems("spec.serviceName", &spec["serviceName"], syntax::dns_label(service));
        }
    },
    validated_if_new: &["spec.serviceName", "spec.volumeClaimTemplates"],
    check_update: |new, old, causes| {
        let mut allowed = new.clone();
        MUTABLE.iter().chain(&FIXED).for_each(|field| take(&mut allowed, old, field));
        for field in FIXED {
            causes.unchanged(&format!("spec.{field}"), &new[field], &old[field]);
        }
        if allowed != *old {
            causes.forbidden(
                "spec",
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            );
        }
    },
    ..Workload::NEW
};

pub const COLUMNS: &[Column] = &[NAME, READY, AGE, CONTAINERS, IMAGES];
