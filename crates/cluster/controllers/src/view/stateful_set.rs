//! StatefulSets, and the revisions of their templates.

use berth_api::object::StatefulSetOrdinals;
use serde::Serialize;
use serde_json::Value;

use super::{Condition, Object, ObjectMeta, Strategy, WorkloadSelector};

pub(crate) type StatefulSet = Object<StatefulSetSpec, StatefulSetStatus>;

berth_api::object_types! {
    pub(crate) struct StatefulSetSpec {
        pub(crate) replicas: Option<i32>,
        pub(crate) selector: WorkloadSelector,
        pub(crate) template: Value,
        pub(crate) volume_claim_templates: Vec<Value>,
        pub(crate) service_name: String,
        /// `OrderedReady` (also when empty) or `Parallel`.
        pub(crate) pod_management_policy: String,
        pub(crate) update_strategy: Strategy,
        pub(crate) revision_history_limit: Option<i32>,
        pub(crate) min_ready_seconds: i32,
        pub(crate) ordinals: StatefulSetOrdinals,
        pub(crate) persistent_volume_claim_retention_policy: RetentionPolicy,
    }

    /// Retention policy of claims: `Retain` (also when empty) or `Delete`.
    pub(crate) struct RetentionPolicy {
        pub(crate) when_deleted: String,
        pub(crate) when_scaled: String,
    }

    #[derive(PartialEq, Eq, Serialize)]
    pub(crate) struct StatefulSetStatus {
        pub(crate) observed_generation: i64,
        pub(crate) replicas: i32,
        pub(crate) ready_replicas: i32,
        pub(crate) available_replicas: i32,
        pub(crate) current_replicas: i32,
        pub(crate) updated_replicas: i32,
        pub(crate) current_revision: String,
        pub(crate) update_revision: String,
        pub(crate) collision_count: Option<i32>,
        pub(crate) conditions: Vec<Condition>,
    }

    pub(crate) struct ControllerRevision {
        pub(crate) metadata: ObjectMeta,
        /// A strategic merge patch that restores this template.
        pub(crate) data: Value,
        pub(crate) revision: i64,
    }
}

impl StatefulSet {
    pub(crate) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1).max(0)
    }

    pub(crate) fn ordinals(&self) -> std::ops::Range<i64> {
        let start = i64::from(self.spec.ordinals.start.max(0));
        start..start + i64::from(self.replicas())
    }

    /// The ordinal of one of its pods, by the pod's name.
    pub(crate) fn ordinal_of(&self, pod: &str) -> Option<i64> {
        let ordinal = pod.strip_prefix(&*self.metadata.name)?.strip_prefix('-')?;
        let plain = ordinal.bytes().all(|byte| byte.is_ascii_digit())
            && (ordinal == "0" || !ordinal.starts_with('0'));
        if plain { ordinal.parse().ok().filter(|&n: &i64| n <= i64::from(i32::MAX)) } else { None }
    }
}
