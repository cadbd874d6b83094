//! DaemonSets.

use serde::Serialize;
use serde_json::Value;

use super::{Condition, Object, Strategy, WorkloadSelector};

pub(crate) type DaemonSet = Object<DaemonSetSpec, DaemonSetStatus>;

berth_api::object_types! {
    pub(crate) struct DaemonSetSpec {
        pub(crate) selector: WorkloadSelector,
        pub(crate) template: Value,
        pub(crate) update_strategy: Strategy,
        pub(crate) min_ready_seconds: i32,
        pub(crate) revision_history_limit: Option<i32>,
    }

    #[derive(PartialEq, Eq, Serialize)]
    pub(crate) struct DaemonSetStatus {
        pub(crate) current_number_scheduled: i32,
        pub(crate) number_misscheduled: i32,
        pub(crate) desired_number_scheduled: i32,
        pub(crate) number_ready: i32,
        pub(crate) updated_number_scheduled: i32,
        pub(crate) number_available: i32,
        pub(crate) number_unavailable: i32,
        pub(crate) observed_generation: i64,
        pub(crate) collision_count: Option<i32>,
        pub(crate) conditions: Vec<Condition>,
    }
}
