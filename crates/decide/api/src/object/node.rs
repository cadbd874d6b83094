//! Nodes.

use berth_api_macros::object_type;
use std::sync::LazyLock;

use super::{Empty, ObjectMeta, ResourceList, Shared, nullable};
use crate::syntax::labels::{REGION, ZONE};

/// The labels of a node that the API server copies to a pod when the pod is bound (the admission plugin
/// `PodTopologyLabels`).
pub const TOPOLOGY_LABELS: [&str; 2] = [REGION, ZONE];

#[object_type]
pub struct Node {
    pub metadata: ObjectMeta,
    pub spec: NodeSpec,
    /// Status. Nodes of one size may share it.
    pub status: Shared<NodeStatus>,
}

#[object_type(Eq, Hash)]
pub struct NodeSpec {
    /// The machine at its provider, such as `aws:///eu-west-1a/i-0123`.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// Whether the node is cordoned.
    pub unschedulable: bool,
    pub taints: Vec<Taint>,
    pub pod_preemption_policy: PodPreemptionPolicy,
}

/// How pods preempt others for which no node is chosen any more.
#[object_type(Eq, Hash)]
pub struct PodPreemptionPolicy {
    /// If there are any, no pod is preempted on the node for the resize of another.
    pub disable_resize_preemption: Vec<String>,
}

/// The key of the taint that the node controller gives cordoned nodes.
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

#[object_type(Eq, Hash)]
pub struct Taint {
    pub key: String,
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

#[object_type(Eq, Hash)]
pub struct NodeStatus {
    /// Resources available to pods.
    pub allocatable: Option<ResourceList>,
    /// Resources of the machine. Kubernetes schedules by `allocatable` only.
    pub capacity: Option<ResourceList>,
    /// Images present on the node.
    pub images: Vec<ContainerImage>,
    /// What the kubelet reports about the machine.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "NodeSystemInfo::is_empty")]
    pub node_info: NodeSystemInfo,
    /// Features that the kubelet declares.
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
#[object_type(Eq, Hash)]
pub struct NodeSystemInfo {
    /// Such as `amd64`.
    pub architecture: String,
    /// Such as `containerd://1.7.2`.
    pub container_runtime_version: String,
    /// Such as `5.15.0-91-generic`.
    pub kernel_version: String,
    /// Such as `v1.36.0`.
    pub kubelet_version: String,
    /// Such as `linux`.
    pub operating_system: String,
    /// Such as `Ubuntu 22.04.3 LTS`.
    pub os_image: String,
}

impl NodeSystemInfo {
    fn is_empty(&self) -> bool {
        *self == NodeSystemInfo::default()
    }
}

#[object_type(Eq, Hash)]
pub struct ContainerImage {
    /// All names the image is known by.
    pub names: Vec<String>,
    pub size_bytes: i64,
}
