//! DaemonSets.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Condition, ObjectMeta, Strategy, WorkloadSelector, nullable};

/// A DaemonSet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DaemonSet {
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: DaemonSetSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: DaemonSetStatus,
}

/// `spec` of a DaemonSet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DaemonSetSpec {
    #[serde(deserialize_with = "nullable")]
    pub(crate) selector: WorkloadSelector,
    #[serde(deserialize_with = "nullable")]
    pub(crate) template: Value,
    #[serde(deserialize_with = "nullable")]
    pub(crate) update_strategy: Strategy,
    #[serde(deserialize_with = "nullable")]
    pub(crate) min_ready_seconds: i32,
    pub(crate) revision_history_limit: Option<i32>,
}

/// `status` of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DaemonSetStatus {
    #[serde(deserialize_with = "nullable")]
    pub(crate) current_number_scheduled: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) number_misscheduled: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) desired_number_scheduled: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) number_ready: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) updated_number_scheduled: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) number_available: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) number_unavailable: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) observed_generation: i64,
    pub(crate) collision_count: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) conditions: Vec<Condition>,
}
