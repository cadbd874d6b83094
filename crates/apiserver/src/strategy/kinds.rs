//! Kinds of which little is to be said: a few defaults, a few rules.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_schema::resource::Resource;
use serde_json::{Value, json};

use super::fields::{Causes, default, default_text, is_empty, items, items_mut, object, text};

/// Priorities of users' classes end here; beyond are the system's.
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;
/// A config map's or a secret's data may not be larger than this.
const MAX_DATA_BYTES: usize = 1024 * 1024;

/// Completes an object, new or changed.
pub fn default_kind(resource: &Resource, value: &mut Value) {
    match resource.kind {
        "Namespace" => {
            let name = value["metadata"]["name"].clone();
            if let Some(labels) = object(&mut value["metadata"], "labels") {
                labels.insert("kubernetes.io/metadata.name".to_owned(), name);
            }
        }
        "Secret" => {
            take_string_data(value);
            if let Some(fields) = value.as_object_mut() {
                default_text(fields, "type", "Opaque");
            }
        }
        "PriorityClass" => {
            if let Some(fields) = value.as_object_mut() {
                default_text(fields, "preemptionPolicy", "PreemptLowerPriority");
                default(fields, "value", 0);
            }
        }
        "StorageClass" => {
            if let Some(fields) = value.as_object_mut() {
                default_text(fields, "reclaimPolicy", "Delete");
                default_text(fields, "volumeBindingMode", "Immediate");
            }
        }
        "PersistentVolume" => {
            if let Some(spec) = object(value, "spec") {
                default_text(spec, "persistentVolumeReclaimPolicy", "Retain");
                default_text(spec, "volumeMode", "Filesystem");
            }
        }
        "PersistentVolumeClaim" => {
            if let Some(spec) = object(value, "spec") {
                default_text(spec, "volumeMode", "Filesystem");
            }
        }
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            let mutating = resource.kind.starts_with("Mutating");
            items_mut(value, "webhooks").iter_mut().for_each(|webhook| default_webhook(webhook, mutating));
        }
        _ => {}
    }
}

fn take_string_data(secret: &mut Value) {
    let Some(texts) = secret.as_object_mut().and_then(|fields| fields.shift_remove("stringData")) else {
        return;
    };
    let Some(texts) = texts.as_object().filter(|texts| !texts.is_empty()) else { return };
    if let Some(data) = object(secret, "data") {
        for (key, text) in texts {
            data.insert(key.clone(), Value::from(STANDARD.encode(text.as_str().unwrap_or_default())));
        }
    }
}

fn default_webhook(webhook: &mut Value, mutating: bool) {
    for rule in items_mut(webhook, "rules").iter_mut().filter_map(Value::as_object_mut) {
        default_text(rule, "scope", "*");
    }
    if let Some(service) = webhook.pointer_mut("/clientConfig/service").and_then(Value::as_object_mut) {
        default(service, "port", 443);
    }
    let Some(fields) = webhook.as_object_mut() else { return };
    default_text(fields, "failurePolicy", "Fail");
    default_text(fields, "matchPolicy", "Equivalent");
    default(fields, "namespaceSelector", json!({}));
    default(fields, "objectSelector", json!({}));
    default(fields, "timeoutSeconds", 10);
    if mutating {
        default_text(fields, "reinvocationPolicy", "Never");
    }
}

/// What only a new object gets.
pub fn prepare_create(resource: &Resource, value: &mut Value) {
    match resource.kind {
        "Namespace" => {
            if let Some(spec) = object(value, "spec") {
                let finalizers = spec.entry("finalizers").or_insert(json!([]));
                if let Some(list) = finalizers.as_array_mut()
                    && !list.iter().any(|f| f == "kubernetes")
                {
                    list.push(Value::from("kubernetes"));
                }
            }
            value["status"] = json!({"phase": "Active"});
        }
        "Service" => value["status"] = json!({"loadBalancer": {}}),
        "PersistentVolume" | "PersistentVolumeClaim" => value["status"] = json!({"phase": "Pending"}),
        // Controllers report what there is; until then there is nothing, which clients expect to be told.
        "Deployment" | "Job" | "PodDisruptionBudget" => value["status"] = json!({}),
        "ReplicaSet" | "ReplicationController" | "StatefulSet" => value["status"] = json!({"replicas": 0}),
        "DaemonSet" => {
            value["status"] = json!({"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0,
                "numberReady": 0});
        }
        _ => {}
    }
}

/// Whether an object is one of its kind.
pub fn validate(resource: &Resource, value: &Value, causes: &mut Causes) {
    match resource.kind {
        "PriorityClass" => {
            let name = text(value, "/metadata/name");
            let priority = value["value"].as_i64().unwrap_or(0);
            let built_in = matches!(
                (name, priority),
                ("system-cluster-critical", 2_000_000_000) | ("system-node-critical", 2_000_001_000)
            );
            if name.starts_with("system-") && !built_in {
                causes.forbidden(
                    "metadata.name",
                    &format!("priority class names with 'system-' prefix are reserved for system use only. error: {name} is \
                     not a known system priority class"),
                );
            } else if priority > HIGHEST_USER_PRIORITY && !built_in {
                causes.forbidden(
                    "value",
                    &format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"),
                );
            }
            let policy = &value["preemptionPolicy"];
            if !["Never", "PreemptLowerPriority"].contains(&policy.as_str().unwrap_or_default()) {
                causes.not_supported("preemptionPolicy", policy, &["Never", "PreemptLowerPriority"]);
            }
        }
        "PodDisruptionBudget" => {
            let spec = &value["spec"];
            if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
                causes.invalid("spec", &json!({}), "minAvailable and maxUnavailable cannot be both set");
            }
            for field in ["minAvailable", "maxUnavailable"] {
                causes.not_negative(&format!("spec.{field}"), &spec[field]);
            }
            let policy = &spec["unhealthyPodEvictionPolicy"];
            if !policy.is_null()
                && !["AlwaysAllow", "IfHealthyBudget"].contains(&policy.as_str().unwrap_or_default())
            {
                let supported = ["AlwaysAllow", "IfHealthyBudget"];
                causes.not_supported("spec.unhealthyPodEvictionPolicy", policy, &supported);
            }
        }
        "ConfigMap" | "Secret" => {
            let size: usize = ["data", "binaryData"]
                .iter()
                .filter_map(|field| value[*field].as_object())
                .flatten()
                .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
                .sum();
            if size > MAX_DATA_BYTES {
                causes.invalid(
                    "",
                    &Value::from(""),
                    &format!("Too long: must have at most {MAX_DATA_BYTES} bytes"),
                );
            }
            for key in value["data"].as_object().into_iter().flatten().map(|(key, _)| key) {
                let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
                if key.is_empty()
                    || key.len() > 253
                    || !key.bytes().all(fine)
                    || matches!(key.as_str(), "." | "..")
                {
                    causes.invalid(
                        &format!("data[{key}]"),
                        &Value::from(key.as_str()),
                        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                         'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
                    );
                }
            }
        }
        "Node" => {
            let taints = items(&value["spec"], "taints");
            for (i, taint) in taints.iter().enumerate() {
                let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
                if text(taint, "/key").is_empty() {
                    causes.required(&format!("metadata.taints[{i}].key"), "");
                }
                if !effects.contains(&text(taint, "/effect")) {
                    causes.not_supported(&format!("metadata.taints[{i}].effect"), &taint["effect"], &effects);
                }
                let same = |t: &&Value| t["key"] == taint["key"] && t["effect"] == taint["effect"];
                if taints[..i].iter().any(|t| same(&t)) {
                    causes.duplicate(&format!("metadata.taints[{i}]"), taint);
                }
            }
        }
        "StorageClass" if text(value, "/provisioner").is_empty() => causes.required("provisioner", ""),
        "PersistentVolume" => {
            if is_empty(&value["spec"]["capacity"]) {
                causes.required("spec.capacity", "");
            }
            if is_empty(&value["spec"]["accessModes"]) {
                causes.required("spec.accessModes", "");
            }
        }
        "PersistentVolumeClaim" => {
            if is_empty(&value["spec"]["accessModes"]) {
                causes.required("spec.accessModes", "at least 1 access mode is required");
            }
            if is_empty(&value["spec"]["resources"]["requests"]["storage"]) {
                causes.required("spec.resources[storage]", "");
            }
        }
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            for (i, webhook) in items(value, "webhooks").iter().enumerate() {
                validate_webhook(&format!("webhooks[{i}]"), webhook, causes);
            }
        }
        "Event" => {
            let namespace = text(value, "/involvedObject/namespace");
            let own = text(value, "/metadata/namespace");
            if !namespace.is_empty() && namespace != own {
                let involved = &value["involvedObject"]["namespace"];
                causes.invalid("involvedObject.namespace", involved, "does not match event.namespace");
            }
        }
        _ => {}
    }
}

/// What is stored although this server does not do what it says.
pub fn warnings(resource: &Resource, value: &Value) -> Vec<String> {
    match resource.kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            let webhooks = items(value, "webhooks").iter().enumerate();
            webhooks.filter_map(|(i, w)| crate::webhook::warnings(&format!("webhooks[{i}]"), w)).collect()
        }
        _ => Vec::new(),
    }
}

fn validate_webhook(path: &str, webhook: &Value, causes: &mut Causes) {
    for (field, value, why) in crate::webhook::check(path, webhook) {
        causes.invalid(&field, &value, &why);
    }
    if text(webhook, "/name").is_empty() {
        causes.required(&format!("{path}.name"), "");
    }
    let config = &webhook["clientConfig"];
    if config["url"].is_null() == config["service"].is_null() {
        causes.required(&format!("{path}.clientConfig"), "exactly one of url or service is required");
    }
    if is_empty(&webhook["admissionReviewVersions"]) {
        let detail = "must specify one of v1, v1beta1";
        causes.required(&format!("{path}.admissionReviewVersions"), detail);
    }
    let effects = &webhook["sideEffects"];
    if !["None", "NoneOnDryRun"].contains(&effects.as_str().unwrap_or_default()) {
        causes.not_supported(&format!("{path}.sideEffects"), effects, &["None", "NoneOnDryRun"]);
    }
    let policy = &webhook["failurePolicy"];
    if !["Fail", "Ignore"].contains(&policy.as_str().unwrap_or_default()) {
        causes.not_supported(&format!("{path}.failurePolicy"), policy, &["Fail", "Ignore"]);
    }
    if !webhook["timeoutSeconds"].as_i64().is_some_and(|seconds| (1..=30).contains(&seconds)) {
        let field = format!("{path}.timeoutSeconds");
        causes.invalid(
            &field,
            &webhook["timeoutSeconds"],
            "the timeout value must be between 1 and 30 seconds",
        );
    }
}

/// Whether an object may be changed so.
pub fn validate_update(resource: &Resource, new: &Value, old: &Value, causes: &mut Causes) {
    match resource.kind {
        "PriorityClass" => {
            for field in ["value", "preemptionPolicy"] {
                if new[field] != old[field] {
                    causes.immutable(field, &new[field]);
                }
            }
        }
        "Secret" if new["type"] != old["type"] => causes.immutable("type", &new["type"]),
        "StorageClass" => {
            for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
                if new[field] != old[field] {
                    causes.forbidden(field, &format!("updates to {field} are forbidden."));
                }
            }
        }
        _ => {}
    }
    if matches!(resource.kind, "ConfigMap" | "Secret") && old["immutable"] == true {
        for field in ["immutable", "data", "binaryData"] {
            if new[field] != old[field] {
                causes.forbidden(field, "field is immutable when `immutable` is set");
            }
        }
    }
}
