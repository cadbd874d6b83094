//! Counts each ended pod exactly once.
//!
//! Pods of a Job carry a finalizer, so the controller counts each pod before it disappears. It first adds an ended pod
//! to `uncountedTerminatedPods`. Then it removes the finalizer. When the cache shows the removal, it moves the pod
//! into the counter. A crash between two steps repeats a step, never a count. Succeeded indexes need no such list: the
//! set of completed indexes contains them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use berth_control::job::Indexes;

use super::outcome::{Outcome, index_of, is_tracked, outcome};
use super::per_index::{failed_indexes, last_failed};
use super::policy::{Failure, failure};
use crate::view::{Job, JobStatus, Pod};

pub(super) struct Tally {
    /// Pods whose finalizer is removed after the status is written.
    pub(super) release: Vec<Arc<Pod>>,
    pub(super) completed: Indexes,
    /// Indexes that have failed permanently.
    pub(super) failed: Indexes,
    /// The last failed pod of each index to retry; kept while the Job runs, until its replacement exists.
    pub(super) last: HashMap<i32, Arc<Pod>>,
}

impl Tally {
    /// Failures missing from the status because their pods are kept.
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

/// Adds the ended pods to `status`. A running Job keeps the pods that hold the failure count of their index.
pub(super) fn count(job: &Job, pods: &[Arc<Pod>], status: &mut JobStatus, goes_on: bool) -> Tally {
    let completions = job.spec.completions.unwrap_or(i32::MAX);
    let mut completed = Indexes::parse(&status.completed_indexes, completions);
    let tracked: HashSet<&str> =
        pods.iter().filter(|pod| is_tracked(pod)).map(|pod| &*pod.metadata.uid).collect();
    let uncounted = &mut status.uncounted_terminated_pods;
    // Their finalizer is already removed: they may move into the counters.
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
        last = last_failed(job, pods, &completed, &failed);
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
    Tally { release, completed, failed, last }
}

/// Succeeded and failed pods, including those not in the counters yet.
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
    use crate::job::outcome::{INDEX, TRACKING};

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
    fn each_pod_is_counted_once_when_steps_repeat() {
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
        // One finalizer is removed, the other pod does not exist any more.
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
