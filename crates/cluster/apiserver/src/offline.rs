//! What a server would refuse of a new object, without the server and without the rest of its cluster.

use std::sync::Arc;

use berth_api::object::NamespacedName;
use berth_rules::RuleOptions;
use berth_schema::resource::{Resource, of_kind};
use berth_schema::{decode, type_of};
use serde_json::{Value, json};

use crate::authz::HeldPermissions;
use crate::handlers::stored_value;
use crate::request::{ApiResult, Attributes, Cause, CauseType, User};
use crate::store::{Claim, Object};
use crate::strategy::{Context, Lookup, generate_name};
use crate::{kinds, lifecycle};

/// Why an API server would refuse to create an object, by the rules of its kind: the path of a field with what is wrong there. What depends
/// on other objects, and objects of kinds that the server does not have, are not refused; nor are templates without images, which another
/// tool completes.
pub fn refusals(object: &Value, rules: RuleOptions) -> Vec<String> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let shown = of_kind(text("apiVersion"), text("kind"));
    let Some((shown, resource)) = shown.and_then(|shown| Some((shown, shown.stored()?))) else {
        return Vec::new();
    };
    let mut value = object.clone();
    if let Some(ty) = type_of(shown.group, shown.version, shown.kind)
        && let Err(error) = decode(ty, &mut value)
    {
        return vec![error.to_string()];
    }
    match created(resource, shown, stored_value(shown, value), rules) {
        Ok(()) => Vec::new(),
        Err(status) if status.details.causes.is_empty() => vec![status.message],
        Err(status) => {
            let is_image = |cause: &Cause| {
                cause.cause_type == CauseType::FieldValueRequired && cause.field.ends_with("].image")
            };
            let causes = status.details.causes.into_iter().filter(|cause| !is_image(cause));
            causes.map(shown_cause).collect()
        }
    }
}

fn shown_cause(Cause { field, message, .. }: Cause) -> String {
    if field.is_empty() { message } else { format!("{field}: {message}") }
}

fn created(resource: &Resource, shown: &Resource, mut value: Value, rules: RuleOptions) -> ApiResult {
    if let Some(metadata) = value["metadata"].as_object_mut() {
        // The rest of what a server gives it, so that the object agrees with itself.
        let is_unset = |metadata: &serde_json::Map<String, Value>, field: &str| {
            metadata.get(field).and_then(Value::as_str).is_none_or(str::is_empty)
        };
        if let Some(prefix) = metadata.get("generateName").and_then(Value::as_str)
            && is_unset(metadata, "name")
        {
            let name = generate_name(prefix);
            metadata.insert("name".to_owned(), name.into());
        }
        if resource.namespaced && is_unset(metadata, "namespace") {
            metadata.insert("namespace".to_owned(), json!("default"));
        }
        metadata.insert("uid".to_owned(), json!("00000000-0000-4000-8000-000000000000"));
    }
    let RuleOptions { extensions, feature_gates } = rules;
    let user = User::admin();
    let context = Context {
        lookup: &Nothing,
        user: &user,
        extensions,
        feature_gates,
        taints_new_nodes: false,
        requested: shown,
        subresource: "",
        admitted: None,
    };
    lifecycle::prepare(&context, resource, &mut value, None)?;
    kinds::strategy(resource).validate_new(&context, resource, &value, &mut Vec::new())
}

/// A cluster of which nothing is known.
struct Nothing;

impl Lookup for Nothing {
    fn get(&self, _: &Resource, _: &str, _: &str) -> Option<Arc<Object>> {
        None
    }

    fn list(&self, _: &Resource, _: Option<&str>) -> Vec<Arc<Object>> {
        Vec::new()
    }

    fn is_claimed(&self, _: &Resource, _: &Claim) -> bool {
        false
    }

    fn allows(&self, _: &User, _: &Attributes<'_>) -> bool {
        true
    }

    fn held(&self, _: &User, _: &str) -> HeldPermissions {
        HeldPermissions::default()
    }

    fn rules_of_role(&self, _: &NamespacedName) -> Option<Vec<Arc<Object>>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: [&str; 2], fields: Value, expected: &[&str]) {
        let mut object = json!({"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "x"}});
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let refusals = refusals(&object, RuleOptions::default());
        let is_same = refusals.len() == expected.len()
            && refusals.iter().zip(expected).all(|(refusal, expected)| refusal.starts_with(expected));
        assert!(is_same, "{object}: {refusals:#?}");
    }

    #[test]
    fn objects_of_each_kind_that_no_server_takes_were_read() {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let of_template =
            |template: &Value| json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
        let with = |mut spec: Value, field: &str, value: Value| {
            spec[field] = value;
            json!({"spec": spec})
        };
        let job = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
        check(["batch/v1", "Job"], json!({"spec": job}), &[]);
        check(
            ["batch/v1", "Job"],
            with(job.clone(), "completionMode", json!("Foo")),
            &["spec.completionMode: Unsupported value: \"Foo\""],
        );
        check(
            ["batch/v1", "CronJob"],
            json!({"spec": {"schedule": "* *", "jobTemplate": {"spec": job}}}),
            &["spec.schedule: Invalid value"],
        );
        let deployment = of_template(&template);
        check(
            ["apps/v1", "Deployment"],
            with(deployment.clone(), "strategy", json!({"type": "Recreate", "rollingUpdate": {}})),
            &["spec.strategy.rollingUpdate: Forbidden"],
        );
        check(
            ["apps/v1", "StatefulSet"],
            with(deployment.clone(), "updateStrategy", json!({"type": "Foo"})),
            &["spec.updateStrategy: Invalid value"],
        );
        check(
            ["apps/v1", "DaemonSet"],
            with(deployment.clone(), "minReadySeconds", json!(-1)),
            &["spec.minReadySeconds: Invalid value: -1"],
        );
        check(
            ["v1", "ResourceQuota"],
            json!({"spec": {"hard": {"pods": "1.5"}}}),
            &["spec.hard[pods]: Invalid value: \"1500m\": must be an integer"],
        );
        check(
            ["v1", "LimitRange"],
            json!({"spec": {"limits": [{"type": "Pod", "min": {"cpu": 2}, "max": {"cpu": 1}}]}}),
            &["spec.limits[0].min[cpu]: Invalid value: \"2\""],
        );
        check(
            ["policy/v1", "PodDisruptionBudget"],
            json!({"spec": {"minAvailable": 1, "maxUnavailable": 1}}),
            &["spec: Invalid value"],
        );
        check(
            ["autoscaling/v2", "HorizontalPodAutoscaler"],
            json!({"spec": {"maxReplicas": 1, "minReplicas": 2, "scaleTargetRef": {"apiVersion": "a/v1", "kind": "D", "name": "d"}}}),
            &["spec.maxReplicas: Invalid value: 1"],
        );
        check(
            ["scheduling.k8s.io/v1", "PriorityClass"],
            json!({"value": 2_000_000_000}),
            &["value: Forbidden"],
        );
        check(
            ["scheduling.k8s.io/v1beta1", "PodGroup"],
            json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 0}}}}),
            &["spec.schedulingPolicy.gang.minCount: "],
        );
        check(["node.k8s.io/v1", "RuntimeClass"], json!({"handler": "A"}), &["handler: Invalid value"]);
        check(
            ["resource.k8s.io/v1", "DeviceClass"],
            json!({"spec": {"selectors": [{"cel": {"expression": "1 +"}}]}}),
            &["spec.selectors[0].cel.expression: Invalid value"],
        );
        check(
            ["resource.k8s.io/v1", "ResourceClaim"],
            json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": {}}]}}}),
            &["spec.devices.requests[0].exactly.deviceClassName: Required value"],
        );
        check(
            ["resource.k8s.io/v1", "ResourceSlice"],
            json!({"spec": {"driver": "d", "allNodes": true, "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "A"}]}}),
            &["spec.devices[0].name: Invalid value: \"A\""],
        );
        check(
            ["v1", "PersistentVolumeClaim"],
            json!({"spec": {"accessModes": ["Foo"], "resources": {"requests": {"storage": "1Gi"}}}}),
            &["spec.accessModes: Unsupported value"],
        );
        check(
            ["storage.k8s.io/v1", "StorageClass"],
            json!({"provisioner": "p", "volumeBindingMode": "Foo"}),
            &["volumeBindingMode: Unsupported value"],
        );
        check(
            ["v1", "Service"],
            json!({"spec": {"ports": [{"port": 0}]}}),
            &["spec.ports[0].port: ", "spec.ports[0].targetPort: "],
        );
        check(["v1", "Namespace"], json!({"metadata": {"name": "A"}}), &["metadata.name: Invalid value"]);
        check(
            ["v1", "Node"],
            json!({"spec": {"taints": [{"key": "a", "effect": "Foo"}]}}),
            &["metadata.taints[0].effect: Unsupported value"],
        );
        check(["example.com/v1", "Thing"], json!({"metadata": {"name": "A"}}), &[]);
    }

    #[test]
    fn names_may_be_generated_and_images_may_come_later() {
        let spec = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}});
        check(["batch/v1", "Job"], json!({"metadata": {"generateName": "a-"}, "spec": spec}), &[]);
    }
}
