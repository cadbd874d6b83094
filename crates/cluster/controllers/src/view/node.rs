//! Nodes and their leases.

use std::borrow::Borrow;

use berth_api::object::Taint;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Condition, Object, find_condition, time};

pub(crate) type Node = Object<NodeSpec, NodeStatus>;
/// A lease: the node renews it as a heartbeat.
pub(crate) type Lease = Object<LeaseSpec>;

berth_api::object_types! {
    pub(crate) struct NodeSpec {
        pub(crate) unschedulable: bool,
        pub(crate) taints: Vec<NodeTaint>,
    }
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

impl Borrow<Taint> for NodeTaint {
    fn borrow(&self) -> &Taint {
        &self.taint
    }
}

impl Node {
    /// Whether a condition has this status.
    pub(crate) fn holds(&self, condition: &str, status: &str) -> bool {
        find_condition(&self.status.conditions, condition).is_some_and(|c| c.status == status)
    }
}

berth_api::object_types! {
    pub(crate) struct NodeStatus {
        pub(crate) conditions: Vec<Condition>,
    }

    pub(crate) struct LeaseSpec {
        pub(crate) renew_time: String,
    }
}
