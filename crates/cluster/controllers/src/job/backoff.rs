//! The backoff after failed pods.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::view::Pod;

/// Initial and maximum backoff after a failed pod, in seconds; it doubles with each failure.
const FAILURE_BACKOFF: (i64, i64) = (10, 600);

/// End of the backoff after failures since the last success; no pod is created before.
pub(super) fn backoff_ends(pods: &[Arc<Pod>]) -> Option<Timestamp> {
    let ended = |phase: &'static str| {
        pods.iter().filter(move |pod| pod.status.phase == phase).filter_map(|pod| finished_at(pod))
    };
    let last_success = ended("Succeeded").max();
    let failures = || ended("Failed").filter(|at| last_success.is_none_or(|success| *at > success));
    let last = failures().max()?;
    last.checked_add(pause(failures().count())).ok()
}

/// Backoff after this many failures (at least one).
pub(super) fn pause(n_failures: usize) -> SignedDuration {
    let (first, longest) = FAILURE_BACKOFF;
    let doublings = u32::try_from(n_failures.saturating_sub(1)).unwrap_or(u32::MAX).min(30);
    SignedDuration::from_secs(first.checked_shl(doublings).map_or(longest, |seconds| seconds.min(longest)))
}

/// When a pod ended: the end of its last container, or the best estimate.
pub(super) fn finished_at(pod: &Pod) -> Option<Timestamp> {
    let terminated =
        pod.status.container_statuses.iter().filter_map(|status| status.state.terminated.as_ref());
    let last = terminated.filter_map(|terminated| terminated.finished_at).max();
    last.or_else(|| pod.ready_condition().and_then(|ready| ready.last_transition_time))
        .or(pod.metadata.deletion_timestamp)
        .or(pod.metadata.creation_timestamp)
}
