//! Ranks the pods to delete when a ReplicaSet has too many.

use std::collections::HashSet;
use std::sync::Arc;

use berth_control::replica_set::{DELETION_COST, DeletionOrder, Replica};
use jiff::Timestamp;

use crate::view::Pod;

/// Selects `n` pods to delete. `related` are the pods of the same Deployment, these included.
pub(super) fn pods_to_delete(
    active: &[Arc<Pod>],
    related: &[Arc<Pod>],
    n: usize,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    let pods = active.iter().enumerate().map(|(position, pod)| (position, 0, replica(pod)));
    let own: HashSet<&str> = active.iter().map(|pod| &*pod.metadata.uid).collect();
    let others = related.iter().filter(|pod| pod.is_active() && !own.contains(&*pod.metadata.uid));
    let others = others.map(|pod| pod.spec.node_name.as_str());
    let taken = DeletionOrder::new(pods, others, now).take(0, n);
    taken.into_iter().map(|position| active[position].clone()).collect()
}

fn replica(pod: &Pod) -> Replica<'_> {
    Replica {
        name: &pod.metadata.name,
        uid: &pod.metadata.uid,
        created: pod.metadata.creation_timestamp,
        deletion_cost: pod.metadata.annotation(DELETION_COST),
        node: &pod.spec.node_name,
        phase: &pod.status.phase,
        is_ready: pod.is_ready(),
        ready_since: pod.ready_since(),
        restarts: pod.restarts(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, change: Value) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n"},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        json_patch::merge(&mut pod, &change);
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    /// In each row the first pod ranks before the second; `z` is the baseline.
    #[test]
    fn less_useful_pods_rank_first() {
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        let ready_at = |time: &str| json!([{"type": "Ready", "status": "True", "lastTransitionTime": time}]);
        let plain = || pod("z", json!({}));
        let cases = [
            ("unassigned", pod("zz", json!({"spec": {"nodeName": null}})), plain()),
            ("pending", pod("zz", json!({"status": {"phase": "Pending"}})), plain()),
            ("not ready", pod("zz", json!({"status": {"conditions": null}})), plain()),
            ("lower cost", pod("zz", json!({"metadata": {"annotations": {DELETION_COST: "-1"}}})), plain()),
            (
                "a cost that is none counts as 0",
                plain(),
                pod("a", json!({"metadata": {"annotations": {DELETION_COST: "1"}}})),
            ),
            (
                "ready for less",
                pod("zz", json!({"status": {"conditions": ready_at("2026-01-01T23:00:00Z")}})),
                plain(),
            ),
            (
                "about as long ready: restarts decide",
                pod("zz", json!({"status": {"containerStatuses": [{"restartCount": 3}]}})),
                pod("a", json!({"status": {"conditions": ready_at("2026-01-01T00:00:01Z")}})),
            ),
            (
                "younger",
                pod("zz", json!({"metadata": {"creationTimestamp": "2026-01-01T23:00:00Z"}})),
                plain(),
            ),
            ("name", pod("a", json!({})), plain()),
        ];
        for (what, first, second) in cases {
            for order in [[&first, &second], [&second, &first]] {
                let deleted = pods_to_delete(&order.map(Arc::clone), &[], 1, now);
                assert_eq!(deleted[0].metadata.name, first.metadata.name, "{what}");
            }
        }
    }

    #[test]
    fn pods_on_nodes_with_more_related_pods_rank_first() {
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        let on = |name, node| pod(name, json!({"spec": {"nodeName": node}}));
        let mine = vec![on("a", "alone"), on("b", "shared")];
        let related = [mine.clone(), vec![on("c", "shared")]].concat();
        assert_eq!(&*pods_to_delete(&mine, &related, 1, now)[0].metadata.name, "b");
    }
}
