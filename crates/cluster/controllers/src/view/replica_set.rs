//! ReplicaSets and ReplicationControllers, which differ in how their selector is written.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Condition, ObjectMeta, WorkloadSelector, nullable};

/// A ReplicaSet or ReplicationController.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReplicaSet {
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: ReplicaSetSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: ReplicaSetStatus,
}

/// `spec` of a ReplicaSet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReplicaSetSpec {
    pub(crate) replicas: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) min_ready_seconds: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) selector: WorkloadSelector,
    #[serde(deserialize_with = "nullable")]
    pub(crate) template: Value,
}

/// `status` of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReplicaSetStatus {
    #[serde(deserialize_with = "nullable")]
    pub(crate) replicas: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) fully_labeled_replicas: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) ready_replicas: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) available_replicas: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) terminating_replicas: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) observed_generation: i64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) conditions: Vec<Condition>,
}

impl ReplicaSet {
    /// Wanted pods.
    pub(crate) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1).max(0)
    }
}
