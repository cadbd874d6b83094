//! Deployments.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Condition, ObjectMeta, WorkloadSelector, nullable};

/// A Deployment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Deployment {
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: DeploymentSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: DeploymentStatus,
}

/// `spec` of a Deployment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeploymentSpec {
    pub(crate) replicas: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) selector: WorkloadSelector,
    #[serde(deserialize_with = "nullable")]
    pub(crate) template: Value,
    #[serde(deserialize_with = "nullable")]
    pub(crate) strategy: Strategy,
    #[serde(deserialize_with = "nullable")]
    pub(crate) min_ready_seconds: i32,
    pub(crate) revision_history_limit: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) paused: bool,
    pub(crate) progress_deadline_seconds: Option<i32>,
}

/// The update strategy: of a Deployment (`strategy`), a StatefulSet or a DaemonSet (`updateStrategy`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Strategy {
    /// `RollingUpdate` (also when empty), `Recreate` or `OnDelete`.
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) rolling_update: RollingUpdate,
}

/// `rollingUpdate` of a strategy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RollingUpdate {
    /// Number or percentage.
    pub(crate) max_surge: Option<Value>,
    /// Number or percentage.
    pub(crate) max_unavailable: Option<Value>,
    /// StatefulSet: ordinals below it keep the old revision.
    #[serde(deserialize_with = "nullable")]
    pub(crate) partition: i32,
}

/// `status` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeploymentStatus {
    #[serde(deserialize_with = "nullable")]
    pub(crate) observed_generation: i64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) replicas: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) updated_replicas: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) ready_replicas: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) available_replicas: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) unavailable_replicas: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) terminating_replicas: i32,
    pub(crate) collision_count: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) conditions: Vec<Condition>,
}

impl Deployment {
    /// Wanted pods.
    pub(crate) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1).max(0)
    }

    pub(crate) fn is_rolling(&self) -> bool {
        self.spec.strategy.kind != "Recreate"
    }
}
