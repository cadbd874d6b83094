//! Counting pods that have ended, each once.
//!
//! Pods of a Job carry a finalizer, so none is gone before it is counted. A pod that has ended is first written into
//! `uncountedTerminatedPods`; then its finalizer is taken off; and when the cache shows that, it moves
//! into the counter. A crash between two steps repeats a step, never a count. Succeeded indexes need no such list: the
//! set of completed indexes tells by itself.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::indexes::Indexes;
use super::per_index::{failed_indexes, remembering};
use super::policy::{Failure, failure};
use crate::view::{Job, JobStatus, Pod};

/// Finalizer of pods that are to be counted.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Annotation and label with a pod's completion index.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// How a pod counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Active,
    /// Being deleted, but not over for the Job yet.
    Terminating,
    Succeeded,
    Failed,
}

/// How a pod counts: one that is being deleted counts as failed at once, unless the Job waits for its end.
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

/// What counting brings.
pub(super) struct Counted {
    /// Pods whose finalizer is to be taken off once the status is written.
    pub(super) release: Vec<Arc<Pod>>,
    pub(super) completed: Indexes,
    /// The indexes that failed for good.
    pub(super) failed: Indexes,
    /// The last failed pod of each index that is to have another; kept, if the Job goes on, until that is there.
    pub(super) last: HashMap<i32, Arc<Pod>>,
}

impl Counted {
    /// How many failures are not in the status because their pods are kept.
    pub(super) fn n_kept(&self, job: &Job, status: &JobStatus) -> i32 {
        let listed = &status.uncounted_terminated_pods.failed;
        let kept = self.last.values().filter(|pod| {
            is_tracked(pod)
                && failure(job, pod) != Failure::Ignored
                && !listed.iter().any(|uid| **uid == *pod.metadata.uid)
        });
        i32::try_from(kept.count()).unwrap_or(i32::MAX)
    }
}

/// Counts what has ended into `status`. A Job that goes on keeps the pods that remember for their indexes.
pub(super) fn count(job: &Job, pods: &[Arc<Pod>], status: &mut JobStatus, goes_on: bool) -> Counted {
    let completions = job.spec.completions.unwrap_or(i32::MAX);
    let mut completed = Indexes::parse(&status.completed_indexes, completions);
    let tracked: HashSet<&str> =
        pods.iter().filter(|pod| is_tracked(pod)).map(|pod| &*pod.metadata.uid).collect();
    let uncounted = &mut status.uncounted_terminated_pods;
    // Released before: they may move into the counters.
    let settle = |uids: &mut Vec<String>, counter: &mut i32| {
        uids.retain(|uid| {
            let waits = tracked.contains(uid.as_str());
            *counter = counter.saturating_add(i32::from(!waits));
            waits
        });
    };
    settle(&mut uncounted.succeeded, &mut status.succeeded);
    settle(&mut uncounted.failed, &mut status.failed);

    for pod in pods.iter().filter(|pod| is_tracked(pod) && job.is_indexed()) {
        if outcome(job, pod) == Outcome::Succeeded
            && let Some(index) = index_of(pod).filter(|&index| index < completions)
        {
            completed.insert(index);
        }
    }
    let (mut failed, mut last) = (Indexes::default(), HashMap::new());
    if job.is_indexed() && job.spec.backoff_limit_per_index.is_some() {
        failed = failed_indexes(job, pods, status.failed_indexes.as_deref().unwrap_or_default());
        last = remembering(job, pods, &completed, &failed);
        status.failed_indexes = Some(failed.to_string());
    }
    let is_kept = |pod: &Pod| {
        let of_index = index_of(pod).and_then(|index| last.get(&index));
        goes_on && of_index.is_some_and(|last| last.metadata.uid == pod.metadata.uid)
    };
    let listed: HashSet<String> = uncounted.succeeded.iter().chain(&uncounted.failed).cloned().collect();
    let mut release = Vec::new();
    for pod in pods.iter().filter(|pod| is_tracked(pod)) {
        let uid = pod.metadata.uid.to_string();
        match outcome(job, pod) {
            Outcome::Active | Outcome::Terminating => continue,
            Outcome::Succeeded if job.is_indexed() => {}
            Outcome::Succeeded if !listed.contains(&uid) => uncounted.succeeded.push(uid),
            Outcome::Failed if is_kept(pod) => continue,
            Outcome::Failed if failure(job, pod) == Failure::Ignored => {}
            Outcome::Failed if !listed.contains(&uid) => uncounted.failed.push(uid),
            Outcome::Succeeded | Outcome::Failed => {}
        }
        release.push(pod.clone());
    }
    if job.is_indexed() {
        status.completed_indexes = completed.to_string();
        status.succeeded = completed.len();
    }
    Counted { release, completed, failed, last }
}

/// Pods that have succeeded and failed, those not in the counters yet included.
pub(super) fn totals(status: &JobStatus) -> (i32, i32) {
    let uncounted = &status.uncounted_terminated_pods;
    let add =
        |count: i32, uids: &[String]| count.saturating_add(i32::try_from(uids.len()).unwrap_or(i32::MAX));
    (add(status.succeeded, &uncounted.succeeded), add(status.failed, &uncounted.failed))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, phase: &str, tracked: bool, index: Option<i32>) -> Arc<Pod> {
        let finalizers = if tracked { json!([TRACKING]) } else { json!([]) };
        let annotations = index.map(|index| json!({INDEX: index.to_string()}));
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"uid": uid, "finalizers": finalizers, "annotations": annotations},
                "status": {"phase": phase},
            }))
            .unwrap(),
        )
    }

    #[test]
    fn each_pod_is_counted_once_whatever_is_repeated() {
        let job: Job = serde_json::from_value(json!({"spec": {"completions": 5}})).unwrap();
        let mut status = JobStatus::default();
        let ended = [
            pod("a", "Succeeded", true, None),
            pod("b", "Failed", true, None),
            pod("c", "Running", true, None),
        ];
        for _ in 0..2 {
            assert_eq!(count(&job, &ended, &mut status, true).release.len(), 2);
            assert_eq!((status.succeeded, status.failed, totals(&status)), (0, 0, (1, 1)));
        }
        // One finalizer is off, the other pod is gone altogether.
        let released = [pod("a", "Succeeded", false, None), pod("c", "Running", true, None)];
        for _ in 0..2 {
            assert!(count(&job, &released, &mut status, true).release.is_empty());
            assert_eq!((status.succeeded, status.failed, totals(&status)), (1, 1, (1, 1)));
        }
        assert_eq!(status.uncounted_terminated_pods, Default::default());
    }

    #[test]
    fn an_index_succeeds_once() {
        let job: Job =
            serde_json::from_value(json!({"spec": {"completions": 3, "completionMode": "Indexed"}})).unwrap();
        let mut status = JobStatus { completed_indexes: "0".to_owned(), ..JobStatus::default() };
        let pods = [
            pod("a", "Succeeded", true, Some(0)),
            pod("b", "Succeeded", true, Some(1)),
            pod("c", "Succeeded", true, Some(7)),
        ];
        assert_eq!(count(&job, &pods, &mut status, true).release.len(), 3);
        assert_eq!((status.completed_indexes.as_str(), status.succeeded), ("0,1", 2));
    }
}
