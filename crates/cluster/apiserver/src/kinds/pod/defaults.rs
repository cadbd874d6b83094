//! Defaults of pods, and the quality-of-service class that follows from their resources.

use crate::kinds::prelude::*;
use crate::strategy::template;

pub fn default_pod(pod: &mut Value) {
    let Some(_) = object(pod, "spec") else { return };
    let spec = &mut pod["spec"];
    template::default_spec(spec);
    let host_network = spec["hostNetwork"] == true;
    for list in ["initContainers", "containers"] {
        for container in items_mut(spec, list) {
            request_limits(container);
            if host_network {
                for port in items_mut(container, "ports").iter_mut().filter_map(Value::as_object_mut) {
                    let number = port.get("containerPort").cloned().unwrap_or(Value::Null);
                    default(port, "hostPort", number);
                }
            }
        }
    }
    if let Some(fields) = spec.as_object_mut() {
        default(fields, "enableServiceLinks", true);
        let grace = fields.get_mut("terminationGracePeriodSeconds");
        if let Some(grace) = grace.filter(|grace| grace.as_i64().is_some_and(|seconds| seconds < 0)) {
            *grace = 1.into();
        }
    }
}

/// Sets requests to the limits where a container has limits only.
fn request_limits(container: &mut Value) {
    let limits = container["resources"]["limits"].as_object().cloned().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let resources = &mut container["resources"];
    if let Some(requests) = object(resources, "requests") {
        for (name, limit) in limits {
            default(requests, &name, limit);
        }
    }
}

/// The quality-of-service class, by which a node under memory pressure evicts.
pub fn qos_class(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let amount = |container: &Value, list: &str, name: &str| {
        quantity(&container["resources"][list][name]).filter(|quantity| !quantity.is_zero())
    };
    let (mut any, mut guaranteed) = (false, true);
    let containers = items(spec, "containers").iter().chain(items(spec, "initContainers"));
    // The resources of the whole pod count instead of those of containers.
    let is_whole = ["requests", "limits"].iter().any(|list| !is_empty(&spec["resources"][list]));
    let own: Vec<&Value> = if is_whole { vec![spec] } else { containers.collect() };
    for container in own {
        for name in ["cpu", "memory"] {
            let (request, limit) = (amount(container, "requests", name), amount(container, "limits", name));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quality_of_service_follows_resources() {
        let pod = |resources: Value| json!({"spec": {"containers": [{"resources": resources}]}});
        let full = json!({"cpu": "1", "memory": "1Gi"});
        for (resources, class) in [
            (json!({}), "BestEffort"),
            (json!({"requests": {"cpu": "0"}}), "BestEffort"),
            (json!({"requests": full, "limits": full}), "Guaranteed"),
            (json!({"requests": full, "limits": {"cpu": "1000m", "memory": "1024Mi"}}), "Guaranteed"),
            (json!({"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": full}), "Burstable"),
            (json!({"limits": {"cpu": "1"}}), "Burstable"),
        ] {
            assert_eq!(qos_class(&pod(resources.clone())), class, "{resources}");
            // Those of containers, beside resources of the pod, do not count.
            let whole =
                json!({"spec": {"resources": resources, "containers": [{"resources": {"requests": full}}]}});
            let class = if resources == json!({}) { "Burstable" } else { class };
            assert_eq!(qos_class(&whole), class, "{resources}");
        }
    }
}
