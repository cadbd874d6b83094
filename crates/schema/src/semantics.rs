//! How lists and maps are merged: facts of the Kubernetes API that its published OpenAPI carries as
//! `x-kubernetes-*` extensions and the generated bindings do not.
//!
//! A list without a row here is atomic, a map without one is granular, and a strategic merge patch replaces
//! both kinds of list.

use serde_json::{Value, json};

/// A row: the definition (without `io.k8s.`), the field, and its semantics.
pub(super) type Row = (&'static str, &'static str, Semantics);

/// How a list is merged by server-side apply.
#[derive(Clone, Copy)]
pub(super) enum List {
    /// As a whole.
    Atomic,
    /// Element by element; elements are scalars, each at most once.
    Set,
    /// Item by item; these fields identify items.
    Map(&'static [&'static str]),
    /// Not a list.
    None,
}

/// How one field is merged.
#[derive(Clone, Copy)]
pub(super) struct Semantics {
    pub(super) list: List,
    /// Field by which a strategic merge patch identifies items.
    pub(super) merge_key: Option<&'static str>,
    /// `x-kubernetes-patch-strategy`.
    pub(super) strategy: Option<&'static str>,
}

/// A list of objects merged by the same field by apply and by patch.
const fn by(keys: &'static [&'static str]) -> Semantics {
    Semantics { list: List::Map(keys), merge_key: Some(keys[0]), strategy: Some("merge") }
}

/// The same, where a patch names the only fields an item keeps.
const fn by_retaining(keys: &'static [&'static str]) -> Semantics {
    Semantics { list: List::Map(keys), merge_key: Some(keys[0]), strategy: Some("merge,retainKeys") }
}

/// A list that apply merges and a strategic merge patch replaces.
const fn apply_only(keys: &'static [&'static str]) -> Semantics {
    Semantics { list: List::Map(keys), merge_key: None, strategy: None }
}

/// A list that apply replaces and a strategic merge patch merges.
const fn patch_only(key: &'static str) -> Semantics {
    Semantics { list: List::Atomic, merge_key: Some(key), strategy: Some("merge") }
}

const SET: Semantics = Semantics { list: List::Set, merge_key: None, strategy: None };
const MERGED_SET: Semantics = Semantics { list: List::Set, merge_key: None, strategy: Some("merge") };
const RETAIN_KEYS: Semantics = Semantics { list: List::None, merge_key: None, strategy: Some("retainKeys") };

const NAME: &[&str] = &["name"];
const TYPE: &[&str] = &["type"];
const IP: &[&str] = &["ip"];
const MOUNT_PATH: &[&str] = &["mountPath"];
const DEVICE_PATH: &[&str] = &["devicePath"];
const CONTAINER_PORTS: &[&str] = &["containerPort", "protocol"];

static FIELDS: &[Row] = &[
    ("apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers", MERGED_SET),
    ("apimachinery.pkg.apis.meta.v1.ObjectMeta", "ownerReferences", by(&["uid"])),
    ("api.core.v1.PodSpec", "containers", by(NAME)),
    ("api.core.v1.PodSpec", "initContainers", by(NAME)),
    ("api.core.v1.PodSpec", "ephemeralContainers", by(NAME)),
    ("api.core.v1.PodSpec", "hostAliases", by(IP)),
    ("api.core.v1.PodSpec", "imagePullSecrets", by(NAME)),
    ("api.core.v1.PodSpec", "resourceClaims", by_retaining(NAME)),
    ("api.core.v1.PodSpec", "schedulingGates", by(NAME)),
    ("api.core.v1.PodSpec", "topologySpreadConstraints", by(&["topologyKey", "whenUnsatisfiable"])),
    ("api.core.v1.PodSpec", "volumes", by_retaining(NAME)),
    ("api.core.v1.PodStatus", "conditions", by(TYPE)),
    ("api.core.v1.PodStatus", "hostIPs", patch_only("ip")),
    ("api.core.v1.PodStatus", "podIPs", by(IP)),
    ("api.core.v1.PodStatus", "resourceClaimStatuses", by_retaining(NAME)),
    ("api.core.v1.Container", "env", by(NAME)),
    ("api.core.v1.Container", "ports", by(CONTAINER_PORTS)),
    ("api.core.v1.Container", "volumeDevices", by(DEVICE_PATH)),
    ("api.core.v1.Container", "volumeMounts", by(MOUNT_PATH)),
    ("api.core.v1.EphemeralContainer", "env", by(NAME)),
    ("api.core.v1.EphemeralContainer", "ports", by(CONTAINER_PORTS)),
    ("api.core.v1.EphemeralContainer", "volumeDevices", by(DEVICE_PATH)),
    ("api.core.v1.EphemeralContainer", "volumeMounts", by(MOUNT_PATH)),
    ("api.core.v1.ContainerStatus", "allocatedResourcesStatus", by(NAME)),
    ("api.core.v1.ContainerStatus", "volumeMounts", by(MOUNT_PATH)),
    ("api.core.v1.ContainerRestartRuleOnExitCodes", "values", SET),
    ("api.core.v1.ResourceRequirements", "claims", apply_only(NAME)),
    ("api.core.v1.ResourceStatus", "resources", apply_only(&["resourceID"])),
    ("api.core.v1.NodeAllocatableResourceClaimStatus", "containers", SET),
    ("api.core.v1.NodeSpec", "podCIDRs", MERGED_SET),
    ("api.core.v1.NodeStatus", "addresses", by(TYPE)),
    ("api.core.v1.NodeStatus", "conditions", by(TYPE)),
    ("api.core.v1.NamespaceStatus", "conditions", by(TYPE)),
    ("api.core.v1.PersistentVolumeClaimStatus", "conditions", by(TYPE)),
    ("api.core.v1.ReplicationControllerStatus", "conditions", by(TYPE)),
    ("api.core.v1.ServiceAccount", "secrets", by(NAME)),
    ("api.core.v1.ServiceSpec", "ports", by(&["port", "protocol"])),
    ("api.core.v1.ServiceStatus", "conditions", by(TYPE)),
    ("api.apps.v1.DaemonSetStatus", "conditions", by(TYPE)),
    ("api.apps.v1.DeploymentSpec", "strategy", RETAIN_KEYS),
    ("api.apps.v1.DeploymentStatus", "conditions", by(TYPE)),
    ("api.apps.v1.ReplicaSetStatus", "conditions", by(TYPE)),
    ("api.apps.v1.StatefulSetStatus", "conditions", by(TYPE)),
    ("api.batch.v1.JobStatus", "conditions", patch_only("type")),
    ("api.batch.v1.PodFailurePolicyOnExitCodesRequirement", "values", SET),
    ("api.batch.v1.UncountedTerminatedPods", "failed", SET),
    ("api.batch.v1.UncountedTerminatedPods", "succeeded", SET),
    ("api.policy.v1.PodDisruptionBudgetStatus", "conditions", by(TYPE)),
    ("api.storage.v1.CSIDriverSpec", "volumeLifecycleModes", SET),
    ("api.storage.v1.CSINodeSpec", "drivers", by(NAME)),
    ("api.admissionregistration.v1.MutatingWebhook", "matchConditions", by(NAME)),
    ("api.admissionregistration.v1.MutatingWebhookConfiguration", "webhooks", by(NAME)),
    ("api.admissionregistration.v1.ValidatingWebhook", "matchConditions", by(NAME)),
    ("api.admissionregistration.v1.ValidatingWebhookConfiguration", "webhooks", by(NAME)),
];

/// Objects that are replaced as a whole.
static ATOMIC: &[&str] = &[
    "apimachinery.pkg.apis.meta.v1.LabelSelector",
    "apimachinery.pkg.apis.meta.v1.OwnerReference",
    "api.core.v1.ConfigMapKeySelector",
    "api.core.v1.FileKeySelector",
    "api.core.v1.LocalObjectReference",
    "api.core.v1.NodeSelector",
    "api.core.v1.NodeSelectorTerm",
    "api.core.v1.ObjectFieldSelector",
    "api.core.v1.ObjectReference",
    "api.core.v1.ResourceFieldSelector",
    "api.core.v1.SecretKeySelector",
    "api.core.v1.SecretReference",
    "api.core.v1.TopologySelectorTerm",
    "api.core.v1.TypedLocalObjectReference",
    "api.rbac.v1.RoleRef",
    "api.rbac.v1.Subject",
];

/// Maps that are replaced as a whole, and the one object that is merged although its kind usually is not.
static MAP_FIELDS: &[(&str, &str, &str)] = &[
    ("api.core.v1.PodSpec", "nodeSelector", "atomic"),
    ("api.core.v1.ReplicationControllerSpec", "selector", "atomic"),
    ("api.core.v1.ServiceSpec", "selector", "atomic"),
    ("api.core.v1.PersistentVolumeSpec", "claimRef", "granular"),
];

/// Optional list keys and their defaults.
static KEY_DEFAULTS: &[(&str, &str, &str)] =
    &[("api.core.v1.ContainerPort", "protocol", "TCP"), ("api.core.v1.ServicePort", "protocol", "TCP")];

/// Adds the `x-kubernetes-*` extensions of a definition.
pub(super) fn annotate(definition: &str, schema: &mut Value) {
    let Some(short) = definition.strip_prefix("io.k8s.") else { return };
    if ATOMIC.contains(&short) {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for property in properties.values_mut() {
        if property.get("type").is_some_and(|t| t == "array") {
            property["x-kubernetes-list-type"] = json!("atomic");
        }
    }
    for (_, field, semantics) in FIELDS.iter().filter(|row| row.0 == short) {
        let Some(property) = properties.get_mut(*field) else { continue };
        match semantics.list {
            List::Atomic => property["x-kubernetes-list-type"] = json!("atomic"),
            List::Set => property["x-kubernetes-list-type"] = json!("set"),
            List::Map(keys) => {
                property["x-kubernetes-list-map-keys"] = json!(keys);
                property["x-kubernetes-list-type"] = json!("map");
            }
            List::None => {}
        }
        if let Some(key) = semantics.merge_key {
            property["x-kubernetes-patch-merge-key"] = json!(key);
        }
        if let Some(strategy) = semantics.strategy {
            property["x-kubernetes-patch-strategy"] = json!(strategy);
        }
    }
    for (_, field, map_type) in MAP_FIELDS.iter().filter(|row| row.0 == short) {
        if let Some(property) = properties.get_mut(*field) {
            property["x-kubernetes-map-type"] = json!(map_type);
        }
    }
    for (_, field, default) in KEY_DEFAULTS.iter().filter(|row| row.0 == short) {
        if let Some(property) = properties.get_mut(*field) {
            property["default"] = json!(default);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions;

    #[test]
    fn every_row_names_a_field_that_exists() {
        let all = definitions::generate(|_| true, true);
        let property =
            |definition: &str, field: &str| all[&format!("io.k8s.{definition}")]["properties"][field].clone();
        for (definition, field, semantics) in FIELDS {
            let property = property(definition, field);
            let is_list = property["type"] == "array";
            assert_eq!(is_list, !matches!(semantics.list, List::None), "{definition}.{field}");
            if let List::Map(keys) = semantics.list {
                let items = definitions::referred(&property["items"]).expect("items of a map are objects");
                for key in keys {
                    assert!(all[items]["properties"][*key].is_object(), "{definition}.{field}: {key}");
                }
            }
        }
        for (definition, field, _) in MAP_FIELDS {
            assert!(property(definition, field).is_object(), "{definition}.{field}");
        }
        for (definition, field, _) in KEY_DEFAULTS {
            assert_eq!(property(definition, field)["type"], "string", "{definition}.{field}");
        }
        for definition in ATOMIC {
            assert!(all.contains_key(&format!("io.k8s.{definition}")), "{definition}");
        }
    }
}
