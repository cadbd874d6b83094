//! ReplicaSets and ReplicationControllers, which differ in how their selector is written.

use serde::Serialize;
use serde_json::Value;

use super::{Condition, Object, WorkloadSelector};

pub(crate) type ReplicaSet = Object<ReplicaSetSpec, ReplicaSetStatus>;

berth_api::object_types! {
    pub(crate) struct ReplicaSetSpec {
        pub(crate) replicas: Option<i32>,
        pub(crate) min_ready_seconds: i32,
        pub(crate) selector: WorkloadSelector,
        pub(crate) template: Value,
    }

    #[derive(PartialEq, Eq, Serialize)]
    pub(crate) struct ReplicaSetStatus {
        pub(crate) replicas: i32,
        pub(crate) fully_labeled_replicas: i32,
        pub(crate) ready_replicas: i32,
        pub(crate) available_replicas: i32,
        pub(crate) terminating_replicas: i32,
        pub(crate) observed_generation: i64,
        pub(crate) conditions: Vec<Condition>,
    }
}

impl ReplicaSet {
    pub(crate) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1).max(0)
    }
}
