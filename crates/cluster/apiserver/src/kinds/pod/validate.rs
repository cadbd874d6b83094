//! Validation of pods and pod templates that is irrelevant for placement.

use berth_api::read::from_value;
use berth_api::simulated_nodes::{CPU_USAGE, MEMORY_USAGE, POD_METRIC_PREFIX};
use berth_api::syntax::quantity::Quantity;
use berth_rules::admission::{FieldError, validate_label_selector as validate_typed_selector};

use crate::kinds::prelude::*;
use crate::request::Cause;

/// A field error as the cause of a status; `prefix` precedes its path.
pub fn cause(error: &FieldError, prefix: &str) -> Cause {
    let message = error.error.strip_prefix(&format!("{}: ", error.field)).unwrap_or(&error.error);
    Cause {
        reason: error.error_type.as_str().to_owned(),
        message: message.to_owned(),
        field: format!("{prefix}{}", error.field),
    }
}

/// Validates a label selector, if there is one.
pub fn validate_label_selector(path: &str, selector: &Value, causes: &mut Causes) {
    if selector.is_null() {
        return;
    }
    match from_value(selector) {
        Ok(typed) => validate_typed_selector(&typed)
            .iter()
            .map(|error| cause(error, path))
            .for_each(|cause| causes.push(&cause.reason, &cause.field, cause.message)),
        Err(error) => causes.invalid(path, selector, &error.to_string()),
    }
}

/// Validates the annotations that metrics are read from.
pub fn validate_usage(pod: &Value, causes: &mut Causes) {
    let is_usage = |key: &str| [CPU_USAGE, MEMORY_USAGE].contains(&key) || key.starts_with(POD_METRIC_PREFIX);
    let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    for (key, usage) in annotations.filter(|(key, _)| is_usage(key)) {
        let Some(text) = usage.as_str() else { continue };
        let field = format!("metadata.annotations[{key}]");
        match Quantity::parse(text) {
            Err(error) => causes.invalid(&field, usage, &error.to_string()),
            Ok(amount) if amount.is_negative() => {
                causes.invalid(&field, usage, "must be greater than or equal to 0");
            }
            Ok(_) => {}
        }
    }
}

/// Validates fields that are irrelevant for placement.
pub fn validate_containers(spec: &Value, path: &str, causes: &mut Causes) {
    for list in ["initContainers", "containers"] {
        for (i, container) in items(spec, list).iter().enumerate() {
            causes.not_empty(&format!("{path}.{list}[{i}].image"), &container["image"]);
            let pull = &container["imagePullPolicy"];
            if !pull.is_null() {
                let field = format!("{path}.{list}[{i}].imagePullPolicy");
                causes.one_of(&field, pull, &["Always", "IfNotPresent", "Never"]);
            }
        }
    }
    for (i, volume) in items(spec, "volumes").iter().enumerate() {
        let limit = &volume["emptyDir"]["sizeLimit"];
        if quantity(limit).is_some_and(|limit| limit.is_negative()) {
            let why = "SizeLimit field must be a valid resource quantity";
            causes.forbidden(&format!("{path}.volumes[{i}].emptyDir.sizeLimit"), why);
        }
        let claim = &volume["ephemeral"]["volumeClaimTemplate"]["spec"]["selector"];
        let field = format!("{path}.volumes[{i}].ephemeral.volumeClaimTemplate.spec.selector");
        validate_label_selector(&field, claim, causes);
        for (j, source) in items(&volume["projected"], "sources").iter().enumerate() {
            let field =
                format!("{path}.volumes[{i}].projected.sources[{j}].clusterTrustBundle.labelSelector");
            validate_label_selector(&field, &source["clusterTrustBundle"]["labelSelector"], causes);
        }
    }
    let policies = ["Always", "OnFailure", "Never"];
    causes.one_of(&format!("{path}.restartPolicy"), &spec["restartPolicy"], &policies);
    let field = "terminationGracePeriodSeconds";
    causes.not_negative(&format!("{path}.{field}"), &spec[field]);
    let deadline = &spec["activeDeadlineSeconds"];
    if deadline.as_i64().is_some_and(|seconds| seconds < 1) {
        let why = "must be between 1 and 2147483647, inclusive";
        causes.invalid(&format!("{path}.activeDeadlineSeconds"), deadline, why);
    }
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    causes.one_of(&format!("{path}.dnsPolicy"), &spec["dnsPolicy"], &policies);
}
