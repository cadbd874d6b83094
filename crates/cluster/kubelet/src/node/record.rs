//! The Node object: registration, reading it back, and heartbeats.

use std::net::Ipv4Addr;

use berth_api::object::time::rfc3339;
use berth_api::object::{
    Condition, ContainerImage, Node, ObjectMeta, ResourceList, StringMap, find_condition,
};
use berth_api::syntax::labels::{HOSTNAME, kubelet_may_set};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

berth_api::object_types! {
    /// The fields of a node that the agent reads.
    pub(crate) struct NodeView {
        pub(crate) metadata: ObjectMeta,
        spec: Option<berth_api::object::NodeSpec>,
        status: Option<Status>,
    }

    struct Status {
        allocatable: Option<ResourceList>,
        capacity: Option<ResourceList>,
        images: Option<Vec<ContainerImage>>,
        conditions: Option<Vec<Condition>>,
        addresses: Option<Vec<Address>>,
        node_info: Option<Value>,
    }

    struct Address {
        #[serde(rename = "type")]
        kind: String,
        address: String,
    }
}

berth_client::has_metadata!(NodeView);

impl NodeView {
    pub(crate) fn internal_ip(&self) -> Option<Ipv4Addr> {
        let addresses = self.status.as_ref()?.addresses.as_ref()?;
        addresses.iter().filter(|a| a.kind == "InternalIP").find_map(|a| a.address.parse().ok())
    }

    fn condition(&self, condition_type: &str) -> Option<&Condition> {
        find_condition(self.status.as_ref()?.conditions.as_ref()?, condition_type)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(Condition::is_true)
    }

    fn offers_resources(&self) -> bool {
        self.status.as_ref().is_some_and(|s| s.allocatable.is_some())
    }

    pub(crate) fn to_node(&self) -> Node {
        let status = self.status.clone().unwrap_or_default();
        Node {
            metadata: ObjectMeta {
                name: self.metadata.name.clone(),
                uid: self.metadata.uid.clone(),
                labels: self.metadata.labels.clone(),
                annotations: self.metadata.annotations.clone(),
                ..ObjectMeta::default()
            },
            spec: self.spec.clone().unwrap_or_default(),
            status: berth_api::object::NodeStatus {
                allocatable: status.allocatable,
                capacity: status.capacity,
                images: status.images.unwrap_or_default(),
                node_info: status
                    .node_info
                    .and_then(|info| serde_json::from_value(info).ok())
                    .unwrap_or_default(),
                ..berth_api::object::NodeStatus::default()
            }
            .into(),
        }
    }
}

/// The object that registers a node, with its status, as a kubelet does it.
pub(crate) fn new_node(node: &Node, ip: Ipv4Addr, now: Timestamp) -> Value {
    let taints = &node.spec.taints;
    let spec = if taints.is_empty() { json!({}) } else { json!({ "taints": taints }) };
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": node.metadata.name, "labels": node.metadata.labels },
        "spec": spec,
        "status": full_status(node, None, ip, now),
    })
}

/// Whether the node's status must be reported now: it is not ready or offers no resources.
pub(crate) fn needs_status(node: &NodeView) -> bool {
    !node.is_ready() || !node.offers_resources()
}

/// A strategic merge patch of the status: the heartbeat. An adopted node keeps its resources, images, addresses and
/// system information; the template adds what is missing.
pub(crate) fn heartbeat_status(node: &NodeView, template: &Node, ip: Ipv4Addr, now: Timestamp) -> Value {
    json!({ "status": full_status(template, Some(node), ip, now) })
}

/// A merge patch with the labels that a kubelet sets on its node and that this one lacks; none if it has them.
pub(crate) fn missing_labels(node: &NodeView) -> Option<Value> {
    let labels = &node.metadata.labels;
    let kubelet_labels = [
        (HOSTNAME, node.metadata.name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
    ];
    let missing: Map<_, _> = kubelet_labels
        .into_iter()
        .filter(|(key, _)| !labels.contains_key(*key))
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect();
    (!missing.is_empty()).then(|| json!({ "metadata": { "labels": missing } }))
}

/// Whether the node's own identity may set these labels. NodeRestriction denies it most labels of Kubernetes, such as
/// `node-role.kubernetes.io/...`.
pub(crate) fn may_set_own_labels(labels: &StringMap) -> bool {
    labels.keys().all(|key| kubelet_may_set(key))
}

fn full_status(template: &Node, current: Option<&NodeView>, ip: Ipv4Addr, now: Timestamp) -> Value {
    let mut status = Map::new();
    status.insert("conditions".to_owned(), conditions(current, now));
    let current = current.and_then(|node| node.status.as_ref());
    if current.is_none_or(|s| s.allocatable.is_none()) {
        // A node with a capacity and no allocatable offers its whole capacity.
        let capacity = current.and_then(|s| s.capacity.as_ref()).or(template.status.capacity.as_ref());
        let allocatable = current.and_then(|s| s.capacity.as_ref()).or(template.status.allocatable.as_ref());
        status.insert("capacity".to_owned(), json!(capacity));
        status.insert("allocatable".to_owned(), json!(allocatable));
    }
    if current.is_none_or(|s| s.images.is_none()) && !template.status.images.is_empty() {
        status.insert("images".to_owned(), json!(template.status.images));
    }
    if current.is_none_or(|s| s.addresses.as_ref().is_none_or(Vec::is_empty)) {
        let addresses = json!([{"type": "InternalIP", "address": ip},
            {"type": "Hostname", "address": template.metadata.name}]);
        status.insert("addresses".to_owned(), addresses);
    }
    if current.is_none_or(|s| !has_kubelet_version(s)) {
        let mut info = system_info(template);
        let current = current.and_then(|s| s.node_info.as_ref()).and_then(Value::as_object);
        // A node that was created with some of it keeps that.
        for (field, value) in current.into_iter().flatten().filter(|(_, value)| *value != "") {
            info[field] = value.clone();
        }
        status.insert("nodeInfo".to_owned(), info);
    }
    Value::Object(status)
}

/// A stored node always has the field; it is empty until a kubelet reports it.
fn has_kubelet_version(status: &Status) -> bool {
    let version = status.node_info.as_ref().and_then(|info| info.get("kubeletVersion"));
    version.and_then(Value::as_str).is_some_and(|v| !v.is_empty())
}

fn conditions(current: Option<&NodeView>, now: Timestamp) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        let since = current.and_then(|node| node.condition(kind)).filter(|c| c.status == status);
        let since = since.and_then(|c| c.last_transition_time).unwrap_or(now);
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": rfc3339(now), "lastTransitionTime": rfc3339(since)})
    };
    let fine = |kind, reason, message| condition(kind, "False", reason, message);
    json!([
        fine("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        fine("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        fine("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ])
}

fn system_info(node: &Node) -> Value {
    let or = |key: &str, default: &str| {
        let label = node.metadata.labels.get(key).filter(|label| !label.is_empty());
        label.cloned().unwrap_or_else(|| default.to_owned())
    };
    // A simulated node has no hardware identity; its name is used.
    let name = &node.metadata.name;
    json!({
        "architecture": or("kubernetes.io/arch", "amd64"),
        "operatingSystem": or("kubernetes.io/os", "linux"),
        "containerRuntimeVersion": concat!("berth://", env!("CARGO_PKG_VERSION")),
        "kubeletVersion": node.status.node_info.kubelet_version,
        "kubeProxyVersion": "",
        "osImage": "Berth simulated node",
        "kernelVersion": "none",
        "machineID": name,
        "systemUUID": name,
        "bootID": name,
    })
}
