//! Updates of pods.

use std::collections::HashSet;

use berth_api::object::Toleration;
use berth_api::read::from_value;
use berth_rules::admission::add_default_tolerations_to;

use super::defaults::default_pod;
use super::{ephemeral, resize};
use crate::kinds::prelude::*;
use crate::request::Cause;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Restores the fields of a changed pod that only its creation sets.
pub fn prepare_update(context: &Context<'_>, new: &mut Value, old: &Value) {
    match context.subresource {
        "status" => {
            let Some(status) = object(new, "status") else { return };
            agree_with_first(status, ["podIP", "podIPs"], |item| &item["ip"], |ip| json!({"ip": ip}));
            if let Some(class) = old["status"].get("qosClass").and_then(Value::as_str) {
                default_text(status, "qosClass", class);
            }
        }
        "ephemeralcontainers" => ephemeral::prepare(new, old),
        "resize" => resize::prepare(context.feature_gates, new, old),
        _ => {
            default_pod(new);
            add_default_tolerations(new);
            let Some(spec) = new["spec"].as_object_mut() else { return };
            for field in ["priority", "preemptionPolicy", "serviceAccountName", "serviceAccount"] {
                if let Some(value) = old["spec"].get(field) {
                    default(spec, field, value.clone());
                }
            }
        }
    }
}

/// The admission plugin DefaultTolerationSeconds, which also looks at changes.
fn add_default_tolerations(pod: &mut Value) {
    let Ok(mut tolerations) = from_value::<Vec<Toleration>>(&pod["spec"]["tolerations"]) else { return };
    let n_before = tolerations.len();
    add_default_tolerations_to(&mut tolerations);
    let added = tolerations[n_before..].iter().filter_map(|added| serde_json::to_value(added).ok());
    if let Some(list) = object(pod, "spec").and_then(|spec| list(spec, "tolerations")) {
        list.extend(added);
    }
}

pub fn validate_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    let (new_spec, old_spec) = (&new["spec"], &old["spec"]);
    let mut allowed = new_spec.clone();
    for list in ["containers", "initContainers"] {
        if items(new_spec, list).len() != items(old_spec, list).len() {
            causes.forbidden(&format!("spec.{list}"), "pod updates may not add or remove containers");
            return causes.0;
        }
        for (i, (container, old)) in
            items_mut(&mut allowed, list).iter_mut().zip(items(old_spec, list)).enumerate()
        {
            causes.not_empty(&format!("spec.{list}[{i}].image"), &container["image"]);
            container["image"] = old["image"].clone();
        }
    }
    validate_deadline(new_spec, old_spec, &mut causes);
    validate_tolerations(new_spec, old_spec, &mut causes);
    let old_grace = &old_spec["terminationGracePeriodSeconds"];
    let grace_may_change =
        old_grace.as_i64().is_some_and(|s| s < 0) && new_spec["terminationGracePeriodSeconds"] == 1;
    let gated = !items(old_spec, "schedulingGates").is_empty();
    validate_gates(new_spec, old_spec, &mut causes);
    let mut keep = |field: &str| take(&mut allowed, old_spec, field);
    keep("activeDeadlineSeconds");
    keep("tolerations");
    keep("schedulingGates");
    if grace_may_change {
        keep("terminationGracePeriodSeconds");
    }
    if gated {
        validate_node_rules(new_spec, old_spec, &mut causes);
        keep("nodeSelector");
        keep_node_affinity(&mut allowed, old_spec);
    }
    if allowed != *old_spec {
        causes.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
             `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
             `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        );
    }
    causes.0
}

fn validate_deadline(new: &Value, old: &Value, causes: &mut Causes) {
    let (new, old) = (&new["activeDeadlineSeconds"], &old["activeDeadlineSeconds"]);
    let field = "spec.activeDeadlineSeconds";
    match (new.as_i64(), old.as_i64()) {
        (Some(seconds), _) if seconds < 1 => {
            causes.invalid(field, new, "must be between 1 and 2147483647, inclusive");
        }
        (Some(seconds), Some(before)) if seconds > before => {
            causes.invalid(field, new, "must be less than or equal to previous value");
        }
        (None, Some(_)) => causes.invalid(field, new, "must not update from a positive integer to nil value"),
        _ => {}
    }
}

fn validate_tolerations(new: &Value, old: &Value, causes: &mut Causes) {
    // Only the time may change.
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(fields) = toleration.as_object_mut() {
            fields.remove("tolerationSeconds");
        }
        toleration
    };
    let new: HashSet<Value> = items(new, "tolerations").iter().map(timeless).collect();
    if !items(old, "tolerations").iter().all(|old| new.contains(&timeless(old))) {
        causes.forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
}

fn validate_gates(new: &Value, old: &Value, causes: &mut Causes) {
    let old: HashSet<&Value> = items(old, "schedulingGates").iter().collect();
    for (i, gate) in items(new, "schedulingGates").iter().enumerate().filter(|(_, gate)| !old.contains(gate))
    {
        let name = text(gate, "/name");
        let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
        causes.forbidden(&format!("spec.schedulingGates[{i}].name"), &detail);
    }
}

/// While gates hold a pod, its rules about nodes may get narrower: more node selector entries, more expressions in
/// existing terms, or required terms where there were none.
fn validate_node_rules(new: &Value, old: &Value, causes: &mut Causes) {
    let entries = old["nodeSelector"].as_object();
    if entries.into_iter().flatten().any(|(key, value)| new["nodeSelector"].get(key) != Some(value)) {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        causes.invalid("spec.nodeSelector", &new["nodeSelector"], why);
    }
    let terms = |spec: &'_ Value| -> Vec<Value> {
        items(&spec["affinity"]["nodeAffinity"][REQUIRED], "nodeSelectorTerms").to_vec()
    };
    let (new, old) = (terms(new), terms(old));
    let path = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
    if !old.is_empty() && old.len() != new.len() {
        let shown = if new.is_empty() { Value::Null } else { new.iter().map(as_in_go).collect() };
        causes.invalid(
            &path,
            &shown,
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        );
        return;
    }
    for (i, (old, new)) in old.iter().zip(&new).enumerate() {
        let keeps = |list: &&str| {
            let now: HashSet<&Value> = items(new, list).iter().collect();
            items(old, list).iter().all(|requirement| now.contains(requirement))
        };
        if !["matchExpressions", "matchFields"].iter().all(keeps) {
            let why = "only additions are allowed (no mutations or deletions)";
            causes.invalid(&format!("{path}[{i}]"), &as_in_go(new), why);
        }
    }
}

/// A node selector term as kube-apiserver prints it.
fn as_in_go(term: &Value) -> Value {
    let requirement = |requirement: &Value| json!({"Key": requirement["key"], "Operator": requirement["operator"], "Values": requirement["values"]});
    let list = |name| {
        let list = items(term, name);
        if list.is_empty() { Value::Null } else { list.iter().map(requirement).collect() }
    };
    json!({"MatchExpressions": list("matchExpressions"), "MatchFields": list("matchFields")})
}

/// Leaves everything of a changed affinity but its rules about nodes.
fn keep_node_affinity(new: &mut Value, old: &Value) {
    let kept = old["affinity"].get("nodeAffinity").cloned();
    match (new.get_mut("affinity").and_then(Value::as_object_mut), kept) {
        (Some(affinity), Some(kept)) => drop(affinity.insert("nodeAffinity".to_owned(), kept)),
        (Some(affinity), None) => {
            affinity.remove("nodeAffinity");
            if affinity.is_empty() && old["affinity"].is_null() {
                new.as_object_mut().map(|spec| spec.remove("affinity"));
            }
        }
        (None, Some(kept)) => new["affinity"] = json!({"nodeAffinity": kept}),
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_some_fields_of_a_pod_may_change() {
        let old = json!({"spec": {"containers": [{"name": "c", "image": "i:1"}], "nodeName": "n",
            "tolerations": [{"key": "a", "operator": "Exists"}], "schedulingGates": []}});
        let changed = |pointer: &str, value: Value| {
            let mut new = old.clone();
            *new.pointer_mut(pointer).unwrap() = value;
            validate_update(&new, &old).into_iter().map(|cause| cause.field).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(changed("/spec/containers/0/image", json!("i:2")), none);
        assert_eq!(changed("/spec/containers/0/name", json!("d")), ["spec"]);
        assert_eq!(changed("/spec/nodeName", json!("m")), ["spec"]);
        assert_eq!(changed("/spec/tolerations", json!([])), ["spec.tolerations"]);
        let more = json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 5}, {"key": "b", "operator": "Exists"}]);
        assert_eq!(changed("/spec/tolerations", more), none);
        assert_eq!(
            changed("/spec/schedulingGates", json!([{"name": "g"}])),
            ["spec.schedulingGates[0].name"]
        );
    }

    #[test]
    fn gated_pods_accept_narrower_node_rules() {
        let term = |more: Value| json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": more}]}}}});
        let a = json!({"key": "a", "operator": "Exists"});
        let b = json!({"key": "b", "operator": "Exists"});
        let problems = |new: &Value, old: &Value| {
            let with = |spec: &Value| {
                let mut spec = spec.clone();
                spec["schedulingGates"] = json!([{"name": "g"}]);
                json!({"spec": spec})
            };
            validate_update(&with(new), &with(old)).into_iter().map(|cause| cause.message).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(problems(&term(json!([a, b])), &term(json!([a]))), none);
        assert_eq!(
            problems(&term(json!([b])), &term(json!([a]))),
            [
                "Invalid value: {\"MatchExpressions\":[{\"Key\":\"b\",\"Operator\":\"Exists\",\"Values\":null}],\
              \"MatchFields\":null}: only additions are allowed (no mutations or deletions)"
            ]
        );
        assert_eq!(problems(&term(json!([a])), &json!({})), none);
        assert_eq!(problems(&json!({"nodeSelector": {"x": "y"}}), &json!({})), none);
        assert_eq!(
            problems(&json!({}), &json!({"nodeSelector": {"x": "y"}})),
            [
                "Invalid value: null: only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            ]
        );
    }
}
