//! The backoff of a ReplicaSet whose pods nodes reject: each attempt that a node rejects doubles it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::object::NamespacedName;
use tokio::time::Instant;

use crate::failed_pods::{FailedPods, Version};
use crate::view::{Pod, ReplicaSet};

/// A ReplicaSet has one place for its pods.
const PLACE: &str = "";

/// The attempts of all ReplicaSets.
#[derive(Default)]
pub(super) struct Rejections {
    failed: FailedPods,
    /// By ReplicaSet with rejected pods.
    judged: Mutex<HashMap<NamespacedName, Judged>>,
}

/// The uids of the pods that nodes had accepted or rejected at the last sync: these rejections are counted.
struct Judged {
    of: Version,
    pods: HashSet<String>,
}

impl Rejections {
    /// How long the next pods wait. New rejections count as one failure while pods are missing; those during the backoff belong to
    /// the same attempt. The failures are forgotten when a node accepts another pod, the specification changes, or no replica is
    /// wanted.
    pub(super) fn backoff(
        &self,
        replica_set: &ReplicaSet,
        pods: &[Arc<Pod>],
        now: Instant,
    ) -> Option<Duration> {
        let meta = &replica_set.metadata;
        let key = meta.namespaced_name();
        if !pods.iter().any(|pod| is_rejected(pod)) {
            self.forget(&key);
            return None;
        }
        let of = Version::of(meta);
        let before = self.lock().remove(&key);
        let is_same = before.as_ref().is_some_and(|before| before.of == of);
        let same_object = before.as_ref().is_some_and(|before| before.of.is_same_object(&of));
        let known = before.filter(|_| same_object).map(|before| before.pods).unwrap_or_default();
        let is_new = |pod: &&Arc<Pod>| !known.contains(&pod.metadata.uid);
        let rejects = pods.iter().filter(|pod| is_rejected(pod)).any(|pod| is_new(&pod));
        let accepts = is_same && pods.iter().filter(|pod| is_accepted(pod)).any(|pod| is_new(&pod));

        let wanted = usize::try_from(replica_set.replicas()).unwrap_or(0);
        let is_missing = pods.iter().filter(|pod| pod.is_active()).count() < wanted;
        if accepts || wanted == 0 {
            self.failed.succeed(meta, PLACE);
        }
        if rejects && is_missing && self.failed.left(meta, PLACE, now).is_none() {
            self.failed.sweep(now);
            self.failed.fail(meta, PLACE, now);
        }
        let judged = pods.iter().filter(|pod| is_rejected(pod) || is_accepted(pod));
        let judged = judged.map(|pod| pod.metadata.uid.clone()).collect();
        self.lock().insert(key, Judged { of, pods: judged });
        self.failed.left(meta, PLACE, now).filter(|_| is_missing)
    }

    /// Forgets a ReplicaSet that is gone or has no rejected pods.
    pub(super) fn forget(&self, key: &NamespacedName) {
        if self.lock().remove(key).is_some() {
            self.failed.forget(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NamespacedName, Judged>> {
        self.judged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_rejected(pod: &Pod) -> bool {
    pod.is_rejected() && !pod.metadata.is_deleting()
}

/// Whether its node has accepted it, even if it has ended since.
fn is_accepted(pod: &Pod) -> bool {
    !pod.is_rejected() && pod.status.start_time.is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(generation: i64, replicas: i32) -> ReplicaSet {
        let metadata = json!({"name": "web", "namespace": "a", "uid": "1", "generation": generation});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"replicas": replicas}})).unwrap()
    }

    /// `n` pods of an attempt: `rejected`, `running`, `evicted` or `pending`.
    fn pods(attempt: usize, n: usize, state: &str) -> Vec<Arc<Pod>> {
        let (phase, message) = match state {
            "rejected" => ("Failed", "Pod was rejected: Predicate NodeAffinity failed"),
            "evicted" => ("Failed", "The node was low on resource: memory."),
            "running" => ("Running", ""),
            _ => ("Pending", ""),
        };
        let start = (state != "pending").then_some("2026-01-01T00:00:00Z");
        let status = json!({"phase": phase, "message": message, "startTime": start});
        let pod = |i| json!({"metadata": {"uid": format!("{attempt}-{i}")}, "status": status});
        (0..n).map(|i| Arc::new(serde_json::from_value(pod(i)).unwrap())).collect()
    }

    fn seconds(left: Option<Duration>) -> u64 {
        left.unwrap_or_default().as_secs()
    }

    #[test]
    fn pods_that_their_node_rejects_again_and_again_are_created_after_a_backoff_that_doubles() {
        let (rejections, mut now) = (Rejections::default(), Instant::now());
        let (mut there, mut waits) = (Vec::new(), Vec::new());
        for attempt in 0..12 {
            // They are rejected at different times.
            for part in 0..3 {
                there.extend(pods(attempt * 3 + part, 25, "rejected"));
                let left = rejections.backoff(&set(1, 75), &there, now);
                if part == 0 {
                    waits.push(seconds(left));
                }
                assert_eq!(seconds(left), waits[attempt], "one failure per attempt");
            }
            now += Duration::from_secs(waits[attempt]);
            assert_eq!(rejections.backoff(&set(1, 75), &there, now), None, "it is over");
            assert_eq!(rejections.backoff(&set(1, 75), &there, now), None, "old rejections are counted");
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
        assert_eq!(rejections.backoff(&set(2, 75), &there, now), None, "another template");
        assert_eq!(rejections.backoff(&set(2, 75), &[], now), None, "the failed pods were deleted");
        let again = pods(99, 1, "rejected");
        assert_eq!(seconds(rejections.backoff(&set(2, 75), &again, now)), 1);
    }

    #[test]
    fn a_set_that_was_scaled_down_does_not_wait_for_rejections_of_earlier_replicas() {
        let (rejections, mut now) = (Rejections::default(), Instant::now());
        let mut there = pods(0, 30, "rejected");
        assert_eq!(seconds(rejections.backoff(&set(1, 30), &there, now)), 1);
        now += Duration::from_secs(1);
        there.extend(pods(1, 30, "running"));
        assert_eq!(rejections.backoff(&set(1, 30), &there, now), None);
        there.truncate(30);
        assert_eq!(rejections.backoff(&set(2, 0), &there, now), None);
        assert_eq!(rejections.backoff(&set(3, 1), &there, now), None);
        there.extend(pods(2, 1, "rejected"));
        assert_eq!(seconds(rejections.backoff(&set(3, 1), &there, now)), 1, "the first rejection since");
        // Without a new generation.
        assert_eq!(rejections.backoff(&set(3, 0), &there, now), None);
        assert_eq!(rejections.backoff(&set(3, 1), &there, now), None);
    }

    #[test]
    fn unschedulable_pods_do_not_hide_the_attempts_of_a_rejected_one() {
        let (rejections, mut now) = (Rejections::default(), Instant::now());
        let mut there = pods(0, 9, "pending");
        for (attempt, wait) in [1, 2, 4, 8].into_iter().enumerate() {
            there.extend(pods(attempt + 1, 1, "rejected"));
            assert_eq!(seconds(rejections.backoff(&set(1, 10), &there, now)), wait);
            now += Duration::from_secs(wait);
        }
    }

    #[test]
    fn a_node_that_accepts_another_pod_ends_the_backoff() {
        let (rejections, mut now) = (Rejections::default(), Instant::now());
        let mut there = pods(0, 2, "running");
        for (attempt, wait) in [1, 2, 4].into_iter().enumerate() {
            there.extend(pods(attempt + 1, 2, "rejected"));
            assert_eq!(seconds(rejections.backoff(&set(1, 4), &there, now)), wait, "two run all the time");
            now += Duration::from_secs(wait);
        }
        there.extend(pods(4, 2, "rejected"));
        assert_eq!(seconds(rejections.backoff(&set(1, 4), &there, now)), 8);
        there.extend(pods(5, 1, "running"));
        assert_eq!(rejections.backoff(&set(1, 4), &there, now), None);
        // A pod that failed otherwise is replaced at once.
        there.extend(pods(6, 1, "evicted"));
        assert_eq!(rejections.backoff(&set(1, 4), &there, now), None);
        there.extend(pods(7, 1, "rejected"));
        assert_eq!(seconds(rejections.backoff(&set(1, 4), &there, now)), 1);
    }
}
