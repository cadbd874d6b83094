//! Integer bounds of `Gt` and `Lt`.

use serde_json::Value;

/// Turns the integers in `values` of `Gt` and `Lt` requirements into strings, anywhere in rules.
///
/// In all other fields Kubernetes requires label values as strings, and an unquoted number is an error. The proposal that
/// adds these operators to pod labels writes bounds as integers (`values: [20]`), so the annotation and terms between pods accept
/// them.
pub fn quote_integer_bounds(rules: &mut Value) {
    match rules {
        Value::Array(items) => items.iter_mut().for_each(quote_integer_bounds),
        Value::Object(fields) => {
            if matches!(fields.get("operator").and_then(Value::as_str), Some("Gt" | "Lt")) {
                for value in fields.get_mut("values").and_then(Value::as_array_mut).into_iter().flatten() {
                    if value.is_i64() || value.is_u64() {
                        *value = value.to_string().into();
                    }
                }
            }
            fields.values_mut().for_each(quote_integer_bounds);
        }
        _ => {}
    }
}

/// The JSON pointer of the pod spec in objects of a kind; none if they have no pods.
pub fn pod_spec_pointer(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Pod" => "/spec",
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicationController" => {
            "/spec/template/spec"
        }
        "CronJob" => "/spec/jobTemplate/spec/template/spec",
        "PodTemplate" => "/template/spec",
        _ => return None,
    })
}

/// The JSON pointer of the pod template in objects of a kind; none if they have none.
pub fn pod_template_pointer(kind: &str) -> Option<&'static str> {
    pod_spec_pointer(kind)?.strip_suffix("/spec").filter(|pointer| !pointer.is_empty())
}

/// [`quote_integer_bounds`] for terms between pods of every pod spec in an object of this kind.
pub(super) fn quote_integer_bounds_of_object(kind: &str, object: &mut Value) {
    let Some(spec) = pod_spec_pointer(kind) else { return };
    for rules in ["podAffinity", "podAntiAffinity"] {
        object.pointer_mut(&format!("{spec}/affinity/{rules}")).map(quote_integer_bounds);
    }
}
