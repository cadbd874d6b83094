//! The CSINode of a node: its drivers with their limits.

use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiDriverTemplate {
    pub name: String,
    /// How many volumes of the driver a node can attach; no limit if absent.
    pub limit: Option<u32>,
}

/// The CSINode of a node; the node owns it, so it is deleted with the node.
pub(crate) fn new_csi_node(node: &str, uid: &str, drivers: &[CsiDriverTemplate]) -> Value {
    let drivers: Vec<Value> = drivers
        .iter()
        .map(|driver| {
            let mut object =
                json!({"name": driver.name, "nodeID": node, "topologyKeys": ["topology.kubernetes.io/zone"]});
            if let Some(limit) = driver.limit {
                object["allocatable"] = json!({"count": limit});
            }
            object
        })
        .collect();
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid});
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {"name": node, "ownerReferences": [owner]}, "spec": {"drivers": drivers}})
}
