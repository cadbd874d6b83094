//! Status of a Deployment: counters, and the progress of the rollout.

use berth_api::fenceposts::clamp;
use jiff::{SignedDuration, Timestamp};

use super::replica_sets::{Sized, spec, total_available, total_replicas};
use crate::view::{Condition, Deployment, DeploymentStatus, find_condition, remove_condition, set_condition};

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Reasons of the condition `Progressing`.
const COMPLETE: &str = "NewReplicaSetAvailable";
const UPDATED: &str = "ReplicaSetUpdated";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";

/// Computes the counters and the condition `Available`.
pub(super) fn counted(
    deployment: &Deployment,
    new: Option<&Sized>,
    old: &[Sized],
    now: Timestamp,
) -> DeploymentStatus {
    let all = || old.iter().chain(new);
    let sum = |of: &dyn Fn(&Sized) -> i32| clamp(all().map(|set| i64::from(of(set))).sum());
    let available = total_available(all());
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: sum(&|set| set.object.status.replicas),
        updated_replicas: new.map_or(0, |set| set.object.status.replicas),
        ready_replicas: sum(&|set| set.object.status.ready_replicas),
        available_replicas: available,
        unavailable_replicas: total_replicas(all()).saturating_sub(available).max(0),
        terminating_replicas: sum(&|set| set.object.status.terminating_replicas),
        collision_count: deployment.status.collision_count,
        conditions: deployment.status.conditions.clone(),
    };
    let max_unavailable = spec(deployment).rolling.map_or(0, |bounds| bounds.max_unavailable);
    let enough = deployment.replicas().saturating_sub(max_unavailable);
    let (value, reason, message) = if available >= enough {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set(&mut status, AVAILABLE, value, reason, message.to_owned(), now);
    status
}

/// Sets `Progressing` when the Deployment is paused or resumed.
pub(super) fn set_paused(deployment: &Deployment, status: &mut DeploymentStatus, now: Timestamp) {
    if !has_deadline(deployment) {
        return;
    }
    let reason =
        find_condition(&status.conditions, PROGRESSING).map(|c| c.reason.as_str()).unwrap_or_default();
    // A rollout that exceeded its deadline stays failed, paused or not.
    if reason == TIMED_OUT {
        return;
    }
    match (deployment.spec.paused, reason == PAUSED) {
        (true, false) => set(status, PROGRESSING, "Unknown", PAUSED, "Deployment is paused".to_owned(), now),
        (false, true) => {
            set(status, PROGRESSING, "Unknown", RESUMED, "Deployment is resumed".to_owned(), now)
        }
        _ => {}
    }
}

/// Sets `Progressing` when the ReplicaSet of the current template is found or created.
pub(super) fn set_new_replica_set(
    deployment: &Deployment,
    status: &mut DeploymentStatus,
    name: &str,
    made: bool,
    now: Timestamp,
) {
    if !has_deadline(deployment) {
        return;
    }
    if made {
        let message = format!("Created new replica set \"{name}\"");
        set(status, PROGRESSING, "True", "NewReplicaSetCreated", message, now);
    } else if find_condition(&status.conditions, PROGRESSING).is_none() {
        let message = format!("Found new replica set \"{name}\"");
        set(status, PROGRESSING, "True", "FoundNewReplicaSet", message, now);
    }
}

/// Sets `Progressing` when the creation of the new ReplicaSet failed.
pub(super) fn set_create_failed(
    deployment: &Deployment,
    status: &mut DeploymentStatus,
    message: String,
    now: Timestamp,
) {
    if has_deadline(deployment) {
        set(status, PROGRESSING, "False", "ReplicaSetCreateError", message, now);
    }
}

/// Sets the progress of a rollout: complete, progressing or deadline exceeded. `status` has its counters already.
/// Returns when to check the deadline again.
pub(super) fn set_progress(
    deployment: &Deployment,
    status: &mut DeploymentStatus,
    new: Option<&Sized>,
    all: &[&Sized],
    now: Timestamp,
) -> Option<Timestamp> {
    let what = new.map_or_else(
        || format!("Deployment \"{}\"", deployment.metadata.name),
        |set| format!("ReplicaSet \"{}\"", set.object.metadata.name),
    );
    let current = find_condition(&status.conditions, PROGRESSING).cloned();
    let was_complete =
        status.replicas == status.updated_replicas && current.as_ref().is_some_and(|c| c.reason == COMPLETE);
    if !has_deadline(deployment) {
        remove_condition(&mut status.conditions, PROGRESSING);
    } else if !was_complete {
        if is_complete(deployment, status) {
            set(status, PROGRESSING, "True", COMPLETE, format!("{what} has successfully progressed."), now);
        } else if has_progressed(&deployment.status, status) {
            let mut progress =
                Condition::new(PROGRESSING, "True", UPDATED, format!("{what} is progressing."), now);
            progress.last_update_time = Some(now);
            if let Some(current) = current.as_ref().filter(|c| c.is_true()) {
                progress.last_transition_time = current.last_transition_time;
            }
            // Any progress resets the deadline.
            remove_condition(&mut status.conditions, PROGRESSING);
            status.conditions.push(progress);
        } else if deadline(deployment, current.as_ref()).is_some_and(|at| at <= now) {
            set(status, PROGRESSING, "False", TIMED_OUT, format!("{what} has timed out progressing."), now);
        }
    }
    set_replica_failure(status, all);
    let current = find_condition(&status.conditions, PROGRESSING);
    let waits = !is_complete(deployment, status) && current.is_some_and(|c| c.reason != TIMED_OUT);
    if waits { deadline(deployment, current) } else { None }
}

/// Copies the `ReplicaFailure` condition of a ReplicaSet.
fn set_replica_failure(status: &mut DeploymentStatus, all: &[&Sized]) {
    let failure =
        all.iter().rev().find_map(|set| find_condition(&set.object.status.conditions, REPLICA_FAILURE));
    match failure {
        Some(failure) => {
            let mut failure = failure.clone();
            failure.last_update_time = failure.last_transition_time;
            set_condition(&mut status.conditions, failure);
        }
        None => remove_condition(&mut status.conditions, REPLICA_FAILURE),
    }
}

/// Whether all pods have the current template and are available, and no old pod is left.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = deployment.replicas();
    status.updated_replicas == wanted
        && status.replicas == wanted
        && status.available_replicas == wanted
        && status.observed_generation >= deployment.metadata.generation
}

fn has_progressed(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let n_old = |status: &DeploymentStatus| status.replicas.saturating_sub(status.updated_replicas);
    new.updated_replicas > old.updated_replicas
        || n_old(new) < n_old(old)
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}

fn has_deadline(deployment: &Deployment) -> bool {
    deployment.spec.progress_deadline_seconds.unwrap_or(600) != i32::MAX
}

/// The deadline of the rollout; `None` if it has not started or was complete once.
fn deadline(deployment: &Deployment, progressing: Option<&Condition>) -> Option<Timestamp> {
    let progressing = progressing?;
    if progressing.reason == COMPLETE || deployment.spec.paused {
        return None;
    }
    let seconds = i64::from(deployment.spec.progress_deadline_seconds.unwrap_or(600));
    progressing.last_update_time?.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Sets a condition with the time of its update.
fn set(
    status: &mut DeploymentStatus,
    kind: &str,
    value: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let mut new = Condition::new(kind, value, reason, message, now);
    new.last_update_time = Some(now);
    set_condition(&mut status.conditions, new);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    const T0: &str = "2026-01-01T00:00:00Z";

    fn deployment(progressing: Option<(&str, &str, &str)>, status: Value) -> Deployment {
        let mut object = json!({
            "metadata": {"name": "web", "generation": 1},
            "spec": {"replicas": 3, "progressDeadlineSeconds": 60},
            "status": status,
        });
        if let Some((value, reason, updated)) = progressing {
            object["status"]["conditions"] =
                json!([{"type": PROGRESSING, "status": value, "reason": reason, "lastUpdateTime": updated}]);
        }
        serde_json::from_value(object).unwrap()
    }

    fn new_set(replicas: i32, available: i32) -> Sized {
        Sized::new(Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": "web-1"}, "spec": {"replicas": replicas},
                "status": {"replicas": replicas, "readyReplicas": available, "availableReplicas": available},
            }))
            .unwrap(),
        ), 0)
    }

    #[test]
    fn rollout_is_complete_progressing_or_past_its_deadline() {
        let before =
            || json!({"replicas": 3, "updatedReplicas": 3, "readyReplicas": 1, "availableReplicas": 1});
        // Progressing before, available pods now, seconds later: reason and status of Progressing.
        for (progressing, available, seconds, reason, value, looks_again) in [
            (Some(("True", UPDATED, T0)), 3, 5, COMPLETE, "True", false),
            (Some(("True", UPDATED, T0)), 2, 5, UPDATED, "True", true),
            (Some(("True", UPDATED, T0)), 1, 59, UPDATED, "True", true),
            (Some(("True", UPDATED, T0)), 1, 60, TIMED_OUT, "False", false),
            (Some(("False", TIMED_OUT, T0)), 1, 90, TIMED_OUT, "False", false),
            (Some(("False", TIMED_OUT, T0)), 2, 90, UPDATED, "True", true),
            (Some(("False", TIMED_OUT, T0)), 3, 90, COMPLETE, "True", false),
            // A pod that fails after completion does not fail the rollout.
            (Some(("True", COMPLETE, T0)), 1, 900, COMPLETE, "True", false),
            (Some(("Unknown", RESUMED, T0)), 1, 61, TIMED_OUT, "False", false),
        ] {
            let deployment = deployment(progressing, before());
            let now = T0.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds);
            let new = new_set(3, available);
            let mut status = counted(&deployment, Some(&new), &[], now);
            let again = set_progress(&deployment, &mut status, Some(&new), &[&new], now);
            let condition = find_condition(&status.conditions, PROGRESSING).unwrap();
            assert_eq!(
                (condition.reason.as_str(), condition.status.as_str()),
                (reason, value),
                "{progressing:?} {available}"
            );
            assert_eq!(again.is_some(), looks_again, "{progressing:?} {available}");
        }
    }

    #[test]
    fn available_condition_respects_max_unavailable() {
        let now = T0.parse().unwrap();
        for (available, value) in [(3, "True"), (2, "False")] {
            let status = counted(&deployment(None, json!({})), Some(&new_set(3, available)), &[], now);
            let condition = find_condition(&status.conditions, AVAILABLE).unwrap();
            assert_eq!((condition.status.as_str(), status.unavailable_replicas), (value, 3 - available));
        }
    }
}
