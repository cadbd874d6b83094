//! The next actions for a DaemonSet. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_control::bounds::Bounds;
use berth_control::daemon_set::{self as rollout, Daemon};
use jiff::Timestamp;

use crate::revisions::REVISION_LABEL;
use crate::view::{DaemonSet, DaemonSetStatus, Pod};
use berth_control::expand::Belongs;

/// The actions, and the current status.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Nodes on which to create a pod.
    pub(super) create_on: Vec<String>,
    pub(super) delete: Vec<Arc<Pod>>,
    /// Failed pods among `delete`: a backoff applies to their nodes.
    pub(super) failed: Vec<Arc<Pod>>,
    pub(super) status: DaemonSetStatus,
    /// When a ready pod becomes available.
    pub(super) look_again: Option<Timestamp>,
}

/// A node, its eligibility, and the pods bound or pinned to it, oldest first.
#[derive(Debug)]
pub(super) struct OnNode {
    pub(super) name: String,
    pub(super) belongs: Belongs,
    pub(super) pods: Vec<Arc<Pod>>,
}

/// Groups pods by the node they are bound or pinned to. The second result: pods pinned to missing nodes.
pub(super) fn by_node(
    nodes: impl Iterator<Item = (String, Belongs)>,
    pods: &[Arc<Pod>],
) -> (Vec<OnNode>, Vec<Arc<Pod>>) {
    let mut by_name: BTreeMap<&str, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in pods {
        if let Some(node) = pod.target_node() {
            by_name.entry(node).or_default().push(pod.clone());
        }
    }
    let mut on_nodes: Vec<OnNode> = nodes
        .map(|(name, belongs)| {
            let mut pods = by_name.remove(&*name).unwrap_or_default();
            pods.sort_by(|a, b| age(a).cmp(&age(b)));
            OnNode { name, belongs, pods }
        })
        .collect();
    on_nodes.sort_by(|a, b| a.name.cmp(&b.name));
    // The pod garbage collector deletes pods bound to a missing node.
    let nowhere = by_name.into_values().flatten().filter(|pod| pod.spec.node_name.is_empty());
    (on_nodes, nowhere.collect())
}

fn age(pod: &Pod) -> (Option<Timestamp>, &str) {
    (pod.metadata.creation_timestamp, &pod.metadata.name)
}

/// The plan. `hash` is the revision of the current template.
pub(super) fn plan(
    set: &DaemonSet,
    nodes: &[OnNode],
    nowhere: Vec<Arc<Pod>>,
    hash: &str,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    if !set.metadata.is_deleting() {
        let desired =
            i32::try_from(nodes.iter().filter(|n| n.belongs.should_run).count()).unwrap_or(i32::MAX);
        let rolling = &set.spec.update_strategy.rolling_update;
        let bounds =
            Bounds::of_daemon_set(rolling.max_surge.as_ref(), rolling.max_unavailable.as_ref(), desired);
        let daemon = |pod: &Arc<Pod>| Daemon {
            is_updated: pod.metadata.label(REVISION_LABEL) == Some(hash),
            is_ready: pod.is_ready(),
            is_available: pod.is_available(set.spec.min_ready_seconds, now),
            is_terminal: pod.is_terminal(),
            is_deleting: pod.metadata.is_deleting(),
        };
        let seen: Vec<_> = nodes
            .iter()
            .map(|node| rollout::OnNode {
                should_run: node.belongs.should_run,
                should_continue: node.belongs.should_continue,
                pods: node.pods.iter().map(daemon).collect(),
            })
            .collect();
        let steps = rollout::steps(bounds, set.spec.update_strategy.kind == "OnDelete", &seen);
        plan.create_on = steps.create_on.into_iter().map(|at| nodes[at].name.clone()).collect();
        for (at, pod) in steps.delete {
            let (belongs, pod) = (&nodes[at].belongs, &nodes[at].pods[pod]);
            if belongs.should_continue && pod.status.phase == "Failed" {
                plan.failed.push(pod.clone());
            }
            plan.delete.push(pod.clone());
        }
        plan.delete.extend(nowhere.into_iter().filter(|pod| !pod.metadata.is_deleting()));
    }
    (plan.status, plan.look_again) = status(set, nodes, hash, now);
    plan
}

fn status(
    set: &DaemonSet,
    nodes: &[OnNode],
    hash: &str,
    now: Timestamp,
) -> (DaemonSetStatus, Option<Timestamp>) {
    let mut status = DaemonSetStatus {
        observed_generation: set.metadata.generation,
        collision_count: set.status.collision_count,
        conditions: set.status.conditions.clone(),
        ..DaemonSetStatus::default()
    };
    let mut next_available: Option<Timestamp> = None;
    for node in nodes {
        // The available pod represents its node, otherwise the oldest.
        let pod = node.pods.iter().find(|pod| pod.is_ready()).or(node.pods.first());
        if !node.belongs.should_run {
            status.number_misscheduled += i32::from(pod.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = pod else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(pod.is_ready());
        match pod.available_at(set.spec.min_ready_seconds) {
            Some(at) if at <= now => status.number_available += 1,
            Some(at) => next_available = Some(next_available.map_or(at, |next| next.min(at))),
            None => {}
        }
        let is_new = |pod: &Arc<Pod>| pod.metadata.label(REVISION_LABEL) == Some(hash);
        status.updated_number_scheduled += i32::from(node.pods.iter().any(is_new));
    }
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    (status, next_available)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Parses pods: `+` available, `-` not ready, `x` failed, `d` terminating; then revision and node.
    fn pod(text: &str) -> Arc<Pod> {
        let (state, node) = text.split_at(2);
        let (state, revision) = state.split_at(1);
        let ready = if state == "-" { "False" } else { "True" };
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": text, "labels": {REVISION_LABEL: revision},
                    "deletionTimestamp": (state == "d").then_some("2026-01-01T00:00:00Z")},
                "spec": {"nodeName": node},
                "status": {"phase": if state == "x" { "Failed" } else { "Running" },
                    "conditions": [{"type": "Ready", "status": ready}]},
            }))
            .unwrap(),
        )
    }

    fn planned(rolling: Value, nodes: &str, pods: &[&str]) -> (Vec<String>, Vec<String>) {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
        let set = serde_json::from_value(json!({"spec": {"updateStrategy": strategy}})).unwrap();
        let pods: Vec<_> = pods.iter().map(|text| pod(text)).collect();
        // `a` gets pods, `A` neither gets nor keeps any, `'a'` after a `!` keeps its pods.
        let nodes = nodes.split(' ').map(|node| {
            let belongs = Belongs { should_run: node.len() == 1, should_continue: !node.starts_with('X') };
            (node.trim_start_matches(['X', '!']).into(), belongs)
        });
        let (nodes, nowhere) = by_node(nodes, &pods);
        let plan = plan(&set, &nodes, nowhere, "2", Timestamp::UNIX_EPOCH);
        let create = plan.create_on.iter().map(ToString::to_string).collect();
        (create, plan.delete.iter().map(|pod| pod.metadata.name.to_string()).collect())
    }

    #[test]
    fn one_pod_on_each_eligible_node_and_none_elsewhere() {
        for (nodes, pods, create, delete) in [
            ("a b", vec!["+2a"], vec!["b"], vec![]),
            ("a", vec!["d2a"], vec![], vec![]),
            ("a", vec!["x2a"], vec![], vec!["x2a"]),
            ("a", vec!["+2a", "-2a"], vec![], vec!["-2a"]),
            ("Xa !b", vec!["+2a", "+2b"], vec![], vec!["+2a"]),
            ("Xa !b", vec![], vec![], vec![]),
        ] {
            assert_eq!(
                planned(json!({}), nodes, &pods),
                (strings(&create), strings(&delete)),
                "{nodes} {pods:?}"
            );
        }
    }

    #[test]
    fn rolling_updates_keep_to_surge_and_unavailability() {
        for (rolling, pods, create, delete) in [
            (json!({}), vec!["+1a", "+1b", "+1c"], vec![], vec!["+1a"]),
            (json!({"maxUnavailable": "50%"}), vec!["+1a", "+1b", "+1c"], vec![], vec!["+1a", "+1b"]),
            (json!({}), vec!["-2a", "+1b", "+1c"], vec![], vec![]),
            (json!({}), vec!["+2a", "+1b", "+1c"], vec![], vec!["+1b"]),
            (json!({}), vec!["+1a", "-1b", "+1c"], vec![], vec!["-1b"]),
            (json!({}), vec!["d1a", "+1b", "+1c"], vec![], vec![]),
            (json!({"maxSurge": 1, "maxUnavailable": 0}), vec!["+1a", "+1b", "+1c"], vec!["a"], vec![]),
            (json!({"maxSurge": 1, "maxUnavailable": 0}), vec!["+1a", "-2a", "+1b", "+1c"], vec![], vec![]),
            (
                json!({"maxSurge": 1, "maxUnavailable": 0}),
                vec!["+1a", "+2a", "+1b", "+1c"],
                vec!["b"],
                vec!["+1a"],
            ),
            (json!({"maxSurge": 1, "maxUnavailable": 0}), vec!["-1a", "+1b", "+1c"], vec!["a", "b"], vec![]),
        ] {
            let expected = (strings(&create), strings(&delete));
            assert_eq!(planned(rolling.clone(), "a b c", &pods), expected, "{rolling} {pods:?}");
        }
    }

    /// As kube-controller-manager 1.37.2 does it: `rollingUpdate` looks at all nodes that have a pod.
    #[test]
    fn old_pods_stayed_on_nodes_that_have_a_no_schedule_taint_now() {
        let surge = json!({"maxSurge": 1, "maxUnavailable": 0});
        for (rolling, pods, create, delete) in [
            (json!({}), vec!["+2a", "+1b"], vec![], vec!["+1b"]),
            (json!({}), vec!["-2a", "+1b"], vec![], vec![]),
            (surge.clone(), vec!["+1a", "+1b"], vec!["a"], vec!["+1b"]),
            (surge.clone(), vec!["-1a", "+1b"], vec!["a"], vec![]),
            (surge, vec!["+2a", "-1b"], vec![], vec!["-1b"]),
        ] {
            let expected = (strings(&create), strings(&delete));
            assert_eq!(planned(rolling.clone(), "a !b", &pods), expected, "{rolling} {pods:?}");
        }
    }

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }
}
