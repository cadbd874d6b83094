//! Deployments.

use serde::Serialize;
use serde_json::Value;

use super::{Condition, Object, WorkloadSelector};

pub(crate) type Deployment = Object<DeploymentSpec, DeploymentStatus>;

berth_api::object_types! {
    pub(crate) struct DeploymentSpec {
        pub(crate) replicas: Option<i32>,
        pub(crate) selector: WorkloadSelector,
        pub(crate) template: Value,
        pub(crate) strategy: Strategy,
        pub(crate) min_ready_seconds: i32,
        pub(crate) revision_history_limit: Option<i32>,
        pub(crate) paused: bool,
        pub(crate) progress_deadline_seconds: Option<i32>,
    }

    /// The update strategy: of a Deployment (`strategy`), a StatefulSet or a DaemonSet (`updateStrategy`).
    pub(crate) struct Strategy {
        /// `RollingUpdate` (also when empty), `Recreate` or `OnDelete`.
        #[serde(rename = "type")]
        pub(crate) kind: String,
        pub(crate) rolling_update: RollingUpdate,
    }

    pub(crate) struct RollingUpdate {
        /// Number or percentage.
        pub(crate) max_surge: Option<Value>,
        /// Number or percentage.
        pub(crate) max_unavailable: Option<Value>,
        /// StatefulSet: ordinals below it keep the old revision.
        pub(crate) partition: i32,
    }

    #[derive(PartialEq, Eq, Serialize)]
    pub(crate) struct DeploymentStatus {
        pub(crate) observed_generation: i64,
        pub(crate) replicas: i32,
        pub(crate) updated_replicas: i32,
        pub(crate) ready_replicas: i32,
        pub(crate) available_replicas: i32,
        pub(crate) unavailable_replicas: i32,
        pub(crate) terminating_replicas: i32,
        pub(crate) collision_count: Option<i32>,
        pub(crate) conditions: Vec<Condition>,
    }
}

impl Deployment {
    pub(crate) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1).max(0)
    }

    pub(crate) fn is_rolling(&self) -> bool {
        self.spec.strategy.kind != "Recreate"
    }
}
