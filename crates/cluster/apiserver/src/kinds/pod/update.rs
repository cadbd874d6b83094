//! Updates of pods.

use std::collections::HashSet;

use super::defaults::default_pod;
use super::{ephemeral, resize};
use crate::kinds::prelude::*;
use crate::request::Cause;

/// What devices take of the node of the pod, by claim.
pub const NODE_ALLOCATABLE: &str = "nodeAllocatableResourceClaimStatuses";

/// Validates what devices take of the node: the claims are those of the pod.
pub fn validate_node_allocatable(pod: &Value, causes: &mut Causes) {
    let status = &pod["status"];
    let of_pod = items(&pod["spec"], "resourceClaims").iter().chain(items(status, "resourceClaimStatuses"));
    let names: HashSet<&str> = of_pod.filter_map(|entry| entry["resourceClaimName"].as_str()).collect();
    for (i, taken) in items(status, NODE_ALLOCATABLE).iter().enumerate() {
        let (path, name) = (format!("status.{NODE_ALLOCATABLE}[{i}]"), &taken["resourceClaimName"]);
        if !name.as_str().is_some_and(|name| names.contains(name)) {
            causes.invalid(&format!("{path}.resourceClaimName"), name, "must be a claim of the pod");
        }
        for (resource, amount) in taken["resources"].as_object().into_iter().flatten() {
            let why = match quantity(amount) {
                None => "must be a quantity",
                Some(amount) if amount.is_negative() => "must be greater than or equal to 0",
                Some(_) => continue,
            };
            causes.invalid(&format!("{path}.resources[{resource}]"), amount, why);
        }
    }
}

/// Restores the fields of a changed pod that only its creation sets.
pub fn prepare_update(subresource: &str, new: &mut Value, old: &Value) {
    match subresource {
        "status" => {
            // Set at creation.
            if let Some(class) = old["status"].get("qosClass")
                && let Some(status) = new["status"].as_object_mut()
            {
                status.insert("qosClass".to_owned(), class.clone());
            }
        }
        "ephemeralcontainers" => ephemeral::prepare(new, old),
        "resize" => resize::prepare(new, old),
        _ => {
            default_pod(new);
            let Some(spec) = new["spec"].as_object_mut() else { return };
            for field in ["priority", "preemptionPolicy", "serviceAccountName", "serviceAccount"] {
                if let Some(value) = old["spec"].get(field) {
                    default(spec, field, value.clone());
                }
            }
        }
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
    if gated && narrows_node_rules(new_spec, old_spec) {
        keep("nodeSelector");
        keep("affinity");
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
            causes.invalid(field, new, &format!("must be less than or equal to previous value {before}"));
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
    let added: Vec<&str> = items(new, "schedulingGates")
        .iter()
        .filter(|gate| !old.contains(gate))
        .map(|gate| text(gate, "/name"))
        .collect();
    if !added.is_empty() {
        let detail = format!("only deletion is allowed, but found new scheduling gate '{}'", added[0]);
        causes.forbidden("spec.schedulingGates", &detail);
    }
}

/// While gates hold a pod, its rules about nodes may get narrower: more node selector entries, more expressions in
/// existing terms, or required terms where there were none.
fn narrows_node_rules(new: &Value, old: &Value) -> bool {
    let empty = Map::new();
    let selector = |spec: &'_ Value| spec["nodeSelector"].as_object().unwrap_or(&empty).clone();
    let (new_selector, old_selector) = (selector(new), selector(old));
    if !old_selector.iter().all(|(key, value)| new_selector.get(key) == Some(value)) {
        return false;
    }
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let without_required = |spec: &Value| {
        let mut affinity = spec["affinity"].clone();
        if let Some(rules) = affinity.get_mut("nodeAffinity").and_then(Value::as_object_mut) {
            rules.remove(required);
            rules.remove("preferredDuringSchedulingIgnoredDuringExecution");
            if rules.is_empty()
                && let Some(affinity) = affinity.as_object_mut()
            {
                affinity.remove("nodeAffinity");
            }
        }
        if affinity.as_object().is_some_and(Map::is_empty) { Value::Null } else { affinity }
    };
    if without_required(new) != without_required(old) {
        return false;
    }
    let terms = |spec: &'_ Value| -> Vec<Value> {
        items(&spec["affinity"]["nodeAffinity"][required], "nodeSelectorTerms").to_vec()
    };
    let (new_terms, old_terms) = (terms(new), terms(old));
    old_terms.is_empty()
        || (new_terms.len() == old_terms.len()
            && old_terms.iter().zip(&new_terms).all(|(old, new)| {
                ["matchExpressions", "matchFields"].iter().all(|list| {
                    let new: HashSet<&Value> = items(new, list).iter().collect();
                    items(old, list).iter().all(|requirement| new.contains(requirement))
                })
            }))
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
        assert_eq!(changed("/spec/schedulingGates", json!([{"name": "g"}])), ["spec.schedulingGates"]);
    }

    #[test]
    fn gated_pods_accept_narrower_node_rules() {
        let term = |more: Value| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": more}]}}}})
        };
        let a = json!({"key": "a", "operator": "Exists"});
        let b = json!({"key": "b", "operator": "Exists"});
        assert!(narrows_node_rules(&term(json!([a, b])), &term(json!([a]))));
        assert!(!narrows_node_rules(&term(json!([b])), &term(json!([a]))));
        assert!(narrows_node_rules(&term(json!([a])), &json!({})));
        assert!(narrows_node_rules(&json!({"nodeSelector": {"x": "y"}}), &json!({})));
        assert!(!narrows_node_rules(&json!({}), &json!({"nodeSelector": {"x": "y"}})));
    }
}
