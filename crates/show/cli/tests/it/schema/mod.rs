//! Compares objects with the types of Kubernetes 1.36: a round trip through a type loses unknown fields.

use berth_api::read::{Manifest, SourceLocation};
use berth_input::policy::PlacementPolicy;
use berth_kubelet::DeviceTemplate;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The problem with an object of a Kubernetes kind, if any; other kinds must be listed by name.
pub fn complaint(object: &Value) -> Option<String> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        ("v1", "ConfigMap") => lost::<ConfigMap>(object),
        ("v1", "Namespace") => lost::<Namespace>(object),
        ("v1", "Node") => lost::<Node>(object),
        ("v1", "Pod") => lost::<Pod>(object),
        ("v1", "Secret") => lost::<Secret>(object),
        ("v1", "Service") => lost::<Service>(object),
        ("v1", "ServiceAccount") => lost::<ServiceAccount>(object),
        ("apps/v1", "DaemonSet") => lost::<DaemonSet>(object),
        ("apps/v1", "Deployment") => lost::<Deployment>(object),
        ("apps/v1", "ReplicaSet") => lost::<ReplicaSet>(object),
        ("apps/v1", "StatefulSet") => lost::<StatefulSet>(object),
        ("batch/v1", "CronJob") => lost::<CronJob>(object),
        ("batch/v1", "Job") => lost::<Job>(object),
        ("policy/v1", "PodDisruptionBudget") => lost::<PodDisruptionBudget>(object),
        ("rbac.authorization.k8s.io/v1", "ClusterRole") => lost::<ClusterRole>(object),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding") => lost::<ClusterRoleBinding>(object),
        ("rbac.authorization.k8s.io/v1", "Role") => lost::<Role>(object),
        ("rbac.authorization.k8s.io/v1", "RoleBinding") => lost::<RoleBinding>(object),
        ("resource.k8s.io/v1", "DeviceClass") => lost::<DeviceClass>(object),
        ("resource.k8s.io/v1", "ResourceClaim") => lost::<ResourceClaim>(object),
        ("resource.k8s.io/v1", "ResourceClaimTemplate") => lost::<ResourceClaimTemplate>(object),
        ("resource.k8s.io/v1", "ResourceSlice") => lost::<ResourceSlice>(object),
        ("simulation.berth.dev/v1alpha1", DeviceTemplate::KIND) => {
            let manifest = Manifest::new(object.clone(), SourceLocation::file("object"));
            manifest.map_or_else(
                |error| Some(error.to_string()),
                |manifest| DeviceTemplate::read(&manifest).err().map(|error| error.to_string()),
            )
        }
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration") => {
            lost::<ValidatingWebhookConfiguration>(object)
        }
        ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration") => {
            lost::<MutatingWebhookConfiguration>(object)
        }
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => lost::<CustomResourceDefinition>(object),
        ("scheduling.berth.dev/v1alpha1", "PlacementPolicy" | "ClusterPlacementPolicy") => {
            PlacementPolicy::read(object).err().map(|errors| errors.to_string())
        }
        // The API server checks it: tests/it/cluster/scripts/placement-quota.txt.
        ("scheduling.berth.dev/v1alpha1", "PlacementQuota") => None,
        // Schemas of other projects are not available.
        ("monitoring.coreos.com/v1", "ServiceMonitor") | ("cert-manager.io/v1", "Issuer" | "Certificate") => {
            None
        }
        (version, kind) => Some(format!("{kind} of {version} is not known here")),
    }
}

fn lost<T: DeserializeOwned + Serialize>(object: &Value) -> Option<String> {
    let typed: T = match serde_json::from_value(object.clone()) {
        Ok(typed) => typed,
        Err(error) => return Some(error.to_string()),
    };
    difference("", object, &serde_json::to_value(typed).ok()?)
}

/// The first path at which the objects differ.
fn difference(path: &str, written: &Value, back: &Value) -> Option<String> {
    match (written, back) {
        (Value::Object(written), Value::Object(back)) => written.iter().find_map(|(key, value)| {
            let path = format!("{path}.{key}");
            match back.get(key) {
                Some(back) => difference(&path, value, back),
                None => Some(format!("{path} is not of this type")),
            }
        }),
        (Value::Array(written), Value::Array(back)) => written
            .iter()
            .zip(back)
            .enumerate()
            .find_map(|(i, (written, back))| difference(&format!("{path}[{i}]"), written, back)),
        _ if written == back => None,
        _ => Some(format!("{path} is {written} and should be {back}")),
    }
}

#[test]
fn unknown_fields_are_detected() {
    use serde_json::json;
    let service = |spec: Value| complaint(&json!({"apiVersion": "v1", "kind": "Service", "spec": spec}));
    assert_eq!(service(json!({"ports": [{"port": 80}]})), None);
    let unknown = service(json!({"ports": [{"port": 80, "portt": 1}]}));
    assert_eq!(unknown.as_deref(), Some(".spec.ports[0].portt is not of this type"));
    assert!(service(json!({"ports": [{"port": "80"}]})).is_some());
}
