//! The next actions for a StatefulSet. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_control::stateful_set::{Member, Spec, Step, max_unavailable, steps};
use jiff::Timestamp;

use crate::pod_control::BURST;
use crate::revisions::REVISION_LABEL;
use crate::view::{Pod, StatefulSet, StatefulSetStatus};

/// Label with the pod's name, so that a service can select one pod.
pub(super) const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// Label with the pod's ordinal.
pub(super) const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The template for a new pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Revision {
    Current,
    Update,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Create the claims of an ordinal, then its pod.
    Create(i64, Revision),
    Delete(Arc<Pod>),
    /// Restore the identity labels of an adopted pod.
    Label(Arc<Pod>, i64),
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) actions: Vec<Action>,
    pub(super) status: StatefulSetStatus,
    /// When a ready pod becomes available.
    pub(super) look_again: Option<Timestamp>,
}

/// The plan for a StatefulSet and its pods. Revisions are given by name.
pub(super) fn plan(
    set: &StatefulSet,
    pods: &[Arc<Pod>],
    current: &str,
    update: &str,
    now: Timestamp,
) -> Plan {
    let mut members: BTreeMap<i64, &Arc<Pod>> = BTreeMap::new();
    for pod in pods {
        if let Some(ordinal) = set.ordinal_of(&pod.metadata.name) {
            members.insert(ordinal, pod);
        }
    }
    let mut actions = Vec::new();
    if !set.metadata.is_deleting() {
        let rolling = &set.spec.update_strategy.rolling_update;
        let spec = Spec {
            ordinals: set.ordinals(),
            is_parallel: set.spec.pod_management_policy == "Parallel",
            is_on_delete: set.spec.update_strategy.kind == "OnDelete",
            partition: rolling.partition,
            max_unavailable: max_unavailable(rolling.max_unavailable.as_ref(), set.replicas()),
            has_update: current != update,
            burst: BURST,
        };
        let seen = members.iter().map(|(ordinal, pod)| (*ordinal, member(set, pod, update, now)));
        let pod = |ordinal| members.get(&ordinal).map(|pod| Arc::clone(pod));
        actions.extend(steps(&spec, &seen.collect()).into_iter().filter_map(|step| match step {
            Step::Create { ordinal, is_updated: true } => Some(Action::Create(ordinal, Revision::Update)),
            Step::Create { ordinal, is_updated: false } => Some(Action::Create(ordinal, Revision::Current)),
            Step::Delete(ordinal) => pod(ordinal).map(Action::Delete),
            Step::Label(ordinal) => pod(ordinal).map(|pod| Action::Label(pod, ordinal)),
        }));
    }
    let all = pods.iter().filter(|pod| set.ordinal_of(&pod.metadata.name).is_some());
    let (status, look_again) = status(set, all, current, update, now);
    Plan { actions, status, look_again }
}

fn member(set: &StatefulSet, pod: &Pod, update: &str, now: Timestamp) -> Member {
    let metadata = &pod.metadata;
    Member {
        is_updated: metadata.label(REVISION_LABEL) == Some(update),
        is_available: is_running(pod)
            && !metadata.is_deleting()
            && pod.is_available(set.spec.min_ready_seconds, now),
        is_terminal: pod.is_terminal(),
        is_deleting: metadata.is_deleting(),
        is_identified: metadata.label(POD_NAME_LABEL) == Some(&metadata.name)
            && metadata.label(POD_INDEX_LABEL).is_some(),
    }
}

fn is_running(pod: &Pod) -> bool {
    pod.status.phase == "Running" && pod.is_ready()
}

fn status<'a>(
    set: &StatefulSet,
    pods: impl Iterator<Item = &'a Arc<Pod>>,
    current: &str,
    update: &str,
    now: Timestamp,
) -> (StatefulSetStatus, Option<Timestamp>) {
    let mut status = StatefulSetStatus {
        observed_generation: set.metadata.generation,
        current_revision: current.to_owned(),
        update_revision: update.to_owned(),
        collision_count: set.status.collision_count,
        conditions: set.status.conditions.clone(),
        ..StatefulSetStatus::default()
    };
    let mut next_available: Option<Timestamp> = None;
    for pod in pods {
        status.replicas += 1;
        if is_running(pod) {
            status.ready_replicas += 1;
            match pod.available_at(set.spec.min_ready_seconds) {
                Some(at) if at <= now => status.available_replicas += 1,
                Some(at) => next_available = Some(next_available.map_or(at, |next| next.min(at))),
                None => {}
            }
        }
        if !pod.metadata.is_deleting() {
            let revision = pod.metadata.label(REVISION_LABEL);
            status.current_replicas += i32::from(revision == Some(current));
            status.updated_replicas += i32::from(revision == Some(update));
        }
    }
    let wanted = set.replicas();
    let is_complete = set.spec.update_strategy.kind != "OnDelete"
        && status.updated_replicas == wanted
        && status.ready_replicas == wanted
        && status.replicas == wanted;
    if is_complete {
        status.current_replicas = status.updated_replicas;
        status.current_revision = update.to_owned();
    }
    (status, next_available)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Parses a pod: `+` available, `-` not ready, `x` ended, `d` terminating; then its revision.
    fn pod(text: &str) -> Arc<Pod> {
        let (name, rest) = text.split_once(' ').unwrap();
        let (state, revision) = rest.split_at(1);
        let ready = if state == "-" { "False" } else { "True" };
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "labels": {REVISION_LABEL: revision, POD_NAME_LABEL: name, POD_INDEX_LABEL: ""},
                    "deletionTimestamp": (state == "d").then_some("2026-01-01T00:00:00Z")},
                "status": {"phase": if state == "x" { "Failed" } else { "Running" },
                    "conditions": [{"type": "Ready", "status": ready}]},
            }))
            .unwrap(),
        )
    }

    fn planned(spec: Value, pods: &[&str]) -> Vec<String> {
        let set: StatefulSet =
            serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": spec})).unwrap();
        let pods: Vec<_> = pods.iter().map(|text| pod(text)).collect();
        let plan = plan(&set, &pods, "1", "2", Timestamp::UNIX_EPOCH);
        let shown = plan.actions.iter().map(|action| match action {
            Action::Create(ordinal, Revision::Current) => format!("make {ordinal} of 1"),
            Action::Create(ordinal, Revision::Update) => format!("make {ordinal}"),
            Action::Delete(pod) => format!("delete {}", pod.metadata.name),
            Action::Label(pod, _) => format!("label {}", pod.metadata.name),
        });
        shown.collect()
    }

    #[test]
    fn billions_of_replicas_take_the_memory_of_one_round() {
        let replicas = i32::MAX;
        let ordered = planned(json!({"replicas": replicas}), &["s-0 +2"]);
        assert_eq!(ordered, ["make 1"]);
        let parallel = planned(json!({"replicas": replicas, "podManagementPolicy": "Parallel"}), &["s-0 +2"]);
        assert_eq!(parallel.len(), BURST);
    }

    #[test]
    fn pods_are_created_and_deleted_in_order() {
        for (pods, expected) in [
            (vec![], vec!["make 0"]),
            (vec!["s-0 -2"], vec![]),
            (vec!["s-0 +2"], vec!["make 1"]),
            (vec!["s-0 +2", "s-2 +2"], vec!["make 1"]),
            (vec!["s-0 d2", "s-1 +2", "s-2 +2"], vec![]),
            (vec!["s-0 x2", "s-1 +2", "s-2 +2"], vec!["delete s-0"]),
            // Too many: the highest is deleted first, one at a time, when all others are healthy.
            (vec!["s-0 +2", "s-1 +2", "s-2 +2", "s-3 +2", "s-4 +2"], vec!["delete s-4"]),
            (vec!["s-0 +2", "s-1 +2", "s-2 +2", "s-3 +2", "s-4 -2"], vec!["delete s-4"]),
            (vec!["s-0 +2", "s-1 +2", "s-2 +2", "s-3 +2", "s-4 d2"], vec![]),
            (vec!["s-0 +2", "s-1 +2", "s-2 +2", "s-3 -2", "s-4 +2"], vec!["delete s-4"]),
            // kube-controller-manager 1.37: of several that are not ready, the highest waits for the lowest.
            (vec!["s-0 +2", "s-1 +2", "s-2 +2", "s-3 -2", "s-4 -2"], vec![]),
            (vec!["s-0 +2", "s-1 -2", "s-2 +2", "s-3 +2"], vec![]),
            // Updates start at the highest ordinal and wait until each pod is healthy.
            (vec!["s-0 +1", "s-1 +1", "s-2 +1"], vec!["delete s-2"]),
            (vec!["s-0 +1", "s-1 +1", "s-2 -2"], vec![]),
            (vec!["s-0 +1", "s-1 +1", "s-2 +2"], vec!["delete s-1"]),
            // Pods whose names are not of this set are ignored.
            (vec!["s-0 +2", "s-1 +2", "s-2 +2", "s-03 +2", "s-x +2", "t-7 +2"], vec![]),
        ] {
            assert_eq!(planned(json!({"replicas": 3}), &pods), expected, "{pods:?}");
        }
    }

    #[test]
    fn pod_management_policies_and_update_strategies() {
        for (spec, pods, expected) in [
            (
                json!({"replicas": 2, "podManagementPolicy": "Parallel"}),
                vec!["s-3 +2", "s-4 -2"],
                vec!["make 0", "make 1", "delete s-4", "delete s-3"],
            ),
            (json!({"replicas": 2, "ordinals": {"start": 5}}), vec!["s-5 +2", "s-0 +2"], vec!["make 6"]),
            (
                json!({"replicas": 2, "updateStrategy": {"type": "OnDelete"}}),
                vec!["s-0 +1", "s-1 +1"],
                vec![],
            ),
            (
                json!({"replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": 1}}}),
                vec!["s-0 +1", "s-1 +1"],
                vec!["delete s-1"],
            ),
            (
                json!({"replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": 1}}}),
                vec!["s-0 +1", "s-1 +2"],
                vec![],
            ),
            (
                json!({"replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": 1}}}),
                vec![],
                vec!["make 0 of 1"],
            ),
            (
                json!({"replicas": 4, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}),
                vec!["s-0 +1", "s-1 +1", "s-2 +1", "s-3 +1"],
                vec!["delete s-3", "delete s-2"],
            ),
            // Pods of an earlier template that are not ready wait for nobody, those that are ready for all that are not.
            (
                json!({"replicas": 4, "podManagementPolicy": "Parallel"}),
                vec!["s-0 -1", "s-1 +1", "s-2 -1", "s-3 +1"],
                vec!["delete s-2", "delete s-0"],
            ),
            (
                json!({"replicas": 3, "podManagementPolicy": "Parallel"}),
                vec!["s-0 -2", "s-1 +1", "s-2 +1"],
                vec![],
            ),
            (
                json!({"replicas": 3, "podManagementPolicy": "Parallel", "updateStrategy": {"rollingUpdate": {"partition": 1}}}),
                vec!["s-0 -1", "s-1 +1", "s-2 +1"],
                vec![],
            ),
        ] {
            assert_eq!(planned(spec.clone(), &pods), expected, "{spec} {pods:?}");
        }
    }

    #[test]
    fn a_completed_update_changes_the_current_revision() {
        let set: StatefulSet =
            serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": {"replicas": 2}})).unwrap();
        let current_revision = |pods: [&str; 2]| {
            let status = plan(&set, &pods.map(pod), "1", "2", Timestamp::UNIX_EPOCH).status;
            (status.current_revision, status.current_replicas, status.updated_replicas)
        };
        assert_eq!(current_revision(["s-0 +1", "s-1 +2"]), ("1".to_owned(), 1, 1));
        assert_eq!(current_revision(["s-0 -2", "s-1 +2"]), ("1".to_owned(), 0, 2));
        assert_eq!(current_revision(["s-0 +2", "s-1 +2"]), ("2".to_owned(), 2, 2));
    }
}
