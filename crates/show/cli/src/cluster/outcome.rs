//! The placement of a settled cluster, in the form that `simulate` shows.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use berth_api::object::NamespacedName;
use berth_client::ObservedObject;
use berth_rules::relaxed_rules;
use berth_simulate::{NotRunning, Unadmitted, UnadmittedState};

use super::observed::{History, Observed, Stage, Victim};
use super::rejections::Rejections;
use super::workload::Workload;
use crate::render::placement::{PreemptionRow, Row};
use crate::summary::{Failure, Summary, WorkloadSummary};

pub struct Outcome {
    /// Pods that had no node at startup, or that do not run on the node that they name.
    pub rows: Vec<Row>,
    pub summary: Summary,
    /// Unplaced pods by workload and reason.
    pub failures: Vec<Failure>,
    /// Pods that do not run on the nodes that they name.
    pub not_running: Vec<NotRunning>,
}

impl Outcome {
    /// The placement of the observed pods. `ran` are the pods that had a node at startup.
    pub fn new(
        observed: &Observed,
        workloads: &[Workload],
        ran: &HashSet<NamespacedName>,
        topology_key: &str,
    ) -> Outcome {
        let nodes = observed.nodes();
        let nodes: HashMap<&str, _> = nodes.iter().map(|n| (&*n.metadata.name, &n.metadata.labels)).collect();
        let domain_of = |node: &str| nodes.get(node)?.get(topology_key).cloned();
        let owners = Owners::new(workloads);
        let mut outcome = Outcome {
            rows: Vec::new(),
            summary: Summary {
                n_nodes: nodes.len(),
                topology_key: topology_key.to_owned(),
                domains: nodes.keys().filter_map(|n| domain_of(n)).collect::<BTreeSet<_>>(),
                ..Summary::default()
            },
            failures: Vec::new(),
            not_running: Vec::new(),
        };
        let mut by_workload: BTreeMap<(String, Option<String>), WorkloadSummary> = BTreeMap::new();
        let mut not_running = Vec::new();
        let mut pods = observed.pods();
        let rejections = Rejections::new(observed, workloads);
        pods.retain(|pod| match observed.stage(pod) {
            Stage::Terminating => false,
            Stage::Rejected => rejections.pods.contains(&pod.metadata.namespaced_name()),
            _ => true,
        });
        pods.sort_by_cached_key(|pod| pod.metadata.namespaced_name());
        for pod in &pods {
            let stage = observed.stage(pod);
            let why = unadmitted(pod, stage, observed);
            let node = pod.node().filter(|_| why.is_none());
            let row = Row {
                namespace: pod.metadata.namespace.clone(),
                name: pod.metadata.name.clone(),
                priority: pod.spec.priority.unwrap_or(0),
                node: node.map(str::to_owned),
                unadmitted: why.as_ref().map(Unadmitted::short),
                score: None,
                domain: node.and_then(domain_of),
                workload: owners.workload_of(pod),
                relaxed: relaxed_rules(&pod.metadata),
                devices: Vec::new(),
            };
            let summary = summary_of(&mut by_workload, &row.namespace, row.workload.as_deref());
            summary.n_pods += 1;
            if row.node.is_some() {
                summary.count_in(row.domain.as_deref());
            }
            let ran = ran.contains(&pod.metadata.namespaced_name());
            if let Some(why) = why {
                outcome.summary.count_not_running(summary, Some(why.counted_as()));
                not_running.push((pod.metadata.namespaced_name(), row.workload.clone(), why));
                outcome.rows.push(row);
                continue;
            }
            match (&row.node, ran) {
                (Some(node), _) if !nodes.contains_key(node.as_str()) => outcome.summary.n_orphaned += 1,
                (Some(_), true) => outcome.summary.n_running += 1,
                (Some(_), false) => outcome.summary.n_placed += 1,
                (None, _) => {
                    outcome.summary.count_not_running(summary, None);
                    outcome.add_failure(pod, &row);
                }
            }
            if !ran {
                outcome.rows.push(row);
            }
        }
        outcome.rows.sort_by(|a, b| {
            let key = |row: &Row| (row.namespace.clone(), row.workload.clone(), row.name.clone());
            key(a).cmp(&key(b))
        });
        for workload in workloads.iter().filter(|workload| workload.kind != "Deployment") {
            let (Some(why), Some(wanted)) = (workload.refusal(), workload.n_desired_pods()) else { continue };
            let (namespace, name) = (&workload.metadata.namespace, owners.topmost(workload));
            let summary = summary_of(&mut by_workload, namespace, Some(&name));
            for i in workload.n_own_pods()..wanted {
                // It has no name.
                let pod = NamespacedName::new(namespace, &format!("{}-{i}", workload.metadata.name));
                let (by, message) = (Some("FailedCreate".to_owned()), why.to_owned());
                let state = UnadmittedState::NotCreated;
                let why = Unadmitted { state, node: String::new(), reason: by, message };
                not_running.push((pod, Some(name.clone()), why));
                summary.n_pods += 1;
                outcome.summary.count_not_running(summary, Some(UnadmittedState::NotCreated));
            }
        }
        outcome.not_running = NotRunning::group(not_running);
        for group in outcome.not_running.iter_mut().filter(|g| g.why.state == UnadmittedState::NotCreated) {
            let summary = by_workload.get(&(group.namespace.clone(), group.workload.clone()));
            group.of = summary.map(|summary| summary.n_pods);
        }
        outcome.summary.workloads = by_workload.into_values().collect();
        outcome
    }

    fn add_failure(&mut self, pod: &ObservedObject, row: &Row) {
        let message = pod.unscheduled_condition().map(|c| c.message.clone()).unwrap_or_default();
        let name = format!("{}/{}", row.namespace, row.name);
        let alike = |f: &&mut Failure| f.workload == row.workload && f.message == message;
        match self.failures.iter_mut().find(alike).filter(|_| row.workload.is_some()) {
            Some(failure) => failure.pods.push(name),
            None => self.failures.push(Failure {
                workload: row.workload.clone(),
                pods: vec![name],
                message,
                bottleneck: None,
                n_not_evaluated: 0,
                rollout: None,
            }),
        }
    }
}

/// Why a pod in this stage does not run on the node that it names.
fn unadmitted(pod: &ObservedObject, stage: Stage, observed: &Observed) -> Option<Unadmitted> {
    let node = pod.node()?.to_owned();
    match (stage, pod.rejection()) {
        (Stage::Rejected, Some((reason, message))) => {
            let (reason, message) = (Some(reason.to_owned()), message.to_owned());
            Some(Unadmitted { state: UnadmittedState::Rejected, node, reason, message })
        }
        (Stage::Waiting, _) => observed.unmounted(pod).or_else(|| {
            let message = format!("spec.nodeName: node {node} does not exist");
            Some(Unadmitted { state: UnadmittedState::Waiting, node, reason: None, message })
        }),
        _ => None,
    }
}

/// The pods that preempted others, by node. Of schedulers that do not tell which pod that is: those that were nominated
/// to the nodes of the victims.
pub fn preemptions(observed: &Observed) -> Vec<PreemptionRow> {
    let mut rows: BTreeMap<(&str, Option<&str>), Vec<String>> = BTreeMap::new();
    let (pods, history) = (observed.pods(), observed.history());
    let History { victims, nominated, .. } = &*history;
    for (name, Victim { node, preemptor }) in victims {
        rows.entry((node, preemptor.as_deref())).or_default().push(name.to_string());
    }
    let uids: HashSet<&str> = rows.keys().filter_map(|(_, uid)| *uid).collect();
    let preemptors = pods.iter().map(|pod| &pod.metadata).filter(|pod| uids.contains(&*pod.uid));
    let names: HashMap<_, _> = preemptors.map(|pod| (&*pod.uid, pod.namespaced_name().to_string())).collect();
    let row = |((node, preemptor), victims): ((&str, Option<&str>), Vec<String>)| {
        let pod = match preemptor {
            Some(uid) => names.get(uid).cloned().unwrap_or_else(|| format!("deleted pod {uid}")),
            None => {
                let nominated = nominated.get(node).into_iter().flatten();
                nominated.map(ToString::to_string).collect::<Vec<_>>().join(", ")
            }
        };
        PreemptionRow { pod, node: Some(node.to_owned()), victims }
    };
    rows.into_iter().map(row).collect()
}

fn summary_of<'a>(
    by_workload: &'a mut BTreeMap<(String, Option<String>), WorkloadSummary>,
    namespace: &str,
    workload: Option<&str>,
) -> &'a mut WorkloadSummary {
    let key = (namespace.to_owned(), workload.map(str::to_owned));
    by_workload.entry(key).or_insert_with(|| WorkloadSummary::new(namespace, workload))
}

/// Workloads by uid.
struct Owners<'a> {
    by_uid: HashMap<&'a str, &'a Workload>,
}

impl Owners<'_> {
    fn new(workloads: &[Workload]) -> Owners<'_> {
        Owners { by_uid: workloads.iter().map(|w| (w.metadata.uid.as_str(), w)).collect() }
    }

    /// Kind and name of the Deployment of a ReplicaSet, or of the workload itself.
    fn topmost(&self, workload: &Workload) -> String {
        match workload.metadata.controller() {
            Some(owner) => format!("{} {}", owner.kind, owner.name),
            None => format!("{} {}", workload.kind, workload.metadata.name),
        }
    }

    /// Kind and name of the topmost workload, such as `Deployment web`.
    fn workload_of(&self, pod: &ObservedObject) -> Option<String> {
        let mut owner = pod.metadata.controller()?;
        // The Deployment of a ReplicaSet; there are no deeper levels.
        if let Some(above) = self.by_uid.get(owner.uid.as_str()).and_then(|w| w.metadata.controller()) {
            owner = above;
        }
        // A static pod is owned by its node, which is not a workload.
        (owner.kind != "Node").then(|| format!("{} {}", owner.kind, owner.name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rejected_pods_and_those_that_wait_for_a_node_that_does_not_exist_do_not_count_as_running() {
        let pod = |name: &str, node: &str, status: serde_json::Value| -> ObservedObject {
            let metadata = json!({"name": name, "namespace": "a", "ownerReferences": [
                {"kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": true}]});
            let pod = json!({"metadata": metadata, "spec": {"nodeName": node}, "status": status});
            serde_json::from_value(pod).unwrap()
        };
        let rejected =
            json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: no room"});
        let pods = vec![
            pod("web-1", "n", json!({"phase": "Running"})),
            pod("web-2", "n", rejected.clone()),
            pod("web-3", "n", rejected.clone()),
            pod("web-4", "gone", json!({"phase": "Pending"})),
        ];
        let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
        let outcome = Outcome::new(&Observed::of(vec![node], pods), &[], &HashSet::new(), "zone");
        let Summary { n_placed, n_unplaced, n_orphaned, n_rejected, n_waiting, .. } = outcome.summary;
        assert_eq!((n_placed, n_unplaced, n_orphaned, n_rejected, n_waiting), (1, 0, 0, 2, 1));
        let groups = outcome.not_running.iter().map(|group| (group.why.short(), group.pods.len()));
        assert_eq!(
            groups.collect::<Vec<_>>(),
            [
                ("rejected by n: OutOfcpu".to_owned(), 2),
                ("waiting for node gone, which does not exist".to_owned(), 1),
            ]
        );
        assert_eq!(outcome.rows.iter().filter(|row| row.node.is_some()).count(), 1);
        // Of a dump, in which it had failed.
        let mut single = pod("web-9", "n", rejected);
        single.metadata.owner_references.clear();
        let ran = HashSet::from([NamespacedName::new("a", "web-9")]);
        let outcome = Outcome::new(&Observed::of(Vec::new(), vec![single]), &[], &ran, "zone");
        assert_eq!((outcome.summary.n_rejected, outcome.rows.len()), (1, 1));
    }

    #[test]
    fn pods_that_a_quota_refuses_are_not_created() {
        let status = json!({"replicas": 1, "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
            "message": "pods \"web-1-x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"}]});
        let deployment = json!({"kind": "Deployment", "name": "web", "uid": "d", "controller": true});
        let metadata =
            json!({"name": "web-1", "namespace": "a", "uid": "rs", "ownerReferences": [deployment]});
        let set = json!({"metadata": metadata, "spec": {"replicas": 3}, "status": status});
        let workload = Workload { kind: "ReplicaSet", ..serde_json::from_value(set).unwrap() };
        let owner = json!({"kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": true});
        let pod = json!({"metadata": {"name": "web-1-a", "namespace": "a", "ownerReferences": [owner]}, "spec": {"nodeName": "n"}});
        let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
        let observed = Observed::of(vec![node], vec![serde_json::from_value(pod).unwrap()]);
        let outcome = Outcome::new(&observed, &[workload], &HashSet::new(), "zone");
        assert_eq!((outcome.summary.n_placed, outcome.summary.n_not_created), (1, 2));
        let [group] = outcome.not_running.as_slice() else { panic!("one workload") };
        assert_eq!(
            (group.workload.as_deref(), group.pods.len(), group.of),
            (Some("Deployment web"), 2, Some(3))
        );
        assert!(group.why.to_string().starts_with("not created: exceeded quota: q"), "{}", group.why);
    }

    #[test]
    fn pods_of_stateful_sets_jobs_and_daemon_sets_that_a_quota_refuses_were_not_named() {
        for (kind, spec, status) in [
            ("StatefulSet", json!({"replicas": 3}), json!({"replicas": 1})),
            ("Job", json!({"parallelism": 3, "completions": 3}), json!({"active": 1})),
            ("DaemonSet", json!({}), json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 1})),
        ] {
            let object = json!({"metadata": {"name": "db", "namespace": "a", "uid": "u"}, "spec": spec, "status": status});
            let failed = "create Pod db-1 in StatefulSet db failed error: pods \"db-1\" is forbidden: exceeded quota: q";
            let workload = Workload {
                kind,
                failed_create: Some(failed.to_owned()),
                ..serde_json::from_value(object).unwrap()
            };
            let outcome =
                Outcome::new(&Observed::of(Vec::new(), Vec::new()), &[workload], &HashSet::new(), "zone");
            let [group] = outcome.not_running.as_slice() else { panic!("one workload") };
            assert_eq!(group.pods, ["a/db-1", "a/db-2"]);
            assert_eq!(group.why.message, "exceeded quota: q", "{kind}");
        }
    }

    #[test]
    fn a_preemptor_is_named_although_its_nomination_was_never_seen() {
        let bound = |name: &str| {
            let metadata = json!({"name": name, "namespace": "a", "uid": format!("uid-{name}")});
            let pod = json!({"metadata": metadata, "spec": {"nodeName": "n"}});
            serde_json::from_value(pod).unwrap()
        };
        let observed = Observed::of(Vec::new(), vec![bound("high"), bound("other")]);
        for (name, preemptor) in [("low-0", "uid-high"), ("low-1", "uid-high"), ("low-2", "uid-gone")] {
            let victim = Victim { node: "n".to_owned(), preemptor: Some(preemptor.to_owned()) };
            observed.history().victims.insert(NamespacedName::new("a", name), victim);
        }
        let rows: Vec<_> = preemptions(&observed).into_iter().map(|r| (r.pod, r.victims)).collect();
        let victims = |names: &[&str]| names.iter().map(|name| format!("a/{name}")).collect::<Vec<_>>();
        let gone = ("deleted pod uid-gone".to_owned(), victims(&["low-2"]));
        assert_eq!(rows, [gone, ("a/high".to_owned(), victims(&["low-0", "low-1"]))]);
    }
}
