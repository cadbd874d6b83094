//! Nodes.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::{Empty, ObjectMeta, ResourceList, Shared, nullable};
use crate::syntax::labels::{REGION, ZONE};

/// The labels of a node that the API server copies to a pod when the pod is bound (the admission plugin
/// `PodTopologyLabels`).
pub const TOPOLOGY_LABELS: [&str; 2] = [REGION, ZONE];

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: NodeSpec,
    /// Status. Nodes of one size may share it.
    #[serde(deserialize_with = "nullable")]
    pub status: Shared<NodeStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// The machine at its provider, such as `aws:///eu-west-1a/i-0123`.
    #[serde(rename = "providerID", deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    /// Whether the node is cordoned.
    #[serde(deserialize_with = "nullable")]
    pub unschedulable: bool,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}

/// The key of the taint that the node controller gives cordoned nodes.
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    #[serde(deserialize_with = "nullable")]
    pub key: String,
    #[serde(deserialize_with = "nullable")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[serde(deserialize_with = "nullable")]
    pub effect: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// What the kubelet reports about the machine.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "NodeSystemInfo::is_empty")]
    pub node_info: NodeSystemInfo,
    /// Features that the kubelet declares.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub declared_features: Vec<String>,
}

impl NodeStatus {
    /// The names of the fields.
    pub const FIELDS: [&str; 5] = ["allocatable", "capacity", "images", "nodeInfo", "declaredFeatures"];
}

impl Empty for NodeStatus {
    fn empty() -> &'static Self {
        static EMPTY: LazyLock<NodeStatus> = LazyLock::new(NodeStatus::default);
        &EMPTY
    }
}

/// `status.nodeInfo`, as far as terms can select by it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSystemInfo {
    /// Such as `amd64`.
    #[serde(deserialize_with = "nullable")]
    pub architecture: String,
    /// Such as `containerd://1.7.2`.
    #[serde(deserialize_with = "nullable")]
    pub container_runtime_version: String,
    /// Such as `5.15.0-91-generic`.
    #[serde(deserialize_with = "nullable")]
    pub kernel_version: String,
    /// Such as `v1.36.0`.
    #[serde(deserialize_with = "nullable")]
    pub kubelet_version: String,
    /// Such as `linux`.
    #[serde(deserialize_with = "nullable")]
    pub operating_system: String,
    /// Such as `Ubuntu 22.04.3 LTS`.
    #[serde(deserialize_with = "nullable")]
    pub os_image: String,
}

impl NodeSystemInfo {
    fn is_empty(&self) -> bool {
        *self == NodeSystemInfo::default()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerImage {
    /// All names the image is known by.
    #[serde(deserialize_with = "nullable")]
    pub names: Vec<String>,
    /// Size in bytes.
    #[serde(deserialize_with = "nullable")]
    pub size_bytes: i64,
}
