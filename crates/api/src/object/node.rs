//! Nodes.

use serde::{Deserialize, Serialize};

use super::{ObjectMeta, ResourceList, nullable};

/// The labels of a node that the API server copies to a pod when the pod is bound (the admission plugin
/// `PodTopologyLabels`).
pub const TOPOLOGY_LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// Metadata.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(deserialize_with = "nullable")]
    pub spec: NodeSpec,
    /// Status.
    #[serde(deserialize_with = "nullable")]
    pub status: NodeStatus,
}

/// `spec` of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// Whether the node is cordoned.
    #[serde(deserialize_with = "nullable")]
    pub unschedulable: bool,
    /// Taints.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}

/// A taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// Key.
    #[serde(deserialize_with = "nullable")]
    pub key: String,
    /// Value.
    #[serde(deserialize_with = "nullable")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[serde(deserialize_with = "nullable")]
    pub effect: String,
}

/// `status` of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// Resources available to pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<ResourceList>,
    /// Resources of the machine. Kubernetes schedules by `allocatable` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ResourceList>,
    /// Images present on the node.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ContainerImage>,
    /// Features that the kubelet declares.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub declared_features: Vec<String>,
}

/// An image on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerImage {
    /// All names the image is known by.
    #[serde(deserialize_with = "nullable")]
    pub names: Vec<String>,
    /// Size in bytes.
    #[serde(deserialize_with = "nullable")]
    pub size_bytes: i64,
}
