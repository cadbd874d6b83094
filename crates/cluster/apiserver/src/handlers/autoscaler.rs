//! HorizontalPodAutoscalers of `autoscaling/v1` and `autoscaling/v2`. The second is stored; what the first cannot
//! express is in its annotations, so that reading and writing it back loses nothing.

use serde_json::{Map, Value, json};

use crate::strategy::fields::{default, is_empty};

const PREFIX: &str = "autoscaling.alpha.kubernetes.io/";

/// Annotation (without its prefix), section and field of `v2`.
const ANNOTATED: [(&str, &str, &str); 4] = [
    ("behavior", "spec", "behavior"),
    ("conditions", "status", "conditions"),
    ("current-metrics", "status", "currentMetrics"),
    ("metrics", "spec", "metrics"),
];

/// Section and list of metrics in `v2`, the member of a metric with the value, and the field of `v1`.
const CPU: [(&str, &str, &str, &str); 2] = [
    ("spec", "metrics", "target", "targetCPUUtilizationPercentage"),
    ("status", "currentMetrics", "current", "currentCPUUtilizationPercentage"),
];

fn is_cpu(metric: &Value, member: &str) -> bool {
    let resource = &metric["resource"];
    metric["type"] == "Resource"
        && resource["name"] == "cpu"
        && resource[member]["averageUtilization"].is_i64()
        && resource[member].get("averageValue").is_none()
}

pub(super) fn to_v1(mut value: Value) -> Value {
    value["apiVersion"] = "autoscaling/v1".into();
    for (section, list, member, field) in CPU {
        let metrics = value.pointer_mut(&format!("/{section}/{list}")).and_then(Value::as_array_mut);
        let Some(metrics) = metrics else { continue };
        if let Some(at) = metrics.iter().position(|metric| is_cpu(metric, member)) {
            let metric = metrics.remove(at);
            value[section][field] = metric["resource"][member]["averageUtilization"].clone();
        }
    }
    let mut annotations = Map::new();
    for (annotation, section, field) in ANNOTATED {
        let taken = value.get_mut(section).and_then(Value::as_object_mut).and_then(|s| s.shift_remove(field));
        if let Some(taken) = taken.filter(|taken| !is_empty(taken)) {
            annotations.insert(format!("{PREFIX}{annotation}"), taken.to_string().into());
        }
    }
    if !annotations.is_empty()
        && let Some(metadata) = value["metadata"].as_object_mut()
        && let Some(all) = metadata.entry("annotations").or_insert_with(|| json!({})).as_object_mut()
    {
        all.extend(annotations);
    }
    if let Some(status) = value.get_mut("status").and_then(Value::as_object_mut) {
        default(status, "currentReplicas", 0);
    }
    value
}

/// From `v1` to `v2`. A malformed annotation stays an annotation.
pub(super) fn to_v2(mut value: Value) -> Value {
    value["apiVersion"] = "autoscaling/v2".into();
    for (annotation, section, field) in ANNOTATED {
        let Some(annotations) = value["metadata"].get_mut("annotations").and_then(Value::as_object_mut)
        else {
            break;
        };
        let name = format!("{PREFIX}{annotation}");
        let text = annotations.get(&name).and_then(Value::as_str).unwrap_or_default();
        if let Ok(parsed @ (Value::Array(_) | Value::Object(_))) = serde_json::from_str(text) {
            annotations.shift_remove(&name);
            if annotations.is_empty() {
                value["metadata"].as_object_mut().map(|metadata| metadata.shift_remove("annotations"));
            }
            value[section][field] = parsed;
        }
    }
    for (section, list, member, field) in CPU {
        let taken = value.get_mut(section).and_then(Value::as_object_mut).and_then(|s| s.shift_remove(field));
        let Some(percent) = taken else { continue };
        let mut resource = json!({ "name": "cpu" });
        resource[member] = match member {
            "target" => json!({ "type": "Utilization", "averageUtilization": percent }),
            _ => json!({ "averageUtilization": percent }),
        };
        let metric = json!({ "type": "Resource", "resource": resource });
        match value[section].get_mut(list).and_then(Value::as_array_mut) {
            Some(metrics) => metrics.insert(0, metric),
            None => value[section][list] = json!([metric]),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_first_version_cannot_express_survives_it() {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 70}}});
        let pods = json!({"type": "Pods", "pods": {"metric": {"name": "rate"},
            "target": {"type": "AverageValue", "averageValue": "5"}}});
        let stored = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
            "spec": {"maxReplicas": 5, "metrics": [cpu, pods], "behavior": {"scaleUp": {"selectPolicy": "Max"}}},
            "status": {"currentReplicas": 0, "conditions": [{"type": "ScalingActive"}]},
        });
        let shown = to_v1(stored.clone());
        assert_eq!(shown["spec"], json!({"maxReplicas": 5, "targetCPUUtilizationPercentage": 70}));
        assert_eq!(shown["metadata"]["annotations"].as_object().map(Map::len), Some(3));
        assert_eq!(to_v2(shown), stored);
        let plain =
            json!({"apiVersion": "autoscaling/v1", "metadata": {"name": "a"}, "spec": {"maxReplicas": 5}});
        assert_eq!(to_v1(to_v2(plain.clone())), plain);
    }
}
