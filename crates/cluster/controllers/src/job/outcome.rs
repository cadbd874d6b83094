//! How the controller counts a pod.

pub(super) use berth_control::expand::COMPLETION_INDEX as INDEX;

use crate::view::{Job, Pod};

/// Finalizer of pods that are not counted yet.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// How the controller counts a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Active,
    /// Terminating, not counted yet.
    Terminating,
    Succeeded,
    Failed,
}

/// Classifies a pod. A terminating pod counts as failed at once, unless the Job waits for its end.
pub(super) fn outcome(job: &Job, pod: &Pod) -> Outcome {
    match pod.status.phase.as_str() {
        "Succeeded" => Outcome::Succeeded,
        "Failed" => Outcome::Failed,
        _ if !pod.metadata.is_deleting() => Outcome::Active,
        _ if job.spec.pod_replacement_policy == "Failed" => Outcome::Terminating,
        _ => Outcome::Failed,
    }
}

pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().any(|finalizer| finalizer == TRACKING)
}

/// The completion index of a pod of an Indexed Job.
pub(super) fn index_of(pod: &Pod) -> Option<i32> {
    pod.metadata.annotation(INDEX)?.parse().ok().filter(|&index| index >= 0)
}
