//! Workloads: the fields that decide how many pods they create.
//!
//! Pod templates are JSON values: the created pods must have every field of the template.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::volume::PersistentVolumeClaim;
use super::{Condition, LabelSelector, ObjectMeta, StringMap, nullable};

/// Deployment, ReplicaSet, StatefulSet or DaemonSet (`apps/v1`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Workload {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: WorkloadSpec,
}

/// `spec` of a Deployment, ReplicaSet, StatefulSet or DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSpec {
    /// Desired number of pods; 1 when absent. A DaemonSet has none.
    pub replicas: Option<i32>,
    pub selector: Option<LabelSelector>,
    /// The template of its pods.
    #[serde(deserialize_with = "nullable")]
    pub template: Value,
    /// StatefulSet: `OrderedReady` (default) or `Parallel`.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub pod_management_policy: String,
    /// StatefulSet: the first ordinal.
    pub ordinals: Option<StatefulSetOrdinals>,
    /// StatefulSet: the service of its pods' DNS names.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub service_name: String,
    /// Deployment: how pods get a new template.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "UpdateStrategy::is_default")]
    pub strategy: UpdateStrategy,
    /// Deployment: whether pods keep their template for now.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// StatefulSet, DaemonSet: how pods get a new template.
    #[serde(deserialize_with = "nullable")]
    pub update_strategy: UpdateStrategy,
    /// StatefulSet: templates of the volume claims of each pod.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub volume_claim_templates: Vec<PersistentVolumeClaim>,
}

/// `strategy` of a Deployment, `updateStrategy` of a StatefulSet or DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    /// `RollingUpdate` (default); `Recreate` for a Deployment, `OnDelete` for the others.
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub kind: String,
    /// Parameters of a rolling update.
    #[serde(deserialize_with = "nullable")]
    pub rolling_update: RollingUpdate,
}

impl UpdateStrategy {
    fn is_default(&self) -> bool {
        *self == UpdateStrategy::default()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// StatefulSet: the first ordinal that is updated.
    #[serde(deserialize_with = "nullable")]
    pub partition: i32,
    /// Deployment, DaemonSet: number or percentage of pods beyond the desired number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<Box<Value>>,
    /// Number or percentage of pods that may be unavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Box<Value>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetOrdinals {
    #[serde(deserialize_with = "nullable")]
    pub start: i32,
}

/// ReplicationController (`v1`): its selector is a plain map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicationController {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: ReplicationControllerSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicationControllerSpec {
    /// Desired number of pods; 1 when absent.
    pub replicas: Option<i32>,
    /// The pods it manages; the template's labels when absent.
    #[serde(deserialize_with = "nullable")]
    pub selector: StringMap,
    /// The template of its pods.
    #[serde(deserialize_with = "nullable")]
    pub template: Value,
}

/// HorizontalPodAutoscaler (`autoscaling`, all versions): what it scales, and within which bounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HorizontalPodAutoscaler {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: HorizontalPodAutoscalerSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HorizontalPodAutoscalerSpec {
    #[serde(deserialize_with = "nullable")]
    pub scale_target_ref: ScaleTargetRef,
    /// 1 when absent.
    pub min_replicas: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    pub max_replicas: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleTargetRef {
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    #[serde(deserialize_with = "nullable")]
    pub name: String,
}

/// Job (`batch/v1`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Job {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: JobSpec,
    #[serde(deserialize_with = "nullable")]
    pub status: JobStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    /// Number of pods that run at the same time; 1 when absent.
    pub parallelism: Option<i32>,
    /// Number of pods that must succeed.
    pub completions: Option<i32>,
    /// `NonIndexed` (default) or `Indexed`.
    pub completion_mode: Option<String>,
    /// Whether the user sets the selector and its labels.
    #[serde(deserialize_with = "nullable")]
    pub manual_selector: bool,
    /// The pods it manages, if the user sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Whether the Job is suspended: it creates no pods.
    #[serde(deserialize_with = "nullable")]
    pub suspend: bool,
    /// The template of its pods.
    #[serde(deserialize_with = "nullable")]
    pub template: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// How many pods have succeeded.
    #[serde(deserialize_with = "nullable")]
    pub succeeded: i32,
    /// Indexes that have succeeded, such as `0-2,5`.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub completed_indexes: String,
    /// Indexes that have failed for good, in the same form.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub failed_indexes: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl JobStatus {
    /// Whether the Job is complete or has failed.
    pub fn is_finished(&self) -> bool {
        let ends = |c: &Condition| matches!(c.condition_type.as_str(), "Complete" | "Failed");
        self.conditions.iter().any(|c| ends(c) && c.is_true())
    }
}

/// CronJob (`batch/v1`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJob {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: CronJobSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobSpec {
    /// Whether the CronJob is suspended: it creates no Jobs.
    #[serde(deserialize_with = "nullable")]
    pub suspend: bool,
    #[serde(deserialize_with = "nullable")]
    pub job_template: Value,
}
