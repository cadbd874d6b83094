//! Nodes and their leases.

use berth_api::object::Taint;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Condition, ObjectMeta, nullable, time};

/// A node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Node {
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: NodeSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: NodeStatus,
}

/// `spec` of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeSpec {
    #[serde(deserialize_with = "nullable")]
    pub(crate) unschedulable: bool,
    #[serde(deserialize_with = "nullable")]
    pub(crate) taints: Vec<NodeTaint>,
}

/// A taint with the time it was added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeTaint {
    #[serde(flatten)]
    pub(crate) taint: Taint,
    #[serde(with = "time", skip_serializing_if = "Option::is_none")]
    pub(crate) time_added: Option<Timestamp>,
}

/// `status` of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeStatus {
    #[serde(deserialize_with = "nullable")]
    pub(crate) conditions: Vec<Condition>,
}

/// A lease: the node renews it as a heartbeat.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Lease {
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: LeaseSpec,
}

/// `spec` of a lease.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LeaseSpec {
    #[serde(deserialize_with = "nullable")]
    pub(crate) renew_time: String,
}
