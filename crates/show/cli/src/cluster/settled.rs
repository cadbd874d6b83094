//! Whether a cluster has settled: no component is about to create, schedule, start or stop a pod.

use std::collections::{HashMap, HashSet};

use berth_client::ObservedObject;

use super::observed::{Observed, Stage};
use super::rejections::Rejections;
use super::workload::Workload;

/// Why the nodes and pods have not settled; none if they have. At least `n_nodes` nodes are expected.
pub fn unsettled_pods(observed: &Observed, n_nodes: usize) -> Option<String> {
    if !observed.is_complete() {
        return Some("nodes and pods have not been listed".to_owned());
    }
    let tally = observed.tally();
    let n_expected = n_nodes.max(tally.n_nodes);
    if tally.n_ready < n_expected {
        return Some(format!("{} of {n_expected} nodes are ready", tally.n_ready));
    }
    let unsettled = observed
        .pods()
        .into_iter()
        .filter_map(|pod| Some((pod.metadata.namespaced_name(), unsettled_reason(&pod, observed)?)));
    let (name, why) = unsettled.min()?;
    Some(format!("Pod {name} {why}"))
}

fn unsettled_reason(pod: &ObservedObject, observed: &Observed) -> Option<&'static str> {
    match observed.stage(pod) {
        Stage::New => Some("has not been scheduled"),
        Stage::Pending if pod.is_nominated() => Some("waits for preempted pods to terminate"),
        Stage::Terminating => Some("is being deleted"),
        // On a node that is not ready it would never start.
        Stage::Bound if pod.node().and_then(|n| observed.node(n)).is_some_and(|n| n.is_ready()) => {
            Some("is starting")
        }
        _ => None,
    }
}

/// Why the workloads have not settled; none if they have.
///
/// A workload with unschedulable pods has settled: its controller waits for them. So has one whose pods their nodes reject, or quotas
/// refuse, although its controller tries again after a backoff.
pub fn unsettled_workload(workloads: &[Workload], observed: &Observed) -> Option<String> {
    let by_uid: HashMap<_, _> = workloads.iter().map(|w| (w.metadata.uid.as_str(), w)).collect();
    let pods = observed.pods();
    let mut stuck = HashSet::new();
    let rejections = Rejections::new(observed, workloads);
    let pending = pods.iter().filter(|pod| observed.stage(pod) == Stage::Pending);
    let owners = pending.filter_map(|pod| pod.metadata.controller()).map(|owner| owner.uid.as_str());
    // A Job goes on with its other pods.
    let is_job = |uid: &&str| by_uid.get(uid).is_some_and(|w| w.kind == "Job");
    let owners = owners.filter(|uid| !is_job(uid)).chain(rejections.controllers.iter().map(String::as_str));
    let refused = workloads.iter().filter(|workload| workload.refusal().is_some());
    let owners = owners.chain(refused.map(|workload| workload.metadata.uid.as_str()));
    for uid in owners {
        // The pod's ReplicaSet and its Deployment.
        stuck.insert(uid);
        stuck.extend(by_uid.get(uid).and_then(|w| w.metadata.controller()).map(|owner| owner.uid.as_str()));
    }
    let mut n_pods: HashMap<&str, i64> = HashMap::new();
    for owner in pods.iter().filter_map(|p| p.metadata.controller()) {
        *n_pods.entry(&owner.uid).or_default() += 1;
    }
    let unsettled = workloads.iter().find_map(|workload| {
        let uid = workload.metadata.uid.as_str();
        // The list of workloads is newer than the observed pods.
        let n_seen = n_pods.get(uid).copied().unwrap_or(0);
        if n_seen < workload.n_own_pods() {
            return Some((workload, "has pods that have not been observed".to_owned()));
        }
        Some((workload, workload.unsettled_reason(stuck.contains(uid))?))
    });
    unsettled
        .map(|(workload, why)| format!("{} {} {why}", workload.kind, workload.metadata.namespaced_name()))
}

impl Workload {
    /// Why it has not settled; `is_stuck` means that one of its pods is unschedulable, or that nodes reject its pods.
    fn unsettled_reason(&self, is_stuck: bool) -> Option<String> {
        let Workload { kind, metadata, spec, status, .. } = self;
        if metadata.is_deleting() {
            return Some("is being deleted".to_owned());
        }
        if *kind == "Job" {
            let is_over = status.conditions.iter().any(|c| {
                ["Complete", "Failed", "Suspended"].contains(&c.condition_type.as_str()) && c.status == "True"
            });
            let wanted = self.n_wanted_pods().unwrap_or(0);
            let is_unsettled =
                !is_over && !spec.suspend && !is_stuck && (status.active < wanted || wanted == 0);
            return is_unsettled.then(|| format!("has {} of {wanted} pods", status.active));
        }
        if status.observed_generation < metadata.generation {
            return Some("has not been processed".to_owned());
        }
        let wanted = spec.replicas.unwrap_or(1);
        match *kind {
            _ if is_stuck => None,
            "DaemonSet" if status.current_number_scheduled < status.desired_number_scheduled => {
                Some(format!(
                    "has pods on {} of {} nodes",
                    status.current_number_scheduled, status.desired_number_scheduled
                ))
            }
            "Deployment" | "StatefulSet" if !spec.paused && status.updated_replicas < wanted => {
                Some(format!("has {} of {wanted} pods", status.updated_replicas))
            }
            "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet"
                if !spec.paused && status.replicas != wanted =>
            {
                Some(format!("has {} pods, desired: {wanted}", status.replicas))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_simulate::{Unadmitted, UnadmittedState};
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, spec: Value, status: Value) -> ObservedObject {
        let owner = json!({"kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": true});
        let metadata = json!({"name": name, "namespace": "a", "ownerReferences": [owner]});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn pending(name: &str) -> ObservedObject {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
        pod(name, json!({}), json!({"phase": "Pending", "conditions": [condition]}))
    }

    fn observed(pods: Vec<ObservedObject>) -> Observed {
        let ready = json!({"type": "Ready", "status": "True"});
        let node = json!({"metadata": {"name": "n"}, "status": {"conditions": [ready]}});
        Observed::of(vec![serde_json::from_value(node).unwrap()], pods)
    }

    fn workload(kind: &'static str, metadata: Value, spec: Value, status: Value) -> Workload {
        let mut metadata = metadata;
        metadata["name"] = "web".into();
        metadata["namespace"] = "a".into();
        let object = json!({"metadata": metadata, "spec": spec, "status": status});
        Workload { kind, ..serde_json::from_value(object).unwrap() }
    }

    #[test]
    fn pods_have_settled_when_running_or_unschedulable() {
        let check = |pods, expected: Option<&str>| {
            assert_eq!(unsettled_pods(&observed(pods), 1).as_deref(), expected);
        };
        let bound = json!({"nodeName": "n"});
        let running = pod("r", bound.clone(), json!({"phase": "Running"}));
        check(vec![running.clone(), pending("w")], None);
        check(vec![running, pod("p", json!({}), json!({}))], Some("Pod a/p has not been scheduled"));
        check(vec![pod("p", bound, json!({"phase": "Pending"}))], Some("Pod a/p is starting"));
        check(vec![pod("p", json!({"nodeName": "gone"}), json!({}))], None);
        let waiting = observed(vec![pod("p", json!({"nodeName": "n"}), json!({"phase": "Pending"}))]);
        let (state, node, message) = (UnadmittedState::Unbound, "n".to_owned(), String::new());
        let why = Unadmitted { state, node, reason: None, message };
        waiting.set_unmounted([("a/p".to_owned(), why)].into());
        assert_eq!(unsettled_pods(&waiting, 1), None, "a claim that stays unbound kept it from settling");
        let mut nominated = pending("p");
        nominated.status.nominated_node_name = "n".to_owned();
        check(vec![nominated], Some("Pod a/p waits for preempted pods to terminate"));
        assert_eq!(unsettled_pods(&observed(vec![]), 2).as_deref(), Some("1 of 2 nodes are ready"));
    }

    #[test]
    fn a_deployment_has_settled_when_rolled_out_or_stuck() {
        let replica_set = json!({"uid": "rs", "ownerReferences": [{"uid": "d", "controller": true}]});
        let replica_set = workload("ReplicaSet", replica_set, json!({"replicas": 0}), json!({}));
        let deployment = |generation: i64, n_updated: i64, n_replicas: i64| {
            let status =
                json!({"observedGeneration": 2, "replicas": n_replicas, "updatedReplicas": n_updated});
            workload(
                "Deployment",
                json!({"uid": "d", "generation": generation}),
                json!({"replicas": 3}),
                status,
            )
        };
        let check = |deployment, pods, expected: Option<&str>| {
            let workloads = [deployment, replica_set.clone()];
            assert_eq!(unsettled_workload(&workloads, &observed(pods)).as_deref(), expected);
        };
        check(deployment(2, 3, 3), vec![], None);
        check(deployment(3, 3, 3), vec![], Some("Deployment a/web has not been processed"));
        check(deployment(2, 1, 4), vec![], Some("Deployment a/web has 1 of 3 pods"));
        check(deployment(2, 3, 4), vec![], Some("Deployment a/web has 4 pods, desired: 3"));
        check(deployment(2, 1, 4), vec![pending("surge")], None);
        let unseen =
            workload("ReplicaSet", json!({"uid": "x"}), json!({"replicas": 1}), json!({"replicas": 1}));
        assert_eq!(
            unsettled_workload(&[unseen], &observed(vec![])).as_deref(),
            Some("ReplicaSet a/web has pods that have not been observed")
        );
    }

    #[test]
    fn a_deployment_has_settled_when_its_node_has_rejected_all_missing_pods() {
        let rejected = |name: &str| {
            let status =
                json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: no room"});
            pod(name, json!({"nodeName": "n"}), status)
        };
        let replica_set = json!({"uid": "rs", "ownerReferences": [{"uid": "d", "controller": true}]});
        let spec = json!({"replicas": 2, "template": {"spec": {"nodeName": "n"}}});
        let mut replica_set = workload("ReplicaSet", replica_set, spec, json!({"replicas": 1}));
        let status = json!({"replicas": 1, "updatedReplicas": 1});
        let deployment = workload("Deployment", json!({"uid": "d"}), json!({"replicas": 2}), status);
        let workloads = [deployment.clone(), replica_set.clone()];
        let running = pod("r", json!({"nodeName": "n"}), json!({"phase": "Running"}));
        let settled = |pods: &[ObservedObject]| unsettled_workload(&workloads, &observed(pods.to_vec()));
        assert_eq!(
            settled(std::slice::from_ref(&running)).as_deref(),
            Some("Deployment a/web has 1 of 2 pods")
        );
        assert_eq!(settled(&[running.clone(), rejected("x")]), None);
        // One of two missing pods has not been tried.
        assert_eq!(settled(&[rejected("x")]).as_deref(), Some("Deployment a/web has 1 of 2 pods"));
        // A scheduler chose the node, and may choose another one for the next pod.
        replica_set.spec.template.spec.node_name = None;
        let scheduled = [deployment, replica_set];
        let again = [running.clone(), rejected("x"), rejected("y")];
        assert!(unsettled_workload(&scheduled, &observed(again[..2].to_vec())).is_some());
        assert_eq!(unsettled_workload(&scheduled, &observed(again.to_vec())), None);
        // The node rejected the pods of earlier attempts, and accepted those of the last one.
        let other = pod("s", json!({"nodeName": "n"}), json!({"phase": "Running"}));
        let others = [running, other, rejected("x"), rejected("y")];
        let rejections = Rejections::new(&observed(others.to_vec()), &workloads);
        assert!(rejections.pods.is_empty() && rejections.controllers.is_empty());
    }

    #[test]
    fn a_deployment_has_settled_when_a_quota_refuses_its_pods() {
        let deployment = |message: &str| {
            let condition = json!({"type": "ReplicaFailure", "status": "True", "message": message});
            let status = json!({"replicas": 2, "updatedReplicas": 2, "conditions": [condition]});
            workload("Deployment", json!({"uid": "d"}), json!({"replicas": 3}), status)
        };
        let settled = |message| unsettled_workload(&[deployment(message)], &observed(vec![])).is_none();
        assert!(settled(
            "pods \"web-1\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
        ));
        assert!(!settled("Internal error occurred: failed calling webhook"), "it is tried again");
    }

    #[test]
    fn jobs_and_daemon_sets_have_settled_when_their_pods_exist() {
        const NOT_OBSERVED: &str = "Job a/web has pods that have not been observed";
        let check = |kind, spec, status, expected: Option<&str>| {
            let workload = workload(kind, json!({"uid": "u"}), spec, status);
            assert_eq!(unsettled_workload(&[workload], &observed(vec![])).as_deref(), expected);
        };
        let spec = json!({"parallelism": 2, "completions": 5});
        check("Job", spec.clone(), json!({"succeeded": 1}), Some("Job a/web has 0 of 2 pods"));
        check("Job", spec.clone(), json!({"active": 1, "succeeded": 4}), Some(NOT_OBSERVED));
        check("Job", spec.clone(), json!({"succeeded": 5}), Some("Job a/web has 0 of 0 pods"));
        let complete = json!({"succeeded": 5, "conditions": [{"type": "Complete", "status": "True"}]});
        check("Job", spec, complete, None);
        let status = json!({"desiredNumberScheduled": 3});
        check("DaemonSet", json!({}), status, Some("DaemonSet a/web has pods on 0 of 3 nodes"));
    }
}
