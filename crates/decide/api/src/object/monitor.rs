//! Monitors of the Prometheus Operator: which pods are scraped, and where.

use berth_api_macros::object_type;
use serde_json::Value;

use super::{LabelSelector, ObjectMeta};

/// A PodMonitor, which selects pods, or a ServiceMonitor, which selects Services and thereby their pods.
#[object_type(Eq)]
pub struct Monitor {
    #[serde(skip)]
    pub selects_services: bool,
    pub metadata: ObjectMeta,
    pub spec: MonitorSpec,
}

/// `spec` of a monitor: the fields of both kinds.
#[object_type(Eq)]
pub struct MonitorSpec {
    /// The pods or Services; an absent selector selects all.
    pub selector: LabelSelector,
    /// Their namespaces; the namespace of the monitor when empty.
    pub namespace_selector: MonitorNamespaces,
    /// What is scraped in the pods of a PodMonitor.
    pub pod_metrics_endpoints: Vec<MonitorEndpoint>,
    /// What is scraped behind the Services of a ServiceMonitor.
    pub endpoints: Vec<MonitorEndpoint>,
}

/// `spec.namespaceSelector` of a monitor.
#[object_type(Eq)]
pub struct MonitorNamespaces {
    /// Whether all namespaces are selected.
    pub any: bool,
    /// The names of the selected namespaces.
    pub match_names: Vec<String>,
}

/// An endpoint that a monitor scrapes.
#[object_type(Eq)]
pub struct MonitorEndpoint {
    /// Name of a port: of the pods, or of the Service.
    pub port: String,
    /// Number of a port of the pods.
    pub port_number: Value,
    /// Number or name of a port of the pods.
    pub target_port: Value,
    /// `/metrics` by default.
    pub path: String,
}
