//! Integer bounds of `Gt` and `Lt` in pod terms.

use serde_json::Value;

/// Turns the integers in `values` of `Gt` and `Lt` requirements of pod affinity and anti-affinity label
/// selectors into strings, inside an `affinity` object (of a pod spec, or of the annotation).
///
/// In all other fields Kubernetes requires label values as strings, and an unquoted number is an error. The proposal that
/// adds these operators to pod labels writes bounds as integers (`values: [20]`), so these fields accept them.
pub fn quote_integer_bounds(affinity: &mut Value) {
    for rules in ["podAffinity", "podAntiAffinity"] {
        let Some(Value::Object(rules)) = affinity.get_mut(rules) else { continue };
        for (_, terms) in rules.iter_mut() {
            for term in terms.as_array_mut().into_iter().flatten() {
                quote_bounds_of_term(term);
                term.get_mut("podAffinityTerm").map(quote_bounds_of_term);
            }
        }
    }
}

fn quote_bounds_of_term(term: &mut Value) {
    let requirements = term.get_mut("labelSelector").and_then(|s| s.get_mut("matchExpressions"));
    for requirement in requirements.and_then(Value::as_array_mut).into_iter().flatten() {
        if !matches!(requirement.get("operator").and_then(Value::as_str), Some("Gt" | "Lt")) {
            continue;
        }
        for value in requirement.get_mut("values").and_then(Value::as_array_mut).into_iter().flatten() {
            if value.is_i64() || value.is_u64() {
                *value = value.to_string().into();
            }
        }
    }
}

/// [`quote_integer_bounds`] for every pod spec in an object of this kind.
pub(super) fn quote_integer_bounds_of_object(kind: &str, object: &mut Value) {
    let spec = match kind {
        "Pod" => "/spec/affinity",
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicationController" => {
            "/spec/template/spec/affinity"
        }
        "CronJob" => "/spec/jobTemplate/spec/template/spec/affinity",
        _ => return,
    };
    object.pointer_mut(spec).map(quote_integer_bounds);
}
