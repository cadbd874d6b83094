//! The Lease of a node: its frequent heartbeat.

use std::time::Duration;

use berth_api::object::time::rfc3339_micros;
use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) const LEASE_NAMESPACE: &str = "kube-node-lease";

/// The Lease of a node; the node owns it, so it is deleted with the node.
pub(crate) fn new_lease(node: &str, uid: &str, duration: Duration, now: Timestamp) -> Value {
    let mut lease = renewal(node, duration, now);
    lease["metadata"] = json!({"name": node, "namespace": LEASE_NAMESPACE,
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}]});
    lease["apiVersion"] = "coordination.k8s.io/v1".into();
    lease["kind"] = "Lease".into();
    lease
}

/// A merge patch that renews the Lease. It includes the holder, so that it also repairs a changed Lease.
pub(crate) fn renewal(node: &str, duration: Duration, now: Timestamp) -> Value {
    json!({ "spec": {
        "holderIdentity": node,
        "leaseDurationSeconds": duration.as_secs().clamp(1, i32::MAX as u64),
        "renewTime": rfc3339_micros(now),
    }})
}
