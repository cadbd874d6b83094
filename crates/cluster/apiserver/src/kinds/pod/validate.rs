//! Validation of pods and pod templates that is irrelevant for placement.

use berth_api::read::from_value;
use berth_api::simulated_nodes::{CPU_USAGE, MEMORY_USAGE, POD_METRIC_PREFIX};
use berth_api::syntax;
use berth_api::syntax::quantity::Quantity;
use berth_rules::admission::{FieldError, validate_label_selector as validate_typed_selector};

use crate::kinds::prelude::*;
use crate::request::Cause;

const MAX_RESPONDERS: usize = 10;
/// The lowest priority of a responder that is none of Kubernetes.
const RESERVED_PRIORITIES: i64 = 1000;
const MAX_PRIORITY: i64 = 100_000;

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

/// Validates the components that are asked before an eviction of the pod.
pub fn validate_responders(spec: &Value, causes: &mut Causes) {
    let path = "spec.evictionResponders";
    let responders = limited(&spec["evictionResponders"], path, MAX_RESPONDERS, causes);
    for i in repeated(responders.iter().map(|responder| &responder["name"])) {
        causes.duplicate(&format!("{path}[{i}]"), &responders[i]);
    }
    for (i, responder) in responders.iter().enumerate() {
        validate_prefixed(&format!("{path}[{i}].name"), &responder["name"], causes);
        let (field, priority) = (format!("{path}[{i}].priority"), &responder["priority"]);
        match priority.as_i64() {
            None => causes.required(&field, ""),
            Some(0..RESERVED_PRIORITIES) => {
                let why = "priorities 0-999 are reserved for responders with *.k8s.io suffix";
                causes.invalid(&field, priority, why);
            }
            Some(number) if number > MAX_PRIORITY => {
                causes.invalid(&field, priority, &format!("must be less than or equal to {MAX_PRIORITY}"));
            }
            Some(_) => causes.not_negative(&field, priority),
        }
    }
    if !responders.is_empty() && !spec["schedulingGroup"].is_null() {
        causes.forbidden("spec.schedulingGroup", "may not be set when evictionResponders is set");
    }
}

/// A name with a domain, which is not one of Kubernetes.
pub fn validate_prefixed(path: &str, name: &Value, causes: &mut Causes) {
    let text = name.as_str().unwrap_or_default();
    let domain = text.split('/').next().unwrap_or_default().trim().trim_end_matches('.').to_lowercase();
    if text.is_empty() {
        return causes.required(path, "");
    }
    let is_reserved =
        |owner: &&str| domain.strip_suffix(owner).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if ["k8s.io", "kubernetes.io"].iter().any(is_reserved) {
        causes.invalid(path, name, "domain names *.k8s.io, *.kubernetes.io are reserved");
    }
    match text.contains('/') {
        true => causes.problems(path, name, syntax::label_key(text)),
        false => causes.invalid(path, name, "must include a prefix (e.g. 'example.com/key')"),
    }
}

/// The group of a pod has a name that a group can have.
fn validate_group(spec: &Value, path: &str, causes: &mut Causes) {
    let (group, field) = (&spec["schedulingGroup"], format!("{path}.schedulingGroup.podGroupName"));
    match &group["podGroupName"] {
        _ if group.is_null() => {}
        Value::Null => causes.invalid(&field, &Value::Null, "must specify one of: `podGroupName`"),
        name => causes.problems(&field, name, syntax::dns_subdomain(name.as_str().unwrap_or_default())),
    }
}

/// Whether containers restart when their resources are changed.
fn validate_resize_policy(container: &Value, is_init: bool, path: &str, causes: &mut Causes) {
    let path = format!("{path}.resizePolicy");
    let policies = items(container, "resizePolicy");
    for i in repeated(policies.iter().map(|policy| &policy["resourceName"])) {
        causes.duplicate(&format!("{path}[{i}]"), &policies[i]["resourceName"]);
    }
    for (i, policy) in policies.iter().enumerate() {
        causes.one_of(&path, &policy["resourceName"], &["cpu", "memory"]);
        let restarts = &policy["restartPolicy"];
        causes.one_of(&path, restarts, &["NotRequired", "RestartContainer"]);
        if is_init && restarts == "RestartContainer" && container["restartPolicy"] != "Always" {
            let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            causes.invalid(&format!("{path}[{i}].restartPolicy"), restarts, why);
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
            validate_resize_policy(
                container,
                list == "initContainers",
                &format!("{path}.{list}[{i}]"),
                causes,
            );
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
    validate_group(spec, path, causes);
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
