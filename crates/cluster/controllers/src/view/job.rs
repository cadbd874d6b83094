//! Jobs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Condition, Object, WorkloadSelector, find_condition, time};

pub(crate) type Job = Object<JobSpec, JobStatus>;

berth_api::object_types! {
    pub(crate) struct JobSpec {
        pub(crate) parallelism: Option<i32>,
        pub(crate) completions: Option<i32>,
        /// `NonIndexed` (also when empty) or `Indexed`.
        pub(crate) completion_mode: String,
        pub(crate) backoff_limit: Option<i32>,
        pub(crate) backoff_limit_per_index: Option<i32>,
        pub(crate) max_failed_indexes: Option<i32>,
        pub(crate) pod_failure_policy: PodFailurePolicy,
        pub(crate) success_policy: SuccessPolicy,
        pub(crate) active_deadline_seconds: Option<i64>,
        pub(crate) ttl_seconds_after_finished: Option<i32>,
        pub(crate) suspend: bool,
        pub(crate) selector: WorkloadSelector,
        pub(crate) template: Value,
        /// `TerminatingOrFailed` (also when empty) or `Failed`.
        pub(crate) pod_replacement_policy: String,
        /// How its pods are scheduled as a group, if that is set.
        pub(crate) scheduling: Value,
        /// The name of another controller that manages the Job, if any.
        pub(crate) managed_by: String,
    }

    /// The policy for failed pods; the first matching rule decides.
    pub(crate) struct PodFailurePolicy {
        pub(crate) rules: Vec<PodFailureRule>,
    }

    /// A rule of a `podFailurePolicy`: about exit codes, or about conditions.
    pub(crate) struct PodFailureRule {
        pub(crate) action: PodFailureAction,
        pub(crate) on_exit_codes: Option<OnExitCodes>,
        pub(crate) on_pod_conditions: Vec<PodConditionPattern>,
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum PodFailureAction {
    FailJob,
    FailIndex,
    Ignore,
    #[default]
    #[serde(other)]
    Count,
}

berth_api::object_types! {
    pub(crate) struct OnExitCodes {
        /// Only this container.
        pub(crate) container_name: Option<String>,
        /// `In` or `NotIn`.
        pub(crate) operator: String,
        pub(crate) values: Vec<i64>,
    }

    pub(crate) struct PodConditionPattern {
        #[serde(rename = "type")]
        pub(crate) kind: String,
        status: String,
    }
}

impl PodConditionPattern {
    /// `True` if the pattern has no status.
    pub(crate) fn status(&self) -> &str {
        if self.status.is_empty() { "True" } else { &self.status }
    }
}

berth_api::object_types! {
    /// When an Indexed Job succeeds before all its indexes do; any rule suffices.
    pub(crate) struct SuccessPolicy {
        pub(crate) rules: Vec<SuccessRule>,
    }

    /// At least `count` of these indexes. Without a count: all of them. Without indexes: of all indexes.
    pub(crate) struct SuccessRule {
        pub(crate) succeeded_indexes: Option<String>,
        pub(crate) succeeded_count: Option<i32>,
    }

    /// `status` of a Job. Absent times are written as `null`, so that a merge patch removes them.
    #[derive(PartialEq, Eq, Serialize)]
    pub(crate) struct JobStatus {
        pub(crate) conditions: Vec<Condition>,
        pub(crate) active: i32,
        pub(crate) ready: i32,
        pub(crate) terminating: i32,
        pub(crate) succeeded: i32,
        pub(crate) failed: i32,
        pub(crate) completed_indexes: String,
        /// The permanently failed indexes; only with `backoffLimitPerIndex`.
        pub(crate) failed_indexes: Option<String>,
        pub(crate) uncounted_terminated_pods: UncountedTerminatedPods,
        ;
        #[serde(with = "time")]
        pub(crate) start_time: Option<Timestamp>,
        #[serde(with = "time")]
        pub(crate) completion_time: Option<Timestamp>,
    }

    /// Pods that have ended and are not in the counters yet, by uid.
    #[derive(PartialEq, Eq, Serialize)]
    pub(crate) struct UncountedTerminatedPods {
        pub(crate) succeeded: Vec<String>,
        pub(crate) failed: Vec<String>,
    }
}

impl Job {
    pub(crate) fn parallelism(&self) -> i32 {
        self.spec.parallelism.unwrap_or(1).max(0)
    }

    pub(crate) fn is_indexed(&self) -> bool {
        self.spec.completion_mode == "Indexed"
    }
}

impl JobStatus {
    pub(crate) fn has(&self, kind: &str) -> bool {
        find_condition(&self.conditions, kind).is_some_and(Condition::is_true)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.has("Complete") || self.has("Failed")
    }
}
