//! Namespaces, services, priority classes and disruption budgets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LabelSelector, ObjectMeta, StringMap, nullable};

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Namespace {
    /// Metadata.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
}

/// A service. Default spread constraints use its selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Service {
    /// Metadata.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(deserialize_with = "nullable")]
    pub spec: ServiceSpec,
}

/// `spec` of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// Pods behind the service; a service without one selects nothing.
    #[serde(deserialize_with = "nullable")]
    pub selector: StringMap,
}

/// A priority class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityClass {
    /// Metadata.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// The priority.
    #[serde(deserialize_with = "nullable")]
    pub value: i32,
    /// Whether this class is the default of pods without a class.
    #[serde(deserialize_with = "nullable")]
    pub global_default: bool,
    /// `PreemptLowerPriority` or `Never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption_policy: Option<String>,
}

/// A pod disruption budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudget {
    /// Metadata.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(deserialize_with = "nullable")]
    pub spec: PodDisruptionBudgetSpec,
    /// Status.
    #[serde(deserialize_with = "nullable")]
    pub status: PodDisruptionBudgetStatus,
}

/// `status` of a pod disruption budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatus {
    /// How many of its pods may be evicted now.
    #[serde(deserialize_with = "nullable")]
    pub disruptions_allowed: i32,
    /// Pods whose eviction was granted and that still exist, by name; the values are times.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub disrupted_pods: BTreeMap<String, Value>,
}

/// `spec` of a pod disruption budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetSpec {
    /// The pods it covers.
    pub selector: Option<LabelSelector>,
    /// Number or percentage of pods that must stay available.
    #[serde(skip_serializing_if = "Value::is_null", deserialize_with = "nullable")]
    pub min_available: Value,
    /// Number or percentage of pods that may be unavailable.
    #[serde(skip_serializing_if = "Value::is_null", deserialize_with = "nullable")]
    pub max_unavailable: Value,
}
