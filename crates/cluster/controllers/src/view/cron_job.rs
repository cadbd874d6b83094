//! CronJobs.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{Object, time};

pub(crate) type CronJob = Object<CronJobSpec, CronJobStatus>;

berth_api::object_types! {
    pub(crate) struct CronJobSpec {
        pub(crate) schedule: String,
        pub(crate) time_zone: String,
        pub(crate) starting_deadline_seconds: Option<i64>,
        /// `Allow` (also when empty), `Forbid` or `Replace`.
        pub(crate) concurrency_policy: String,
        pub(crate) suspend: bool,
        pub(crate) successful_jobs_history_limit: Option<usize>,
        pub(crate) failed_jobs_history_limit: Option<usize>,
        pub(crate) job_template: Value,
    }

    /// `status` of a CronJob. Absent times are written as `null`, so that a merge patch removes them.
    #[derive(PartialEq, Eq, Serialize)]
    pub(crate) struct CronJobStatus {
        pub(crate) active: Vec<ActiveJob>,
        ;
        #[serde(with = "time")]
        pub(crate) last_schedule_time: Option<Timestamp>,
        #[serde(with = "time")]
        pub(crate) last_successful_time: Option<Timestamp>,
    }

    /// A Job that runs, as an object reference.
    #[derive(PartialEq, Eq, Serialize)]
    pub(crate) struct ActiveJob {
        pub(crate) api_version: String,
        pub(crate) kind: String,
        pub(crate) namespace: String,
        pub(crate) name: String,
        pub(crate) uid: String,
    }
}
