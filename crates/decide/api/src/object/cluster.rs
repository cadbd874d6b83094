//! Namespaces, services, network policies, priority classes, runtime classes and disruption budgets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LabelSelector, ObjectMeta, ResourceList, StringMap, Toleration, nullable};
use crate::fenceposts::desired_healthy;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Namespace {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
}

/// A service. Default spread constraints use its selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Service {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: ServiceSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// `ClusterIP` by default; the selector of an `ExternalName` service is ignored.
    #[serde(rename = "type", deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub service_type: String,
    /// Pods behind the service; a service without one selects nothing.
    #[serde(deserialize_with = "nullable")]
    pub selector: StringMap,
    /// `None` for a headless service.
    #[serde(rename = "clusterIP", deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub cluster_ip: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ServicePort>,
}

impl ServiceSpec {
    /// The selector of its pods. None for a service without a selector, whose endpoints others write, and for an alias.
    pub fn pod_selector(&self) -> Option<LabelSelector> {
        let selects_pods = !self.selector.is_empty() && self.service_type != "ExternalName";
        let match_labels = self.selector.clone();
        selects_pods.then(|| LabelSelector { match_labels, ..LabelSelector::default() })
    }

    /// Whether the service has no address: it balances no load, its name stands for the addresses of its pods.
    pub fn is_headless(&self) -> bool {
        self.cluster_ip == "None"
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// Its name; a service with one port needs none.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// `TCP` by default.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    #[serde(deserialize_with = "nullable")]
    pub port: i32,
    /// Number or name of the port of the pods; the same number when absent.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Value::is_null")]
    pub target_port: Value,
}

/// A network policy: the pods it applies to, and those that its rules name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicy {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: NetworkPolicySpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicySpec {
    /// The pods it applies to; an absent selector selects all pods.
    #[serde(deserialize_with = "nullable")]
    pub pod_selector: LabelSelector,
    /// Rules with `from`.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<NetworkPolicyRule>,
    /// Rules with `to`.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<NetworkPolicyRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicyRule {
    /// Sources of an ingress rule.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<NetworkPolicyPeer>,
    /// Destinations of an egress rule.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<NetworkPolicyPeer>,
}

/// Pods or addresses on the other side of a connection. A peer with none of these fields is a range of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicyPeer {
    /// Pods by label; all pods of the namespaces when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// Namespaces by label; the namespace of the policy when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityClass {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub value: i32,
    /// Whether this class is the default of pods without a class.
    #[serde(deserialize_with = "nullable")]
    pub global_default: bool,
    /// `PreemptLowerPriority` or `Never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption_policy: Option<String>,
}

/// A runtime class: what admission adds to the pods that name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeClass {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// Name of the runtime's configuration on the nodes.
    #[serde(deserialize_with = "nullable")]
    pub handler: String,
    /// What the runtime needs besides the containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<RuntimeClassOverhead>,
    /// The nodes that have the runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<RuntimeClassScheduling>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeClassOverhead {
    /// The `spec.overhead` of its pods.
    #[serde(deserialize_with = "nullable")]
    pub pod_fixed: ResourceList,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeClassScheduling {
    /// Added to the `spec.nodeSelector` of its pods.
    #[serde(deserialize_with = "nullable")]
    pub node_selector: StringMap,
    /// Added to the `spec.tolerations` of its pods.
    #[serde(deserialize_with = "nullable")]
    pub tolerations: Vec<Toleration>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudget {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: PodDisruptionBudgetSpec,
    #[serde(deserialize_with = "nullable")]
    pub status: PodDisruptionBudgetStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatus {
    /// How many of its pods may be evicted now; none if no controller has counted them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruptions_allowed: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_healthy: Option<i32>,
    /// Number of its pods that must be healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_healthy: Option<i32>,
    /// Pods whose eviction was granted and that still exist, by name; the values are times.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub disrupted_pods: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetSpec {
    pub selector: Option<LabelSelector>,
    /// Number or percentage of pods that must stay available.
    #[serde(skip_serializing_if = "Value::is_null", deserialize_with = "nullable")]
    pub min_available: Value,
    /// Number or percentage of pods that may be unavailable.
    #[serde(skip_serializing_if = "Value::is_null", deserialize_with = "nullable")]
    pub max_unavailable: Value,
    /// `IfHealthyBudget` (default) or `AlwaysAllow`: when pods that are not ready may be evicted.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub unhealthy_pod_eviction_policy: String,
}

impl PodDisruptionBudgetSpec {
    /// How many of so many pods must stay healthy, if all pods that a controller wants are among them, running or pending.
    pub fn desired_healthy(&self, n_pods: i32) -> i32 {
        let [min, max] = [&self.min_available, &self.max_unavailable]
            .map(|value| Some(value).filter(|value| !value.is_null()));
        desired_healthy(min, max, n_pods, n_pods).1
    }
}
