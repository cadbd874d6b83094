//! The plan of a ReplicaSet: pods to create or delete, and the status.

use std::sync::Arc;

use berth_api::object::StringMap;
use jiff::Timestamp;

use super::rank::pods_to_delete;
use crate::pod_control::BURST;
use crate::view::{Condition, Pod, ReplicaSet, ReplicaSetStatus, remove_condition, set_condition};

#[derive(Debug)]
pub(super) enum Plan {
    Nothing,
    Create(usize),
    Delete(Vec<Arc<Pod>>),
}

/// Compares the active pods with the wanted number. `active` are the active pods of the ReplicaSet, `related` those of the same Deployment, including this ReplicaSet's; the function calls it only if there are too many pods.
pub(super) fn plan(
    replica_set: &ReplicaSet,
    active: &[Arc<Pod>],
    related: impl FnOnce() -> Vec<Arc<Pod>>,
    now: Timestamp,
) -> Plan {
    let wanted = usize::try_from(replica_set.replicas()).unwrap_or(0);
    match active.len() {
        n if n < wanted => Plan::Create((wanted - n).min(BURST)),
        n if n > wanted => {
            let too_many = (n - wanted).min(BURST);
            Plan::Delete(pods_to_delete(active, &related(), too_many, now))
        }
        _ => Plan::Nothing,
    }
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
            let planned_now = match plan(&replica_set(wanted, 0), &pods(active), Vec::new, now) {
                Plan::Nothing => (0, 0),
                Plan::Create(n) => (n, 0),
                Plan::Delete(pods) => (0, pods.len()),
            };
            assert_eq!(planned_now, planned, "{wanted} wanted, {active} there");
        }
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
