//! The Lease of a node: its frequent heartbeat.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use serde_json::{Value, json};

/// The namespace of the nodes' Leases.
pub(crate) const LEASE_NAMESPACE: &str = "kube-node-lease";

/// The Lease of a node; the node owns it, so it is deleted with the node.
pub(crate) fn new_lease(node: &str, uid: &str, duration: Duration, now: Timestamp) -> Lease {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    };
    Lease {
        metadata: ObjectMeta {
            name: Some(node.to_owned()),
            namespace: Some(LEASE_NAMESPACE.to_owned()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(node.to_owned()),
            lease_duration_seconds: Some(duration.as_secs().clamp(1, i32::MAX as u64) as i32),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    }
}

/// A merge patch that renews the Lease. It includes the holder, so that it also repairs a changed Lease.
pub(crate) fn renewal(node: &str, duration: Duration, now: Timestamp) -> Value {
    json!({ "spec": {
        "holderIdentity": node,
        "leaseDurationSeconds": duration.as_secs().clamp(1, i32::MAX as u64),
        "renewTime": MicroTime(now),
    }})
}
