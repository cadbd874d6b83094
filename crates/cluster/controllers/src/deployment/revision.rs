//! Revisions: the numbers that `kubectl rollout history` and `undo` use for the ReplicaSets of a Deployment.

use std::collections::BTreeMap;

use super::replica_sets::{DESIRED_REPLICAS, MAX_REPLICAS, Sized, spec};
use crate::view::{Deployment, ReplicaSet};

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";

/// Annotations of a Deployment that are not copied to its ReplicaSets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

pub(super) type Annotations = BTreeMap<String, String>;

/// The revision of a ReplicaSet; 0 if it has none.
pub(super) fn revision(replica_set: &ReplicaSet) -> i64 {
    replica_set.metadata.annotation(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The revision of the new ReplicaSet.
pub(super) fn next_revision(old: &[Sized]) -> i64 {
    old.iter().map(|set| revision(&set.object)).max().unwrap_or(0).saturating_add(1)
}

/// Annotations with the size that proportional scaling starts from.
pub(super) fn size_annotations(deployment: &Deployment) -> Annotations {
    let (replicas, max) = (deployment.replicas(), spec(deployment).max_replicas());
    Annotations::from([
        (DESIRED_REPLICAS.to_owned(), replicas.to_string()),
        (MAX_REPLICAS.to_owned(), max.to_string()),
    ])
}

/// Annotations that the new ReplicaSet copies from its Deployment, and its revision. `current`: its annotations now.
pub(super) fn new_replica_set_annotations(
    deployment: &Deployment,
    current: &Annotations,
    next: i64,
) -> Annotations {
    let copied =
        deployment.metadata.annotations.iter().filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
    let mut annotations: Annotations = copied.map(|(key, value)| (key.clone(), value.clone())).collect();
    let had = current.get(REVISION);
    let had_number: i64 = had.and_then(|text| text.parse().ok()).unwrap_or(0);
    // Revisions only grow: after a rollback, the old ReplicaSet gets the highest revision.
    if had_number < next {
        annotations.insert(REVISION.to_owned(), next.to_string());
        if let Some(had) = had {
            let history = current.get(REVISION_HISTORY).filter(|history| !history.is_empty());
            let history = history.map_or_else(|| had.clone(), |history| bounded(format!("{history},{had}")));
            annotations.insert(REVISION_HISTORY.to_owned(), history);
        }
    }
    annotations
}

/// Keeps the latest entries of a history within 2000 characters.
fn bounded(history: String) -> String {
    let from = history.len().saturating_sub(2_000);
    if from == 0 {
        return history;
    }
    history
        .split_at_checked(from)
        .and_then(|(_, rest)| rest.split_once(','))
        .map_or(String::new(), |(_, rest)| rest.to_owned())
}

/// The entries of `wanted` that differ from `current`.
pub(super) fn changed(current: &Annotations, wanted: Annotations) -> Annotations {
    wanted.into_iter().filter(|(key, value)| current.get(key) != Some(value)).collect()
}

/// Old ReplicaSets beyond the history limit, lowest revision first. Only those with no pods and a current status.
pub(super) fn beyond_history(deployment: &Deployment, old: &[Sized]) -> Vec<Sized> {
    // As in apps/v1: the maximum value means no limit.
    let limit = deployment.spec.revision_history_limit.unwrap_or(10);
    let (Ok(limit), true) = (usize::try_from(limit), limit != i32::MAX) else { return Vec::new() };
    let alive = old.iter().filter(|set| !set.object.metadata.is_deleting());
    let mut alive: Vec<&Sized> = alive.collect();
    alive.sort_by_key(|set| revision(&set.object));
    let n_over = alive.len().saturating_sub(limit);
    let is_idle = |set: &Sized| {
        let object = &set.object;
        set.replicas == 0
            && object.replicas() == 0
            && object.status.replicas == 0
            && object.metadata.generation <= object.status.observed_generation
    };
    alive.into_iter().take(n_over).filter(|set| is_idle(set)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn rollback_assigns_a_new_revision_and_records_the_old() {
        let deployment: Deployment = serde_json::from_value(json!({"metadata": {"annotations": {
            "kubernetes.io/change-cause": "x", REVISION: "9",
            "kubectl.kubernetes.io/last-applied-configuration": "{}"}}}))
        .unwrap();
        let map = |pairs: &[(&str, &str)]| -> Annotations {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        let cause = ("kubernetes.io/change-cause", "x");
        for (current, next, expected) in [
            (map(&[]), 1, map(&[cause, (REVISION, "1")])),
            (map(&[(REVISION, "3")]), 3, map(&[cause])),
            (map(&[(REVISION, "1")]), 4, map(&[cause, (REVISION, "4"), (REVISION_HISTORY, "1")])),
            (
                map(&[(REVISION, "4"), (REVISION_HISTORY, "1")]),
                6,
                map(&[cause, (REVISION, "6"), (REVISION_HISTORY, "1,4")]),
            ),
        ] {
            assert_eq!(new_replica_set_annotations(&deployment, &current, next), expected);
        }
        assert!(bounded("12345,".repeat(1000)).len() <= 2_000);
    }

    #[test]
    fn history_limit_keeps_the_latest_and_those_with_pods() {
        let set = |name: &str, revision: i32, replicas: i32| {
            Sized::new(
                Arc::new(
                    serde_json::from_value(json!({
                        "metadata": {"name": name, "annotations": {REVISION: revision.to_string()}},
                        "spec": {"replicas": replicas}, "status": {"replicas": replicas},
                    }))
                    .unwrap(),
                ),
                0,
            )
        };
        let old = [set("a", 3, 0), set("b", 1, 0), set("c", 2, 2), set("d", 4, 0)];
        for (limit, expected) in [
            (json!(null), vec![]),
            (json!(4), vec![]),
            (json!(3), vec!["b"]),
            (json!(2), vec!["b"]),
            (json!(0), vec!["b", "a", "d"]),
        ] {
            let deployment =
                serde_json::from_value(json!({"spec": {"revisionHistoryLimit": limit}})).unwrap();
            let names: Vec<_> = beyond_history(&deployment, &old)
                .iter()
                .map(|set| set.object.metadata.name.to_string())
                .collect();
            assert_eq!(names, expected, "{limit}");
        }
    }
}
