//! Histories that break a rule: each check finds what it is for.

use std::sync::Arc;
use std::time::Duration;

use berth_console::writes::{Progress, Write, WriteState};
use berth_testkit::check::bindings::Attempt;
use berth_testkit::check::history::{Change, Changes, State, bound_twice};
use serde_json::{Value, json};

use super::{check_bindings, console, devices, evictions, quotas, settled, steps};
use crate::console::List;
use crate::network::Accepted;

/// One change a second.
fn history(objects: &[Value]) -> Changes {
    let change = |(i, object): (usize, &Value)| {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let change =
            Change { at: Duration::from_secs(i as u64), kind, deleted: false, object: object.clone() };
        (i as u64 + 1, Arc::new(change))
    };
    objects.iter().enumerate().map(change).collect()
}

fn node(name: &str) -> Value {
    let amounts = json!({"cpu": "1", "memory": "1Gi", "pods": "10"});
    json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name},
        "status": {"allocatable": amounts, "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn pod(name: &str, node: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "default", "name": name, "uid": name},
        "spec": {"nodeName": node, "schedulerName": "berth",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "700m"}}}]},
        "status": {"phase": if node.is_empty() { "Pending" } else { "Running" }}})
}

#[test]
fn a_node_with_too_many_pods_is_found() {
    let changes = history(&[node("n"), node("m"), pod("a", ""), pod("b", ""), pod("a", "n"), pod("b", "n")]);
    let (n, findings) = check_bindings(&steps(&changes), &[]);
    assert_eq!(n, 2);
    assert!(findings.len() == 1 && findings[0].contains("default/b was bound to n"), "{findings:?}");
    let changes = history(&[node("n"), node("m"), pod("a", ""), pod("b", ""), pod("a", "n"), pod("b", "m")]);
    assert_eq!(check_bindings(&steps(&changes), &[]), (2, Vec::new()));
}

#[test]
fn a_scheduler_counts_on_bindings_that_it_has_sent() {
    let mut near = pod("near", "");
    let term =
        json!({"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"});
    near["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([term]);
    near["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("100m");
    let mut bound = near.clone();
    bound["spec"]["nodeName"] = json!("n");
    let (mut a, mut labelled) = (pod("a", ""), node("n"));
    a["metadata"]["labels"] = json!({"app": "a"});
    labelled["metadata"]["labels"] = json!({"kubernetes.io/hostname": "n"});
    let changes = history(&[labelled, a, near, bound]);
    let attempt = Attempt { at: Duration::from_secs(3), pod: "default/a".to_owned(), node: "n".to_owned() };
    assert_eq!(check_bindings(&steps(&changes), &[attempt]).1, Vec::<String>::new());
    assert_eq!(check_bindings(&steps(&changes), &[]).1.len(), 1);
}

#[test]
fn a_quota_that_counts_too_much_for_long_is_found() {
    let quota = |used: &str| {
        json!({"kind": "ResourceQuota", "metadata": {"namespace": "growing", "name": "quota"},
            "status": {"used": {"count/configmaps": used}}})
    };
    let map = |name: &str| json!({"kind": "ConfigMap", "metadata": {"namespace": "growing", "name": name}});
    let changes = history(&[quota("0"), quota("1"), map("a"), quota("2"), map("b")]);
    assert_eq!((quotas::check(&changes, Duration::from_secs(500)), quotas::wrong(&changes)), (vec![], None));
    let changes = history(&[quota("1"), map("a"), quota("2")]);
    let found = "the quota of growing counts 2 objects of 1";
    assert_eq!(quotas::wrong(&changes).as_deref(), Some(found));
    assert_eq!(quotas::check(&changes, Duration::from_secs(60)), [""; 0], "the object may still be written");
    assert_eq!(quotas::check(&changes, Duration::from_secs(63)), [format!("for 61 s from 2 s on: {found}")]);
}

/// A pod that waits for volumes before it is bound.
fn waiting_pod() -> Value {
    let mut pod = pod("a", "");
    pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("100m");
    pod
}

/// These objects, many changes of others, and the binding of the pod.
fn bound_after(mut objects: Vec<Value>, others: &Value, waiting: &Value) -> Changes {
    objects.extend(std::iter::repeat_n(others.clone(), 140));
    objects.extend((0..140).map(|i| pod(&format!("other-{i}"), "")));
    let mut bound = waiting.clone();
    bound["spec"]["nodeName"] = json!("n");
    objects.push(bound);
    history(&objects)
}

#[test]
fn the_state_that_a_pod_with_volumes_was_decided_on_is_found_behind_many_changes() {
    let (waiting, mut tainted) = (waiting_pod(), node("n"));
    tainted["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
    let checked = |at_first: Value| {
        check_bindings(&steps(&bound_after(vec![at_first, waiting.clone()], &tainted, &waiting)), &[])
    };
    assert_eq!(checked(node("n")), (1, Vec::new()));
    assert_eq!(checked(tainted.clone()).1.len(), 1);
}

#[test]
fn the_pods_that_a_pod_with_volumes_was_decided_with_are_found_behind_many_changes() {
    let mut waiting = waiting_pod();
    let term =
        json!({"labelSelector": {"matchLabels": {"app": "b"}}, "topologyKey": "kubernetes.io/hostname"});
    waiting["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!([term]);
    let (mut labelled, relabelled, mut near) = (node("n"), pod("b", "n"), pod("b", "n"));
    labelled["metadata"]["labels"] = json!({"kubernetes.io/hostname": "n"});
    near["metadata"]["labels"] = json!({"app": "b"});
    let checked = |at_first: &Value| {
        let objects = vec![labelled.clone(), at_first.clone(), waiting.clone(), relabelled.clone()];
        check_bindings(&steps(&bound_after(objects, &labelled, &waiting)), &[])
    };
    assert_eq!(checked(&near), (1, Vec::new()));
    assert_eq!(checked(&relabelled).1.len(), 1);
}

#[test]
fn a_pod_that_moves_is_found() {
    assert!(bound_twice(&history(&[pod("a", ""), pod("a", "n"), pod("a", "n")])).is_empty());
    assert_eq!(bound_twice(&history(&[pod("a", ""), pod("a", "n"), pod("a", "m")])).len(), 1);
}

#[test]
fn a_pod_that_waits_although_it_fits_is_found() {
    let unsettled = |objects: &[Value]| {
        let changes = history(objects);
        settled::unsettled(&changes, &State::after(&steps(&changes)), &[])
    };
    let findings = unsettled(&[node("n"), pod("a", "")]);
    assert!(
        findings.iter().any(|finding| finding.contains("default/a waits, but fits on n")),
        "{findings:?}"
    );
    assert!(unsettled(&[node("n"), pod("a", "n")]).is_empty());
}

#[test]
fn evictions_beyond_a_limit_or_a_budget_are_found() {
    let eviction = |i: u64| Accepted {
        at: Duration::from_secs(i),
        client: crate::cluster::ENFORCERS[0],
        method: http::Method::POST,
        path: format!("/api/v1/namespaces/default/pods/p{i}/eviction"),
    };
    let limits = berth_enforcer::LimitOptions::default();
    let all: Vec<Accepted> = (0..6).map(eviction).collect();
    assert_eq!(evictions::over_limits(&all[..5], &limits, 20), (5, Vec::new()));
    assert_eq!(evictions::over_limits(&all, &limits, 20).1.len(), 1);

    let budget = |allowed: i64, disrupted: Value| {
        json!({"kind": "PodDisruptionBudget", "metadata": {"namespace": "default", "name": "b"},
            "status": {"disruptionsAllowed": allowed, "disruptedPods": disrupted}})
    };
    let good = history(&[budget(1, json!({})), budget(0, json!({"a": "t"}))]);
    assert!(evictions::against_budgets(&good).is_empty());
    let bad = history(&[budget(0, json!({})), budget(0, json!({"a": "t"}))]);
    assert_eq!(evictions::against_budgets(&bad).len(), 1);
}

#[test]
fn a_group_that_is_partly_bound_or_waits_although_it_fits_is_found() {
    let member = |name: &str, node: &str, min: u32| {
        let mut pod = pod(name, node);
        pod["metadata"]["annotations"] =
            json!({"scheduling.berth.dev/group": "g", "scheduling.berth.dev/group-min": min.to_string()});
        pod["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}]);
        pod
    };
    let findings = |objects: &[Value]| {
        let changes = history(objects);
        let state = State::after(&steps(&changes));
        super::groups::Groups::new(&changes, &state, &[]).findings()
    };
    // Each node has room for one pod.
    let nodes = [node("n"), node("m")];
    let with = |pods: &[Value]| findings(&[&nodes, pods].concat());
    let waits = with(&[member("a", "", 2), member("b", "", 2)]);
    assert!(waits.len() == 1 && waits[0].contains("waits, but its pods fit"), "{waits:?}");
    assert!(with(&[member("a", "", 3), member("b", "", 3)]).is_empty(), "a member is missing");
    assert!(
        with(&[member("a", "", 3), member("b", "", 3), member("c", "", 3)]).is_empty(),
        "they do not fit"
    );
    let partly = with(&[member("a", "n", 2), member("b", "", 2), pod("x", "m")]);
    assert!(partly.len() == 1 && partly[0].contains("partly bound: 1 of 2"), "{partly:?}");
    // It was complete once: a member that ended left the others.
    let mut replacement = member("b", "", 2);
    replacement["metadata"]["uid"] = json!("b2");
    assert!(with(&[member("a", "n", 2), member("b", "m", 2), replacement, pod("x", "m")]).is_empty());
}

#[test]
fn writes_of_the_console_that_are_repeated_or_reported_wrongly_are_found() {
    let mut cordoned = node("n");
    cordoned["spec"] = json!({"unschedulable": true});
    let changes = history(&[node("n"), cordoned]);
    let seconds = Duration::from_secs;
    let patch = |node: &str| Accepted {
        at: seconds(1),
        client: crate::cluster::CONSOLE,
        method: http::Method::PATCH,
        path: format!("/api/v1/nodes/{node}"),
    };
    let list = |nodes: &[&str], first: WriteState| {
        let mut progress = Progress::begin(nodes.len());
        progress.states[0] = first;
        progress.end();
        let writes = nodes.iter().map(|node| Write::Cordon { node: (*node).to_owned() }).collect();
        List { question: 0, began: seconds(1), writes, report: Some((seconds(2), progress)) }
    };
    let findings =
        |list: List, accepted: &[Accepted]| console::check(&[list], &changes, accepted).1.join("\n");
    let done = list(&["n"], WriteState::Done);
    assert_eq!(findings(done.clone(), &[patch("n")]), "");
    assert!(findings(done.clone(), &[patch("n"), patch("n")]).contains("wrote /api/v1/nodes/n 2 times"));
    assert!(findings(done, &[patch("m")]).contains("/api/v1/nodes/m 1 times, 0 times at most"));
    assert!(findings(list(&["m"], WriteState::Done), &[]).contains("reports as done: Cordon node m"));
    let failed = |error: &str| list(&["n", "m"], WriteState::Failed(error.to_owned()));
    assert!(findings(failed("403"), &[patch("n")]).contains("1 times, 0 times at most"));
    assert!(findings(failed("403"), &[patch("m")]).contains("1 times, 0 times at most"), "it was not tried");
    assert!(!findings(failed("500: this may have been written"), &[patch("n")]).contains("at most"));
    assert!(findings(failed("403"), &[]).contains("gave up"));
}

fn claim(name: &str, device: &str, pods: &[&str]) -> Value {
    let results = json!([{"request": "r", "driver": "d", "pool": "n", "device": device}]);
    let consumer = |pod: &&str| json!({"resource": "pods", "name": pod, "uid": pod});
    json!({"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", "metadata": {"namespace": "default", "name": name, "uid": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "x"}}]}},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": pods.iter().map(consumer).collect::<Vec<_>>()}})
}

fn slice(devices: &[&str]) -> Value {
    let device = |name: &&str| json!({"name": name});
    json!({"kind": "ResourceSlice", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "s"}, "spec": {
        "driver": "d", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": devices.iter().map(device).collect::<Vec<_>>()}})
}

fn claiming(name: &str, node: &str, claim: &str) -> Value {
    let mut pod = pod(name, node);
    pod["spec"]["resourceClaims"] = json!([{"name": "c", "resourceClaimName": claim}]);
    pod
}

#[test]
fn devices_that_are_allocated_twice_and_pods_without_their_devices_are_found() {
    let findings = |objects: &[Value]| devices::check(&steps(&history(objects))).join("\n");
    let bound =
        |claim: Value| vec![slice(&["0", "1"]), claiming("p", "", "c"), claim, claiming("p", "n", "c")];
    assert_eq!(findings(&bound(claim("c", "0", &["p"]))), "");
    // A device may disappear once it is allocated.
    let gone = [slice(&["0", "1"]), claim("c", "0", &[]), slice(&["1"]), claim("e", "1", &[])];
    assert_eq!(findings(&gone), "");
    let twice = [slice(&["0"]), claim("c", "0", &[]), slice(&[]), claim("e", "0", &[])];
    assert!(findings(&twice).contains("is exclusive, and allocated to default/c, default/e"));
    assert!(findings(&bound(claim("c", "0", &[]))).contains("has a claim that is not reserved for it"));
    assert!(findings(&bound(claim("other", "0", &["p"]))).contains("has a claim that does not exist"));
    let mut unallocated = claim("c", "0", &[]);
    unallocated["status"] = json!({});
    assert!(findings(&bound(unallocated)).contains("has a claim without devices"));
    let elsewhere = [claiming("p", "", "c"), slice(&["0"]), claim("c", "0", &["p"]), claiming("p", "m", "c")];
    assert!(findings(&elsewhere).contains("has devices of another node"));
}

#[test]
fn claims_that_are_left_of_pods_are_found() {
    let leaks = |objects: &[Value]| devices::leaks(&State::after(&steps(&history(objects)))).join("\n");
    assert_eq!(leaks(&[claiming("p", "n", "c"), claim("c", "0", &["p"])]), "");
    assert!(leaks(&[claim("c", "0", &["p"])]).contains("is reserved for a pod that is gone"));
    assert!(leaks(&[claiming("p", "", "c"), claim("c", "0", &["p"])]).contains("pods without a node"));
    let mut made = claim("c", "0", &[]);
    made["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": true}]);
    assert!(leaks(&[made.clone()]).contains("is left of a pod that is gone"));
    made["metadata"]["annotations"] = json!({"resource.kubernetes.io/extended-resource-claim": "true"});
    assert!(leaks(&[pod("p", ""), made]).contains("is left of a failed attempt"));
}
