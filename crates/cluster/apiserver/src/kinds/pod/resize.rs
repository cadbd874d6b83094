//! The subresource `resize` of pods: new CPU and memory of containers in place.

use std::collections::HashMap;

use berth_api::syntax::quantity::Quantity;

use super::defaults::qos_class;
use crate::kinds::prelude::*;
use crate::strategy::metadata::kept;
use crate::strategy::template;

const LISTS: [&str; 2] = ["containers", "initContainers"];
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// Keeps everything of a pod but the resources and resize policies of its containers.
pub fn prepare(new: &mut Value, old: &Value) {
    let mut kept = kept(new, old);
    for list in LISTS {
        // Of containers with the same name the first counts.
        let sent: HashMap<_, _> = items(&new["spec"], list)
            .iter()
            .rev()
            .map(|container| (text(container, "/name"), container))
            .collect();
        for container in items_mut(&mut kept["spec"], list) {
            let Some(sent) = sent.get(text(container, "/name")) else { continue };
            for field in ["resources", "resizePolicy"] {
                match sent.get(field) {
                    Some(value) => container[field] = value.clone(),
                    None => {
                        container.as_object_mut().map(|container| container.remove(field));
                    }
                }
            }
        }
    }
    *new = kept;
    template::default_spec(&mut new["spec"]);
}

/// Validates new resources. The messages are kube-apiserver's.
pub fn validate(new: &Value, old: &Value, causes: &mut Causes) {
    let class = qos_class(new);
    if text(old, "/status/qosClass") != class {
        let why = "Pod QOS Class may not change as a result of resizing";
        causes.invalid("metadata", &class.into(), why);
    }
    if !items(&old["status"], "nodeAllocatableResourceClaimStatuses").is_empty() {
        causes.forbidden("spec", "pods with node allocatable resource claims cannot be resized");
    }
    for list in LISTS {
        for (i, (new, old)) in items(&new["spec"], list).iter().zip(items(&old["spec"], list)).enumerate() {
            let field = format!("spec.{list}[{i}].resources");
            if new["resources"] == old["resources"] {
                continue;
            }
            if list == "initContainers" && new["restartPolicy"] != "Always" {
                let why = "resources for non-sidecar init containers are immutable";
                causes.forbidden(&field, why);
            }
            validate_resources(&field, &new["resources"], &old["resources"], causes);
        }
    }
}

fn validate_resources(field: &str, new: &Value, old: &Value, causes: &mut Causes) {
    let none = Map::new();
    for kind in ["requests", "limits"] {
        let of = |resources: &'_ Value| resources[kind].as_object().unwrap_or(&none).clone();
        let (new, old) = (of(new), of(old));
        if RESIZABLE.iter().any(|name| old.contains_key(*name) && !new.contains_key(*name)) {
            causes.forbidden(&format!("{field}.{kind}"), &format!("resource {kind} cannot be removed"));
        }
        let others = |amounts: &Map<String, Value>| -> Vec<(String, Option<Quantity>)> {
            let others = amounts.iter().filter(|(name, _)| !RESIZABLE.contains(&name.as_str()));
            others.map(|(name, amount)| (name.clone(), quantity(amount))).collect()
        };
        if others(&new) != others(&old) {
            causes.forbidden("spec", "only cpu and memory resources are mutable");
        }
        for (name, amount) in &new {
            match quantity(amount) {
                None => causes.invalid(&format!("{field}.{kind}[{name}]"), amount, "must be a quantity"),
                Some(quantity) if quantity.is_negative() => {
                    let why = "must be greater than or equal to 0";
                    causes.invalid(&format!("{field}.{kind}[{name}]"), amount, why);
                }
                Some(_) => {}
            }
        }
    }
    for name in RESIZABLE {
        let (request, limit) = (&new["requests"][name], &new["limits"][name]);
        if let (Some(requested), Some(limited)) = (quantity(request), quantity(limit))
            && requested > limited
        {
            let why = format!("must be less than or equal to {name} limit of {limited}");
            causes.invalid(&format!("{field}.requests"), request, &why);
        }
    }
    if new["claims"] != old["claims"] {
        causes.forbidden("spec", "only cpu and memory resources are mutable");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_cpu_and_memory_of_containers_may_be_resized() {
        let pod = |resources: Value| {
            json!({"metadata": {"name": "p"}, "status": {"qosClass": "Burstable"}, "spec": {
                "containers": [{"name": "c", "image": "i", "resources": resources}]}})
        };
        let old = pod(
            json!({"requests": {"cpu": "1", "memory": "1Gi", "x.y/z": "1"}, "limits": {"cpu": "2", "x.y/z": "1"}}),
        );
        let limits = json!({"cpu": "2", "x.y/z": "1"});
        for (resources, field, message) in [
            (json!({"requests": {"cpu": "2", "memory": "1Gi", "x.y/z": "1"}, "limits": limits}), "", ""),
            (
                json!({"requests": {"cpu": "1", "memory": "1Gi", "x.y/z": "2"}, "limits": limits}),
                "spec",
                "Forbidden: only cpu and memory resources are mutable",
            ),
            (
                json!({"requests": {"memory": "1Gi", "x.y/z": "1"}, "limits": limits}),
                "spec.containers[0].resources.requests",
                "Forbidden: resource requests cannot be removed",
            ),
            (
                json!({"requests": {"cpu": "3", "memory": "1Gi", "x.y/z": "1"}, "limits": limits}),
                "spec.containers[0].resources.requests",
                "Invalid value: \"3\": must be less than or equal to cpu limit of 2",
            ),
            (
                json!({"requests": {"cpu": "2", "memory": "1Gi", "x.y/z": "1"},
                    "limits": {"cpu": "2", "memory": "1Gi", "x.y/z": "1"}}),
                "metadata",
                "Invalid value: \"Guaranteed\": Pod QOS Class may not change as a result of resizing",
            ),
        ] {
            let mut new = pod(resources.clone());
            new["spec"]["nodeName"] = "elsewhere".into();
            new["metadata"]["labels"] = json!({"a": "b"});
            prepare(&mut new, &old);
            assert!(new["spec"]["nodeName"].is_null() && new["metadata"]["labels"].is_null());
            let mut causes = Causes::default();
            validate(&new, &old, &mut causes);
            let first = causes.0.first().map(|cause| (cause.field.as_str(), cause.message.as_str()));
            assert_eq!(first.unwrap_or_default(), (field, message), "{resources}");
        }
    }
}
