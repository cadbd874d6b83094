//! `backoffLimitPerIndex`: each index fails independently.
//!
//! The pods of an index store its failure count. The last failed pod of an index therefore keeps its finalizer
//! until its replacement exists, which stores the count from then on.

use std::collections::HashMap;
use std::sync::Arc;

use berth_control::job::Indexes;
use jiff::Timestamp;

use super::backoff::{finished_at, pause};
use super::outcome::{Outcome, index_of, is_tracked, outcome};
use super::policy::{Failure, failure};
use crate::view::{Job, Pod};

/// Annotation: counted failures of the index before this pod.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// Annotation: failures before this pod that the policy ignores.
pub(super) const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// A number in a pod's annotation; 0 if absent.
fn carried(pod: &Pod, annotation: &str) -> i32 {
    pod.metadata.annotation(annotation).and_then(|text| text.parse().ok()).unwrap_or(0).max(0)
}

/// Failure counts of the index for its next pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    pub(super) counted: i32,
    pub(super) ignored: i32,
}

/// The permanently failed indexes: those in `before`, and those of failed pods that are not released yet.
pub(super) fn failed_indexes(job: &Job, pods: &[Arc<Pod>], before: &str) -> Indexes {
    let completions = job.spec.completions.unwrap_or(0);
    let mut failed = Indexes::parse(before, completions);
    let limit = job.spec.backoff_limit_per_index.unwrap_or(i32::MAX);
    for pod in pods.iter().filter(|pod| is_tracked(pod) && outcome(job, pod) == Outcome::Failed) {
        let for_good = match failure(job, pod) {
            Failure::FailsIndex => true,
            Failure::Ignored => false,
            Failure::Counts | Failure::FailsJob(_) => carried(pod, FAILURES) >= limit,
        };
        if let Some(index) = index_of(pod).filter(|&index| for_good && index < completions) {
            failed.insert(index);
        }
    }
    failed
}

/// The pods that hold the failure count of their index: the last failed one of each index not finished and not active.
pub(super) fn last_failed(
    job: &Job,
    pods: &[Arc<Pod>],
    succeeded: &Indexes,
    failed: &Indexes,
) -> HashMap<i32, Arc<Pod>> {
    let completions = job.spec.completions.unwrap_or(0);
    let with = |wanted: Outcome| pods.iter().filter(move |pod| outcome(job, pod) == wanted);
    let active: Vec<i32> = with(Outcome::Active).filter_map(|pod| index_of(pod)).collect();
    let mut last: HashMap<i32, Arc<Pod>> = HashMap::new();
    for pod in with(Outcome::Failed) {
        let Some(index) = index_of(pod).filter(|&index| index < completions) else { continue };
        if succeeded.contains(index) || failed.contains(index) || active.contains(&index) {
            continue;
        }
        let order = |pod: &Pod| (carried(pod, FAILURES) + carried(pod, IGNORED), finished_at(pod));
        if last.get(&index).is_none_or(|other| order(other) < order(pod)) {
            last.insert(index, pod.clone());
        }
    }
    last
}

/// Failure counts for the next pod of an index, computed from its last failed pod.
pub(super) fn next(job: &Job, last: Option<&Arc<Pod>>) -> Failures {
    let Some(last) = last else { return Failures::default() };
    let before = Failures { counted: carried(last, FAILURES), ignored: carried(last, IGNORED) };
    match failure(job, last) {
        Failure::Ignored => Failures { ignored: before.ignored.saturating_add(1), ..before },
        _ => Failures { counted: before.counted.saturating_add(1), ..before },
    }
}

/// The end of the backoff of an index whose last pod failed.
pub(super) fn backoff_ends(last: &Pod) -> Option<Timestamp> {
    let before = carried(last, FAILURES).saturating_add(carried(last, IGNORED));
    finished_at(last)?.checked_add(pause(usize::try_from(before).unwrap_or(0).saturating_add(1))).ok()
}
