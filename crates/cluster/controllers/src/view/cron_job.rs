//! CronJobs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ObjectMeta, nullable, time};

/// A CronJob.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CronJob {
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: CronJobSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: CronJobStatus,
}

/// `spec` of a CronJob.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CronJobSpec {
    #[serde(deserialize_with = "nullable")]
    pub(crate) schedule: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) time_zone: String,
    pub(crate) starting_deadline_seconds: Option<i64>,
    /// `Allow` (also when empty), `Forbid` or `Replace`.
    #[serde(deserialize_with = "nullable")]
    pub(crate) concurrency_policy: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) suspend: bool,
    pub(crate) successful_jobs_history_limit: Option<usize>,
    pub(crate) failed_jobs_history_limit: Option<usize>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) job_template: Value,
}

/// `status` of a CronJob. Absent times are written as `null`, so that a merge patch removes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CronJobStatus {
    #[serde(deserialize_with = "nullable")]
    pub(crate) active: Vec<ActiveJob>,
    #[serde(with = "time")]
    pub(crate) last_schedule_time: Option<Timestamp>,
    #[serde(with = "time")]
    pub(crate) last_successful_time: Option<Timestamp>,
}

/// A Job that runs, as an object reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ActiveJob {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}
