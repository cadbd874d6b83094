//! Nodes and pods for clients that count objects or wait for them.

use berth_api::object::{Condition, ObjectMeta, find_condition, node_rejection};
use serde::Deserialize;

/// A node or a pod, with the fields that show how far it is.
///
/// A client that watches all pods to count them keeps this view instead of [`Pod`](berth_api::object::Pod), which it would
/// read in full at each change. [`Node`](berth_api::object::Node) has no conditions: they do not matter for placement.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ObservedObject {
    pub metadata: ObjectMeta,
    pub spec: ObservedSpec,
    pub status: ObservedStatus,
}

/// `spec` of a pod; empty for a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedSpec {
    /// The node; empty while the pod is pending.
    pub node_name: String,
    pub priority: Option<i32>,
}

/// `status` of a node or pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedStatus {
    pub phase: String,
    /// Why a pod has this phase, in one word.
    pub reason: String,
    /// Why a pod has this phase.
    pub message: String,
    pub conditions: Vec<Condition>,
    /// The node on which a scheduler preempts pods for this one.
    pub nominated_node_name: String,
}

crate::has_metadata!(ObservedObject);

impl ObservedObject {
    pub fn is_ready(&self) -> bool {
        find_condition(&self.status.conditions, "Ready").is_some_and(Condition::is_true)
    }

    pub fn node(&self) -> Option<&str> {
        Some(self.spec.node_name.as_str()).filter(|node| !node.is_empty())
    }

    /// The condition `PodScheduled` of a pod without a node if it is false: why it has none.
    pub fn unscheduled_condition(&self) -> Option<&Condition> {
        let condition = find_condition(&self.status.conditions, "PodScheduled")?;
        (self.node().is_none() && condition.status == "False").then_some(condition)
    }

    /// Reason and message of a pod that its node rejected, such as `OutOfcpu`.
    pub fn rejection(&self) -> Option<(&str, &str)> {
        let ObservedStatus { phase, reason, message, .. } = &self.status;
        node_rejection(phase, reason, message)
    }

    /// Whether a nominated node waits for the termination of preempted pods.
    pub fn is_nominated(&self) -> bool {
        self.node().is_none() && !self.status.nominated_node_name.is_empty()
    }
}
