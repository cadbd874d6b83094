//! Namespaces, services, network policies, priority classes, runtime classes and disruption budgets.

use berth_api_macros::object_type;
use std::collections::BTreeMap;

use serde_json::Value;

use super::{LabelSelector, ObjectMeta, ResourceList, StringMap, Toleration};
use crate::fenceposts::desired_healthy;

#[object_type(Eq)]
pub struct Namespace {
    pub metadata: ObjectMeta,
}

/// A service. Default spread constraints use its selector.
#[object_type(Eq)]
pub struct Service {
    pub metadata: ObjectMeta,
    pub spec: ServiceSpec,
}

#[object_type(Eq)]
pub struct ServiceSpec {
    /// `ClusterIP` by default; the selector of an `ExternalName` service is ignored.
    #[serde(rename = "type")]
    pub service_type: String,
    /// Pods behind the service; a service without one selects nothing.
    pub selector: StringMap,
    /// `None` for a headless service.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
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

#[object_type(Eq)]
pub struct ServicePort {
    /// Its name; a service with one port needs none.
    pub name: String,
    /// `TCP` by default.
    pub protocol: String,
    pub port: i32,
    /// Number or name of the port of the pods; the same number when absent.
    pub target_port: Value,
}

/// A network policy: the pods it applies to, and those that its rules name.
#[object_type(Eq)]
pub struct NetworkPolicy {
    pub metadata: ObjectMeta,
    pub spec: NetworkPolicySpec,
}

#[object_type(Eq)]
pub struct NetworkPolicySpec {
    /// The pods it applies to; an absent selector selects all pods.
    pub pod_selector: LabelSelector,
    pub ingress: Vec<NetworkPolicyRule>,
    pub egress: Vec<NetworkPolicyRule>,
}

#[object_type(Eq)]
pub struct NetworkPolicyRule {
    /// Sources of an ingress rule.
    pub from: Vec<NetworkPolicyPeer>,
    /// Destinations of an egress rule.
    pub to: Vec<NetworkPolicyPeer>,
}

/// Pods or addresses on the other side of a connection. A peer with none of these fields is a range of addresses.
#[object_type(Eq)]
pub struct NetworkPolicyPeer {
    /// Pods by label; all pods of the namespaces when absent.
    pub pod_selector: Option<LabelSelector>,
    /// Namespaces by label; the namespace of the policy when absent.
    pub namespace_selector: Option<LabelSelector>,
}

#[object_type(Eq)]
pub struct PriorityClass {
    pub metadata: ObjectMeta,
    pub value: i32,
    /// Whether this class is the default of pods without a class.
    pub global_default: bool,
    /// `PreemptLowerPriority` or `Never`.
    pub preemption_policy: Option<String>,
}

/// A runtime class: what admission adds to the pods that name it.
#[object_type(Eq)]
pub struct RuntimeClass {
    pub metadata: ObjectMeta,
    /// Name of the runtime's configuration on the nodes.
    pub handler: String,
    /// What the runtime needs besides the containers.
    pub overhead: Option<RuntimeClassOverhead>,
    /// The nodes that have the runtime.
    pub scheduling: Option<RuntimeClassScheduling>,
}

#[object_type(Eq)]
pub struct RuntimeClassOverhead {
    /// The `spec.overhead` of its pods.
    pub pod_fixed: ResourceList,
}

#[object_type(Eq)]
pub struct RuntimeClassScheduling {
    /// Added to the `spec.nodeSelector` of its pods.
    pub node_selector: StringMap,
    /// Added to the `spec.tolerations` of its pods.
    pub tolerations: Vec<Toleration>,
}

#[object_type]
pub struct PodDisruptionBudget {
    pub metadata: ObjectMeta,
    pub spec: PodDisruptionBudgetSpec,
    pub status: PodDisruptionBudgetStatus,
}

#[object_type]
pub struct PodDisruptionBudgetStatus {
    /// How many of its pods may be evicted now; none if no controller has counted them.
    pub disruptions_allowed: Option<i32>,
    pub current_healthy: Option<i32>,
    /// Number of its pods that must be healthy.
    pub desired_healthy: Option<i32>,
    /// Pods whose eviction was granted and that still exist, by name; the values are times.
    pub disrupted_pods: BTreeMap<String, Value>,
}

#[object_type]
pub struct PodDisruptionBudgetSpec {
    pub selector: Option<LabelSelector>,
    /// Number or percentage of pods that must stay available.
    pub min_available: Value,
    /// Number or percentage of pods that may be unavailable.
    pub max_unavailable: Value,
    /// `IfHealthyBudget` (default) or `AlwaysAllow`: when pods that are not ready may be evicted.
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
