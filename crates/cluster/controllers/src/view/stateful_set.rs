//! StatefulSets, and the revisions of their templates.

use berth_api::object::StatefulSetOrdinals;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Condition, ObjectMeta, Strategy, WorkloadSelector, nullable};

/// A StatefulSet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StatefulSet {
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: StatefulSetSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: StatefulSetStatus,
}

/// `spec` of a StatefulSet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StatefulSetSpec {
    pub(crate) replicas: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) selector: WorkloadSelector,
    #[serde(deserialize_with = "nullable")]
    pub(crate) template: Value,
    #[serde(deserialize_with = "nullable")]
    pub(crate) volume_claim_templates: Vec<Value>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) service_name: String,
    /// `OrderedReady` (also when empty) or `Parallel`.
    #[serde(deserialize_with = "nullable")]
    pub(crate) pod_management_policy: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) update_strategy: Strategy,
    pub(crate) revision_history_limit: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) min_ready_seconds: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) ordinals: StatefulSetOrdinals,
    #[serde(deserialize_with = "nullable")]
    pub(crate) persistent_volume_claim_retention_policy: RetentionPolicy,
}

/// Retention policy of claims: `Retain` (also when empty) or `Delete`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RetentionPolicy {
    #[serde(deserialize_with = "nullable")]
    pub(crate) when_deleted: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) when_scaled: String,
}

/// `status` of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StatefulSetStatus {
    #[serde(deserialize_with = "nullable")]
    pub(crate) observed_generation: i64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) replicas: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) ready_replicas: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) available_replicas: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) current_replicas: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) updated_replicas: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) current_revision: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) update_revision: String,
    pub(crate) collision_count: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) conditions: Vec<Condition>,
}

/// A revision of the template of a StatefulSet or DaemonSet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ControllerRevision {
    pub(crate) metadata: ObjectMeta,
    /// A strategic merge patch that restores this template.
    #[serde(deserialize_with = "nullable")]
    pub(crate) data: Value,
    #[serde(deserialize_with = "nullable")]
    pub(crate) revision: i64,
}

impl StatefulSet {
    /// Wanted pods.
    pub(crate) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1).max(0)
    }

    /// The wanted ordinals.
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
