//! Monitors of the Prometheus Operator: which pods are scraped, and where.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LabelSelector, ObjectMeta, nullable};

/// A PodMonitor, which selects pods, or a ServiceMonitor, which selects Services and thereby their pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Monitor {
    /// Whether it is a ServiceMonitor.
    #[serde(skip)]
    pub selects_services: bool,
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: MonitorSpec,
}

/// `spec` of a monitor: the fields of both kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MonitorSpec {
    /// The pods or Services; an absent selector selects all.
    #[serde(deserialize_with = "nullable")]
    pub selector: LabelSelector,
    /// Their namespaces; the namespace of the monitor when empty.
    #[serde(deserialize_with = "nullable")]
    pub namespace_selector: MonitorNamespaces,
    /// What is scraped in the pods of a PodMonitor.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub pod_metrics_endpoints: Vec<MonitorEndpoint>,
    /// What is scraped behind the Services of a ServiceMonitor.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<MonitorEndpoint>,
}

/// `spec.namespaceSelector` of a monitor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MonitorNamespaces {
    /// Whether all namespaces are selected.
    #[serde(deserialize_with = "nullable")]
    pub any: bool,
    /// The names of the selected namespaces.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub match_names: Vec<String>,
}

/// An endpoint that a monitor scrapes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MonitorEndpoint {
    /// Name of a port: of the pods, or of the Service.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub port: String,
    /// Number of a port of the pods.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Value::is_null")]
    pub port_number: Value,
    /// Number or name of a port of the pods.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Value::is_null")]
    pub target_port: Value,
    /// `/metrics` by default.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub path: String,
}
