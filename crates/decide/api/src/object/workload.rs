//! Workloads: the fields that decide how many pods they create.
//!
//! Pod templates are JSON values: the created pods must have every field of the template.

use berth_api_macros::object_type;
use serde_json::Value;

use super::volume::PersistentVolumeClaim;
use super::{Condition, LabelSelector, ObjectMeta, StringMap, nullable};

/// Deployment, ReplicaSet, StatefulSet or DaemonSet (`apps/v1`).
#[object_type]
pub struct Workload {
    pub metadata: ObjectMeta,
    pub spec: WorkloadSpec,
}

/// `spec` of a Deployment, ReplicaSet, StatefulSet or DaemonSet.
#[object_type]
pub struct WorkloadSpec {
    /// Desired number of pods; 1 when absent. A DaemonSet has none.
    pub replicas: Option<i32>,
    pub selector: Option<LabelSelector>,
    pub template: Value,
    /// StatefulSet: `OrderedReady` (default) or `Parallel`.
    pub pod_management_policy: String,
    /// StatefulSet: the first ordinal.
    pub ordinals: Option<StatefulSetOrdinals>,
    /// StatefulSet: the service of its pods' DNS names.
    pub service_name: String,
    /// Deployment: how pods get a new template.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "UpdateStrategy::is_default")]
    pub strategy: UpdateStrategy,
    /// Deployment: whether pods keep their template for now.
    pub paused: bool,
    /// StatefulSet, DaemonSet: how pods get a new template.
    pub update_strategy: UpdateStrategy,
    /// StatefulSet: templates of the volume claims of each pod.
    pub volume_claim_templates: Vec<PersistentVolumeClaim>,
}

/// `strategy` of a Deployment, `updateStrategy` of a StatefulSet or DaemonSet.
#[object_type(Eq)]
pub struct UpdateStrategy {
    /// `RollingUpdate` (default); `Recreate` for a Deployment, `OnDelete` for the others.
    #[serde(rename = "type")]
    pub kind: String,
    /// Parameters of a rolling update.
    pub rolling_update: RollingUpdate,
}

impl UpdateStrategy {
    fn is_default(&self) -> bool {
        *self == UpdateStrategy::default()
    }
}

#[object_type(Eq)]
pub struct RollingUpdate {
    /// StatefulSet: the first ordinal that is updated.
    pub partition: i32,
    /// Deployment, DaemonSet: number or percentage of pods beyond the desired number.
    pub max_surge: Option<Box<Value>>,
    /// Number or percentage of pods that may be unavailable.
    pub max_unavailable: Option<Box<Value>>,
}

#[object_type(Eq)]
pub struct StatefulSetOrdinals {
    pub start: i32,
}

/// ReplicationController (`v1`): its selector is a plain map.
#[object_type]
pub struct ReplicationController {
    pub metadata: ObjectMeta,
    pub spec: ReplicationControllerSpec,
}

#[object_type]
pub struct ReplicationControllerSpec {
    /// Desired number of pods; 1 when absent.
    pub replicas: Option<i32>,
    /// The pods it manages; the template's labels when absent.
    pub selector: StringMap,
    pub template: Value,
}

/// HorizontalPodAutoscaler (`autoscaling`, all versions): what it scales, and within which bounds.
#[object_type]
pub struct HorizontalPodAutoscaler {
    pub metadata: ObjectMeta,
    pub spec: HorizontalPodAutoscalerSpec,
}

#[object_type]
pub struct HorizontalPodAutoscalerSpec {
    pub scale_target_ref: ScaleTargetRef,
    /// 1 when absent.
    pub min_replicas: Option<i32>,
    pub max_replicas: i32,
}

#[object_type]
pub struct ScaleTargetRef {
    pub api_version: String,
    pub kind: String,
    pub name: String,
}

#[object_type]
pub struct Job {
    pub metadata: ObjectMeta,
    pub spec: JobSpec,
    pub status: JobStatus,
}

#[object_type]
pub struct JobSpec {
    /// Number of pods that run at the same time; 1 when absent.
    pub parallelism: Option<i32>,
    /// Number of pods that must succeed.
    pub completions: Option<i32>,
    /// `NonIndexed` (default) or `Indexed`.
    pub completion_mode: Option<String>,
    /// Whether the user sets the selector and its labels.
    pub manual_selector: bool,
    /// The pods it manages, if the user sets it.
    pub selector: Option<LabelSelector>,
    /// Whether the Job is suspended: it creates no pods.
    pub suspend: bool,
    pub template: Value,
}

#[object_type(Eq)]
pub struct JobStatus {
    /// How many pods have succeeded.
    pub succeeded: i32,
    /// Indexes that have succeeded, such as `0-2,5`.
    pub completed_indexes: String,
    /// Indexes that have failed for good, in the same form.
    pub failed_indexes: String,
    pub conditions: Vec<Condition>,
}

impl JobStatus {
    /// Whether the Job is complete or has failed.
    pub fn is_finished(&self) -> bool {
        let ends = |c: &Condition| matches!(c.condition_type.as_str(), "Complete" | "Failed");
        self.conditions.iter().any(|c| ends(c) && c.is_true())
    }
}

#[object_type]
pub struct CronJob {
    pub metadata: ObjectMeta,
    pub spec: CronJobSpec,
}

#[object_type]
pub struct CronJobSpec {
    /// Whether the CronJob is suspended: it creates no Jobs.
    pub suspend: bool,
    pub job_template: Value,
}
