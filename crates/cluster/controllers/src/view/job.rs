//! Jobs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Condition, ObjectMeta, WorkloadSelector, find_condition, nullable, time};

/// A Job.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Job {
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: JobSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: JobStatus,
}

/// `spec` of a Job.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct JobSpec {
    pub(crate) parallelism: Option<i32>,
    pub(crate) completions: Option<i32>,
    /// `NonIndexed` (also when empty) or `Indexed`.
    #[serde(deserialize_with = "nullable")]
    pub(crate) completion_mode: String,
    pub(crate) backoff_limit: Option<i32>,
    pub(crate) backoff_limit_per_index: Option<i32>,
    pub(crate) max_failed_indexes: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) pod_failure_policy: PodFailurePolicy,
    #[serde(deserialize_with = "nullable")]
    pub(crate) success_policy: SuccessPolicy,
    pub(crate) active_deadline_seconds: Option<i64>,
    pub(crate) ttl_seconds_after_finished: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) suspend: bool,
    #[serde(deserialize_with = "nullable")]
    pub(crate) selector: WorkloadSelector,
    #[serde(deserialize_with = "nullable")]
    pub(crate) template: Value,
    /// `TerminatingOrFailed` (also when empty) or `Failed`.
    #[serde(deserialize_with = "nullable")]
    pub(crate) pod_replacement_policy: String,
    /// The name of another controller that manages the Job, if any.
    #[serde(deserialize_with = "nullable")]
    pub(crate) managed_by: String,
}

/// The policy for failed pods; the first matching rule decides.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodFailurePolicy {
    pub(crate) rules: Vec<PodFailureRule>,
}

/// A rule of a `podFailurePolicy`: about exit codes, or about conditions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodFailureRule {
    pub(crate) action: PodFailureAction,
    pub(crate) on_exit_codes: Option<OnExitCodes>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) on_pod_conditions: Vec<PodConditionPattern>,
}

/// The action of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum PodFailureAction {
    FailJob,
    FailIndex,
    Ignore,
    #[default]
    #[serde(other)]
    Count,
}

/// Exit codes of containers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OnExitCodes {
    /// Only this container.
    pub(crate) container_name: Option<String>,
    /// `In` or `NotIn`.
    pub(crate) operator: String,
    pub(crate) values: Vec<i64>,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodConditionPattern {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    status: String,
}

impl PodConditionPattern {
    /// `True` if the pattern has no status.
    pub(crate) fn status(&self) -> &str {
        if self.status.is_empty() { "True" } else { &self.status }
    }
}

/// When an Indexed Job succeeds before all its indexes do; any rule suffices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SuccessPolicy {
    pub(crate) rules: Vec<SuccessRule>,
}

/// At least `count` of these indexes. Without a count: all of them. Without indexes: of all indexes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SuccessRule {
    pub(crate) succeeded_indexes: Option<String>,
    pub(crate) succeeded_count: Option<i32>,
}

/// `status` of a Job. Absent times are written as `null`, so that a merge patch removes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct JobStatus {
    #[serde(deserialize_with = "nullable")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(with = "time")]
    pub(crate) start_time: Option<Timestamp>,
    #[serde(with = "time")]
    pub(crate) completion_time: Option<Timestamp>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) active: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) ready: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) terminating: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) succeeded: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) failed: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) completed_indexes: String,
    /// The permanently failed indexes; only with `backoffLimitPerIndex`.
    pub(crate) failed_indexes: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) uncounted_terminated_pods: UncountedTerminatedPods,
}

/// Pods that have ended and are not in the counters yet, by uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UncountedTerminatedPods {
    #[serde(deserialize_with = "nullable")]
    pub(crate) succeeded: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) failed: Vec<String>,
}

impl Job {
    /// Maximum concurrent pods.
    pub(crate) fn parallelism(&self) -> i32 {
        self.spec.parallelism.unwrap_or(1).max(0)
    }

    pub(crate) fn is_indexed(&self) -> bool {
        self.spec.completion_mode == "Indexed"
    }
}

impl JobStatus {
    /// Whether a condition is true.
    pub(crate) fn has(&self, kind: &str) -> bool {
        find_condition(&self.conditions, kind).is_some_and(Condition::is_true)
    }

    /// Whether the Job has completed or failed.
    pub(crate) fn is_finished(&self) -> bool {
        self.has("Complete") || self.has("Failed")
    }
}
