//! Ranks the pods to delete when a ReplicaSet has too many.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::view::Pod;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Selects `n` pods to delete, in the order of kube-controller-manager: unassigned before assigned, pending before
/// running, not ready before ready, lower deletion cost first, from nodes with more pods of the same Deployment
/// (`related`) first, ready for a shorter time first, more restarts first, younger first. Times are compared by their
/// order of magnitude, so a difference of seconds between old pods is ignored. Uid and name break ties.
pub(super) fn pods_to_delete(
    mut active: Vec<Arc<Pod>>,
    related: &[Arc<Pod>],
    n: usize,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    if n < active.len() {
        let mut on_node: HashMap<&str, usize> = HashMap::new();
        for pod in related.iter().filter(|pod| pod.is_active() && !pod.spec.node_name.is_empty()) {
            *on_node.entry(&pod.spec.node_name).or_default() += 1;
        }
        let n_beside = |pod: &Pod| on_node.get(pod.spec.node_name.as_str()).copied().unwrap_or(0);
        active.sort_by(|a, b| goes_before(a, b, &n_beside, now));
    }
    active.truncate(n);
    active
}

fn goes_before(a: &Pod, b: &Pod, n_beside: &impl Fn(&Pod) -> usize, now: Timestamp) -> Ordering {
    let phase = |pod: &Pod| match pod.status.phase.as_str() {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    };
    let by = |key: &dyn Fn(&Pod) -> i64| key(a).cmp(&key(b));
    by(&|pod| i64::from(!pod.spec.node_name.is_empty()))
        .then_with(|| by(&phase))
        .then_with(|| by(&|pod| i64::from(pod.is_ready())))
        .then_with(|| by(&|pod| i64::from(deletion_cost(pod))))
        .then_with(|| Reverse(n_beside(a)).cmp(&Reverse(n_beside(b))))
        .then_with(|| younger_first(a.ready_since(), b.ready_since(), now))
        .then_with(|| by(&|pod| -pod.restarts()))
        .then_with(|| younger_first(a.metadata.creation_timestamp, b.metadata.creation_timestamp, now))
        .then_with(|| a.metadata.uid.cmp(&b.metadata.uid))
        .then_with(|| a.metadata.name.cmp(&b.metadata.name))
}

/// The deletion cost of a pod; 0 if the annotation is invalid.
fn deletion_cost(pod: &Pod) -> i32 {
    let written = pod.metadata.annotation(DELETION_COST);
    written.filter(|cost| !cost.starts_with('+')).and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

/// Sort key: the order of magnitude of the age in nanoseconds. An unknown time counts as the youngest.
fn younger_first(a: Option<Timestamp>, b: Option<Timestamp>, now: Timestamp) -> Ordering {
    let magnitude = |time: Option<Timestamp>| {
        let age = now.duration_since(time?).as_nanos();
        Some(u128::try_from(age).unwrap_or(0).max(1).ilog2())
    };
    magnitude(a).cmp(&magnitude(b))
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
                let deleted = pods_to_delete(order.map(Arc::clone).into(), &[], 1, now);
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
        assert_eq!(&*pods_to_delete(mine, &related, 1, now)[0].metadata.name, "b");
    }
}
