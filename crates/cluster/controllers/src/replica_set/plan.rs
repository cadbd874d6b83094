//! The plan of a ReplicaSet: pods to create or delete, and the status.

use std::sync::Arc;

use berth_api::object::StringMap;
use jiff::{SignedDuration, Timestamp};

use super::rank::pods_to_delete;
use crate::pod_control::BURST;
use crate::view::{Condition, Pod, ReplicaSet, ReplicaSetStatus, remove_condition, set_condition};

/// Initial and maximum backoff after pods that their node rejected, in seconds: those of failed pods of DaemonSets in
/// kube-controller-manager. It doubles with each attempt.
const REJECTED_BACKOFF: (i64, i64) = (1, 900);

/// The pods to create or delete.
#[derive(Debug)]
pub(super) enum Plan {
    Nothing,
    Create(usize),
    /// Pods are missing, and nodes rejected the last ones: they are created at this time.
    Backoff(Timestamp),
    Delete(Vec<Arc<Pod>>),
}

/// Compares the active pods with the wanted number. `pods` are all pods of the ReplicaSet, `active` the active ones among them,
/// `related` those of the same Deployment, including this ReplicaSet's; the function calls it only if there are too many pods.
pub(super) fn plan(
    replica_set: &ReplicaSet,
    pods: &[Arc<Pod>],
    active: &[Arc<Pod>],
    related: impl FnOnce() -> Vec<Arc<Pod>>,
    now: Timestamp,
) -> Plan {
    let wanted = usize::try_from(replica_set.replicas()).unwrap_or(0);
    match active.len() {
        n if n < wanted => match backoff_ends(pods, wanted, now) {
            Some(at) => Plan::Backoff(at),
            None => Plan::Create((wanted - n).min(BURST)),
        },
        n if n > wanted => {
            let too_many = (n - wanted).min(BURST);
            Plan::Delete(pods_to_delete(active.to_vec(), &related(), too_many, now))
        }
        _ => Plan::Nothing,
    }
}

/// End of the backoff after pods that nodes rejected since a node accepted one of `pods`, if it is not over. An attempt creates all
/// pods that no node has accepted. A later rejection than now is that of another clock.
fn backoff_ends(pods: &[Arc<Pod>], wanted: usize, now: Timestamp) -> Option<Timestamp> {
    let created = |pod: &&Arc<Pod>| pod.metadata.creation_timestamp;
    let is_accepted = |pod: &&Arc<Pod>| pod.is_active() && pod.status.start_time.is_some();
    let last_accepted = pods.iter().filter(is_accepted).filter_map(|pod| created(&pod)).max();
    let rejected = pods.iter().filter(|pod| pod.is_rejected() && !pod.metadata.is_deleting());
    // Times have whole seconds: pods of one attempt may be equally old.
    let rejected = rejected.filter(|pod| created(pod) >= last_accepted);
    let (mut n_rejected, mut last) = (0_usize, None);
    for pod in rejected {
        n_rejected += 1;
        last = last.max(pod.status.start_time.or(pod.metadata.creation_timestamp));
    }
    let n_missing = wanted.saturating_sub(pods.iter().filter(is_accepted).count());
    let n_attempts = n_rejected.div_ceil(n_missing.max(1));
    let (first, longest) = REJECTED_BACKOFF;
    let doublings = u32::try_from(n_attempts.saturating_sub(1)).unwrap_or(u32::MAX).min(30);
    let seconds = first.checked_shl(doublings).map_or(longest, |seconds| seconds.min(longest));
    // The time of the rejection is cut to seconds.
    let ends = last?.checked_add(SignedDuration::from_secs(seconds + 1)).ok()?;
    (last? <= now && now < ends).then_some(ends)
}

/// The error that kept a ReplicaSet from carrying out its plan.
#[derive(Debug)]
pub(super) struct Failure {
    /// `FailedCreate` or `FailedDelete`.
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The status computed from the pods, and when a ready pod becomes available.
pub(super) fn status(
    replica_set: &ReplicaSet,
    pods: &[Arc<Pod>],
    failure: Option<&Failure>,
    now: Timestamp,
) -> (ReplicaSetStatus, Option<Timestamp>) {
    let template_labels = template_labels(replica_set);
    let min_ready_seconds = replica_set.spec.min_ready_seconds;
    let mut status = ReplicaSetStatus {
        observed_generation: replica_set.metadata.generation,
        conditions: replica_set.status.conditions.clone(),
        ..ReplicaSetStatus::default()
    };
    let mut next_available: Option<Timestamp> = None;
    for pod in pods {
        if !pod.is_active() {
            status.terminating_replicas += i32::from(!pod.is_terminal());
            continue;
        }
        status.replicas += 1;
        let labels = &pod.metadata.labels;
        status.fully_labeled_replicas +=
            i32::from(template_labels.iter().all(|(key, value)| labels.get(key) == Some(value)));
        status.ready_replicas += i32::from(pod.is_ready());
        match pod.available_at(min_ready_seconds) {
            Some(at) if at <= now => status.available_replicas += 1,
            Some(at) => next_available = Some(next_available.map_or(at, |next| next.min(at))),
            None => {}
        }
    }
    match failure {
        Some(failure) => set_condition(
            &mut status.conditions,
            Condition::new("ReplicaFailure", "True", failure.reason, failure.message.as_str(), now),
        ),
        None => remove_condition(&mut status.conditions, "ReplicaFailure"),
    }
    (status, next_available)
}

fn template_labels(replica_set: &ReplicaSet) -> StringMap {
    let labels = replica_set.spec.template.pointer("/metadata/labels");
    let labels = labels.and_then(|labels| labels.as_object()).into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn replica_set(replicas: i32, min_ready_seconds: i32) -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {"generation": 7},
            "spec": {"replicas": replicas, "minReadySeconds": min_ready_seconds,
                "template": {"metadata": {"labels": {"app": "web"}}}},
        }))
        .unwrap()
    }

    fn pods(n: usize) -> Vec<Arc<Pod>> {
        (0..n)
            .map(|i| serde_json::from_value(json!({"metadata": {"name": format!("{i}")}})).unwrap())
            .map(Arc::new)
            .collect()
    }

    #[test]
    fn creations_and_deletions_are_limited_per_sync() {
        let now = Timestamp::UNIX_EPOCH;
        for (wanted, active, planned) in [
            (3, 3, (0, 0)),
            (3, 1, (2, 0)),
            (1, 4, (0, 3)),
            (0, 2, (0, 2)),
            (-1, 1, (0, 1)),
            (2000, 0, (BURST, 0)),
        ] {
            let there = pods(active);
            let planned_now = match plan(&replica_set(wanted, 0), &there, &there, Vec::new, now) {
                Plan::Nothing | Plan::Backoff(_) => (0, 0),
                Plan::Create(n) => (n, 0),
                Plan::Delete(pods) => (0, pods.len()),
            };
            assert_eq!(planned_now, planned, "{wanted} wanted, {active} there");
        }
    }

    #[test]
    fn pods_that_their_node_rejects_again_and_again_are_created_after_a_backoff_that_doubles() {
        let time = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let pod = |at: i64, phase: &str, message: &str| -> Arc<Pod> {
            let at = time(at).to_string();
            let metadata = json!({"name": "p", "creationTimestamp": at});
            let status = json!({"phase": phase, "message": message, "startTime": at});
            Arc::new(serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap())
        };
        let rejected = |at| pod(at, "Failed", "Pod was rejected: Predicate NodeAffinity failed");
        let check = |wanted: i32, pods: Vec<Arc<Pod>>, now: i64| {
            let active: Vec<_> = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
            match plan(&replica_set(wanted, 0), &pods, &active, Vec::new, time(now)) {
                Plan::Backoff(at) => Err(at.as_second()),
                Plan::Create(n) => Ok(n),
                other => panic!("{other:?}"),
            }
        };
        // 80 pods in each attempt.
        let attempts =
            |times: &[i64]| times.iter().flat_map(|at| (0..80).map(|_| rejected(*at))).collect::<Vec<_>>();
        assert_eq!(check(80, attempts(&[100]), 100), Err(102));
        assert_eq!(check(80, attempts(&[100]), 102), Ok(80));
        assert_eq!(check(80, attempts(&[100, 102]), 102), Err(105));
        assert_eq!(check(80, attempts(&[100, 102, 105]), 105), Err(110));
        assert_eq!(check(1, (0..40).map(rejected).collect(), 40), Err(39 + 901));
        assert_eq!(check(80, attempts(&[100]), 99), Ok(80), "another clock");
        // The node has room for some of them: the others are the attempt.
        let mut some = attempts(&[100, 102]);
        some.truncate(2);
        some.push(rejected(102));
        some.push(rejected(102));
        some.extend([pod(100, "Running", ""), pod(100, "Running", "")]);
        assert_eq!(check(4, some, 102), Err(105));
        // A node accepted one after the rejections; a pod that failed otherwise is replaced at once.
        assert_eq!(check(2, vec![rejected(100), rejected(102), pod(103, "Running", "")], 103), Ok(1));
        assert_eq!(check(1, vec![pod(100, "Failed", "The node was low on resource: memory.")], 100), Ok(1));
    }

    #[test]
    fn status_counts_pods_by_state() {
        let pod = |labels, deleting: Option<&str>, phase, ready: Option<&str>| -> Arc<Pod> {
            let conditions =
                ready.map(|since| json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]));
            Arc::new(
                serde_json::from_value(json!({
                    "metadata": {"labels": labels, "deletionTimestamp": deleting},
                    "status": {"phase": phase, "conditions": conditions},
                }))
                .unwrap(),
            )
        };
        let web = || json!({"app": "web"});
        let pods = [
            pod(web(), None, "Running", Some("2026-01-01T00:00:00Z")),
            pod(web(), None, "Running", Some("2026-01-01T00:00:55Z")),
            pod(json!({}), None, "Pending", None),
            pod(web(), Some("2026-01-01T00:00:00Z"), "Running", Some("2026-01-01T00:00:00Z")),
            pod(web(), None, "Failed", None),
        ];
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let (status, next) = status(&replica_set(3, 10), &pods, None, now);
        let expected = ReplicaSetStatus {
            replicas: 3,
            fully_labeled_replicas: 2,
            ready_replicas: 2,
            available_replicas: 1,
            terminating_replicas: 1,
            observed_generation: 7,
            conditions: Vec::new(),
        };
        assert_eq!(status, expected);
        assert_eq!(next, Some("2026-01-01T00:01:05Z".parse().unwrap()));
    }
}
