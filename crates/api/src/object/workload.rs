//! Workload controllers, as far as their pods' placement needs them.
//!
//! Pod templates stay JSON: the pods made from them must carry everything the template says.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LabelSelector, ObjectMeta, StringMap, nullable};

/// Deployment, ReplicaSet, StatefulSet or DaemonSet (`apps/v1`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Workload {
    /// Metadata.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(deserialize_with = "nullable")]
    pub spec: WorkloadSpec,
}

/// `spec` of a Deployment, ReplicaSet, StatefulSet or DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSpec {
    /// Wanted pods; 1 when absent. A DaemonSet has none.
    pub replicas: Option<i32>,
    /// The pods it manages.
    pub selector: Option<LabelSelector>,
    /// The pods it makes.
    #[serde(deserialize_with = "nullable")]
    pub template: Value,
    /// StatefulSet: where ordinals start.
    pub ordinals: Option<StatefulSetOrdinals>,
}

/// StatefulSet ordinals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetOrdinals {
    /// First ordinal.
    #[serde(deserialize_with = "nullable")]
    pub start: i32,
}

/// ReplicationController (`v1`): its selector is a plain map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicationController {
    /// Metadata.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(deserialize_with = "nullable")]
    pub spec: ReplicationControllerSpec,
}

/// `spec` of a ReplicationController.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicationControllerSpec {
    /// Wanted pods; 1 when absent.
    pub replicas: Option<i32>,
    /// The pods it manages; the template's labels when absent.
    #[serde(deserialize_with = "nullable")]
    pub selector: StringMap,
    /// The pods it makes.
    #[serde(deserialize_with = "nullable")]
    pub template: Value,
}

/// Job (`batch/v1`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Job {
    /// Metadata.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(deserialize_with = "nullable")]
    pub spec: JobSpec,
}

/// `spec` of a Job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    /// Pods at one time; 1 when absent.
    pub parallelism: Option<i32>,
    /// Pods that must succeed; with parallelism it bounds how many run.
    pub completions: Option<i32>,
    /// `NonIndexed` (default) or `Indexed`.
    pub completion_mode: Option<String>,
    /// Suspended: no pods are made.
    #[serde(deserialize_with = "nullable")]
    pub suspend: bool,
    /// The pods it makes.
    #[serde(deserialize_with = "nullable")]
    pub template: Value,
}

/// CronJob (`batch/v1`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJob {
    /// Metadata.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(deserialize_with = "nullable")]
    pub spec: CronJobSpec,
}

/// `spec` of a CronJob.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobSpec {
    /// Suspended: no Jobs are made.
    #[serde(deserialize_with = "nullable")]
    pub suspend: bool,
    /// The Jobs it makes.
    #[serde(deserialize_with = "nullable")]
    pub job_template: Value,
}
