//! Pod groups: all members that a group requires are bound, or none.

use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_apiserver::ServerOptions;
use berth_controllers::ControllerOptions;
use berth_faults::{Fault, Proxy, is_binding};
use berth_scheduler::SchedulerOptions;
use http::Method;
use serde_json::{Value, json};

use super::support::devices::controllers_with;
use super::support::*;

const POD_GROUPS: &str = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups";

async fn gang(world: &World, name: &str, min: usize, topology: Option<&str>) {
    let topology: Vec<_> = topology.iter().map(|key| json!({"key": key})).collect();
    let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": min}}});
    if !topology.is_empty() {
        spec["schedulingConstraints"] = json!({"topology": topology});
    }
    let object = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": name},
        "spec": spec});
    world.create(POD_GROUPS, object).await;
}

fn member(name: &str, group: &str) -> Value {
    let mut pod = pod(name, group);
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    pod
}

fn annotated(name: &str, group: &str, min: usize) -> Value {
    let mut pod = pod(name, name);
    pod["metadata"]["annotations"] =
        json!({"scheduling.berth.dev/group": group, "scheduling.berth.dev/group-min": min.to_string()});
    pod
}

async fn until_message(world: &World, name: &str, message: &str) {
    until(&format!("the condition of {name} says {message:?}"), async || {
        let pod = world.get(&format!("{PODS}/{name}")).await;
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_said = conditions.iter().any(|c| c["message"].as_str().is_some_and(|m| m.contains(message)));
        if is_said { Ok(()) } else { Err(conditions) }
    })
    .await;
}

async fn until_status(world: &World, group: &str, status: &str, reason: &str) -> Value {
    until(&format!("{group} is {reason}"), async || {
        let object = world.get(&format!("{POD_GROUPS}/{group}")).await;
        let condition = object["status"]["conditions"][0].clone();
        if condition["status"] == status && condition["reason"] == reason {
            Ok(condition)
        } else {
            Err(condition)
        }
    })
    .await
}

/// The nodes of the pods with a prefix, empty for those that are not bound.
async fn nodes_of(world: &World, prefix: &str) -> Vec<String> {
    let pods = world.pods().await.into_iter().filter(|pod| pod.metadata.name.starts_with(prefix));
    pods.map(|pod| pod.spec.node_name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_wait_until_the_required_ones_exist() {
    let world = World::start().await;
    world.nodes(2, 1, 10).await;
    let scheduler = world.schedule(impatient()).await;
    world.pod(member("m-0", "team")).await;
    until_message(&world, "m-0", "pod group default/team: its PodGroup does not exist").await;
    gang(&world, "team", 3, None).await;
    world.pod(member("m-1", "team")).await;
    until_message(&world, "m-0", "pod group default/team: 2 of at least 3 pods exist").await;
    until_status(&world, "team", "False", "Unschedulable").await;
    assert_eq!(nodes_of(&world, "m-").await, ["", ""]);
    // A member with scheduling gates does not count.
    let mut gated = member("m-2", "team");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    world.pod(gated).await;
    world.pod(pod("single", "x")).await;
    world.until_bound("single").await;
    assert_eq!(nodes_of(&world, "m-").await, ["", "", ""]);
    world
        .send(Method::PATCH, &format!("{PODS}/m-2"), json!({"spec": {"schedulingGates": null}}))
        .await
        .unwrap();
    world.until_n_bound(4).await;
    until_status(&world, "team", "True", "Scheduled").await;
    // Those that have a node count for late members.
    world.pod(member("m-3", "team")).await;
    world.until_bound("m-3").await;
    scheduler.until("no pod is queued", |s| s.n_queued() == 0).await;
    scheduler.stopped().await;
    verify::all_is_well(&world, 5).await;
}

/// A pod whose group is that of its owner.
fn owned(name: &str, owner: &Value) -> Value {
    let mut pod = pod(name, name);
    pod["metadata"]["annotations"] = json!({"scheduling.berth.dev/group": "owner"});
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": true}]);
    pod
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_of_pods_says_how_many_they_are_and_scaling_needs_no_edit() {
    let world = World::start().await;
    world.nodes(2, 1, 10).await;
    let scheduler = world.schedule(impatient()).await;
    let template = json!({"metadata": {"labels": {"app": "x"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"},
        "spec": {"parallelism": 4, "completions": 2, "template": template}});
    let job = world.create("/apis/batch/v1/namespaces/default/jobs", job).await;
    world.pod(owned("train-0", &job)).await;
    until_message(&world, "train-0", "pod group default/Job/train: 1 of at least 2 pods exist").await;
    world.pod(owned("train-1", &job)).await;
    world.until_n_bound(2).await;

    let mut template = template;
    template["spec"]["restartPolicy"] = json!("Always");
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": template});
    let set =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": spec});
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let set = world.create(sets, set).await;
    for name in ["web-0", "web-1"] {
        world.pod(owned(name, &set)).await;
    }
    until_message(&world, "web-1", "pod group default/ReplicaSet/web: 2 of at least 3 pods exist").await;
    assert_eq!(nodes_of(&world, "web-").await, ["", ""]);
    world.send(Method::PATCH, &format!("{sets}/web"), json!({"spec": {"replicas": 2}})).await.unwrap();
    world.until_n_bound(4).await;
    world.send(Method::PATCH, &format!("{sets}/web"), json!({"spec": {"replicas": 3}})).await.unwrap();
    world.pod(owned("web-2", &set)).await;
    world.until_n_bound(5).await;
    scheduler.stopped().await;
    verify::all_is_well(&world, 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_makes_a_group_of_a_deployment_and_of_pods_that_were_there_before() {
    let world = World::start().await;
    world.nodes(1, 1, 3).await;
    let scheduler = world.schedule(impatient()).await;
    let set =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-5d4c", "uid": "u"}});
    let replica = |name: &str| {
        let mut pod = owned(name, &set);
        pod["metadata"]["annotations"] = json!({});
        pod["metadata"]["labels"] = json!({"pod-template-hash": "5d4c"});
        pod
    };
    world.pod(replica("web-0")).await;
    world.until_n_bound(1).await;
    scheduler.stopped().await;
    let template = json!({"name": "all", "schedulingPolicy": {"gang": {"minCount": 4}}});
    let workload = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "metadata": {"name": "w"},
        "spec": {"controllerRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}, "podGroupTemplates": [template]}});
    let workloads = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/workloads";
    world.create(workloads, workload).await;
    // One that knows the Workload before the pods, however the events of both arrive.
    let scheduler = world.schedule(impatient()).await;
    for name in ["web-1", "web-2"] {
        world.pod(replica(name)).await;
    }
    until_message(&world, "web-2", "pod group default/Deployment/web: 3 of at least 4 pods exist").await;
    world.pod(replica("web-3")).await;
    until_message(&world, "web-2", "2 of 3 pods fit, 3 have to").await;
    assert_eq!(nodes_of(&world, "web-").await.iter().filter(|node| !node.is_empty()).count(), 1);
    // Without the Workload, they are placed one by one.
    world.delete(&format!("{workloads}/w")).await;
    world.until_n_bound(3).await;
    scheduler.stopped().await;
    // The node is full.
    let pods = world.pods().await;
    let pending = pods.iter().find(|pod| pod.spec.node_name.is_empty()).expect("one of four");
    world.delete(&format!("/api/v1/namespaces/default/pods/{}", pending.metadata.name)).await;
    verify::all_is_well(&world, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_require_each_other_are_bound() {
    let world = World::start().await;
    world.nodes(4, 2, 1).await;
    let scheduler = world.schedule(impatient()).await;
    world.pod(with_term(annotated("a", "pair", 2), "podAffinity", "b", ZONE)).await;
    world.pod(with_term(annotated("b", "pair", 2), "podAffinity", "a", ZONE)).await;
    world.until_n_bound(2).await;
    scheduler.stopped().await;
    verify::all_is_well(&world, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_does_not_fit_is_bound_when_it_does() {
    let world = World::start().await;
    world.nodes(4, 2, 1).await;
    let scheduler = world.schedule(impatient()).await;
    gang(&world, "team", 3, Some(ZONE)).await;
    for i in 0..3 {
        world.pod(member(&format!("m-{i}"), "team")).await;
    }
    until_message(
        &world,
        "m-0",
        "pod group default/team: 2 of 3 pods fit in z0, 3 have to; pod m-2 does not",
    )
    .await;
    let condition = until_status(&world, "team", "False", "Unschedulable").await;
    assert!(condition["message"].as_str().unwrap().contains("Insufficient cpu"), "{condition}");
    let event = world.until_event("m-1", "FailedScheduling").await;
    assert!(event["note"].as_str().unwrap().starts_with("pod group default/team: "), "{event}");
    // It holds no room.
    world.pod(pod("single", "x")).await;
    let taken = world.until_bound("single").await;
    assert_eq!(nodes_of(&world, "m-").await, ["", "", ""]);
    let zone = if ["n0", "n2"].contains(&taken.as_str()) { "z1" } else { "z0" };
    world.node("late", zone, 1).await;
    world.until_n_bound(4).await;
    until_status(&world, "team", "True", "Scheduled").await;
    scheduler.stopped().await;
    verify::all_is_well(&world, 4).await;
}

async fn classes(world: &World) {
    for (name, value) in [("low", 1), ("high", 1000)] {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value});
        world.create("/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
    }
}

fn of_class(mut pod: Value, class: &str) -> Value {
    pod["spec"]["priorityClassName"] = json!(class);
    pod
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_is_decided_again_before_its_victims_are_evicted_still_evicts_them() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(2, 1, 1).await;
    let proxy = Proxy::start(world.server.admin_config()).await;
    let options = SchedulerOptions { flush_after: Duration::from_millis(100), ..impatient() };
    let scheduler = start_scheduler(proxy.config(), options).await;
    for i in 0..2 {
        world.pod(of_class(pod(&format!("low-{i}"), "low"), "low")).await;
    }
    world.until_n_bound(2).await;
    // Victims are evicted after the nomination is written: the attempts in between do not forget them.
    proxy.rule(|request| match request.uri.path().ends_with("/status") {
        true => Fault::Delay(Duration::from_secs(1)),
        false => Fault::None,
    });
    for i in 0..2 {
        world.pod(of_class(annotated(&format!("high-{i}"), "high", 2), "high")).await;
    }
    scheduler.until("both are bound", |s| s.n_bound == 4 && s.n_preempted == 2).await;
    scheduler.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_preempts_for_all_of_its_members_or_for_none() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(3, 1, 1).await;
    let scheduler = world.schedule(impatient()).await;
    for i in 0..3 {
        world.pod(of_class(pod(&format!("low-{i}"), "low"), "low")).await;
    }
    world.until_n_bound(3).await;
    for i in 0..4 {
        world.pod(of_class(annotated(&format!("large-{i}"), "large", 4), "high")).await;
    }
    until_message(&world, "large-0", "pod group default/large: ").await;
    assert_eq!(scheduler.shows().n_preempted, 0);
    for i in 0..2 {
        world.pod(of_class(annotated(&format!("small-{i}"), "small", 2), "high")).await;
    }
    until("the small group is bound", async || {
        let nodes = nodes_of(&world, "small-").await;
        if nodes.iter().all(|node| !node.is_empty()) { Ok(()) } else { Err(nodes) }
    })
    .await;
    scheduler.until("two pods are removed", |s| s.n_preempted == 2).await;
    assert_eq!(nodes_of(&world, "low-").await.len(), 1);
    assert!(nodes_of(&world, "large-").await.iter().all(String::is_empty));
    scheduler.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn victims_of_a_group_are_told_so_in_the_words_of_kube_scheduler() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(2, 1, 1).await;
    let scheduler = world.schedule(impatient()).await;
    for i in 0..2 {
        let mut low = of_class(pod(&format!("low-{i}"), "low"), "low");
        low["spec"]["terminationGracePeriodSeconds"] = json!(600);
        world.pod(low).await;
    }
    world.until_n_bound(2).await;
    gang_with(&world, "high", 2, json!({"priorityClassName": "high", "priority": 1000})).await;
    for i in 0..2 {
        world.pod(of_class(member(&format!("high-{i}"), "high"), "high")).await;
    }
    let object = world.get(&format!("{POD_GROUPS}/high")).await;
    let uid = object["metadata"]["uid"].as_str().unwrap();
    for victim in ["low-0", "low-1"] {
        let event = world.until_event(victim, "Preempted").await;
        assert_eq!(event["note"], format!("Preempted by podgroup {uid} on node cluster"));
        assert_eq!(
            (&event["related"]["kind"], &event["related"]["name"]),
            (&json!("PodGroup"), &json!("high"))
        );
        until_message(&world, victim, "berth: preempting to accommodate a higher priority podgroup").await;
        world.delete(&format!("{PODS}/{victim}?gracePeriodSeconds=0")).await;
    }
    world.until_bound("high-0").await;
    scheduler.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn victims_of_the_pods_of_a_basic_group_are_preempted_by_the_group() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(1, 1, 1).await;
    let scheduler = world.schedule(impatient()).await;
    world.pod(of_class(pod("low", "low"), "low")).await;
    world.until_bound("low").await;
    let spec = json!({"schedulingPolicy": {"basic": {}}, "priorityClassName": "high", "priority": 1000});
    let object = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "high"},
        "spec": spec});
    let object = world.create(POD_GROUPS, object).await;
    world.pod(of_class(member("high-0", "high"), "high")).await;
    let event = world.until_event("low", "Preempted").await;
    let uid = object["metadata"]["uid"].as_str().unwrap();
    assert_eq!(event["note"], format!("Preempted by podgroup {uid} on node cluster"));
    scheduler.stopped().await;
}

/// A gang with another disruption mode or priority.
async fn gang_with(world: &World, name: &str, min: usize, fields: Value) {
    let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": min}}});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let object = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": name},
        "spec": spec});
    world.create(POD_GROUPS, object).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_is_disrupted_as_a_whole_is_preempted_on_all_nodes() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(3, 1, 1).await;
    let scheduler = world.schedule(impatient()).await;
    let low = json!({"disruptionMode": "PodGroup", "priorityClassName": "low", "priority": 1});
    gang_with(&world, "low", 2, low).await;
    for i in 0..2 {
        world.pod(of_class(member(&format!("low-{i}"), "low"), "low")).await;
    }
    world.until_n_bound(2).await;
    world.pod(of_class(pod("full", "full"), "high")).await;
    world.until_bound("full").await;
    world.pod(of_class(pod("high", "high"), "high")).await;
    world.until_bound("high").await;
    scheduler.until("both members are removed", |s| s.n_preempted == 2).await;
    assert!(nodes_of(&world, "low-").await.is_empty());
    // A group evicts it in the same way: also the member that runs where no pod needs room.
    for i in 2..4 {
        world.pod(of_class(member(&format!("low-{i}"), "low"), "low")).await;
    }
    world.delete(&format!("{PODS}/high")).await;
    scheduler.until("the group is bound again", |s| s.n_bound == 6).await;
    gang_with(&world, "urgent", 1, json!({"priorityClassName": "high", "priority": 1000})).await;
    world.pod(of_class(member("urgent", "urgent"), "high")).await;
    world.until_bound("urgent").await;
    scheduler.until("both members are removed", |s| s.n_preempted == 4).await;
    scheduler.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_priority_of_a_group_counts_instead_of_that_of_its_pods() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(1, 1, 1).await;
    let scheduler = world.schedule(impatient()).await;
    // The pods are there before their group, and have been prepared.
    world.pod(member("important", "important")).await;
    until_message(&world, "important", "its PodGroup does not exist").await;
    world.pod(of_class(pod("low", "low"), "low")).await;
    world.until_bound("low").await;
    gang_with(&world, "important", 1, json!({"priorityClassName": "high", "priority": 1000})).await;
    world.until_bound("important").await;
    scheduler.until("the pod is removed", |s| s.n_preempted == 1).await;
    // The running member is as important as its group.
    world.pod(of_class(pod("high", "high"), "high")).await;
    world.until_refused("high").await;
    assert_eq!(scheduler.shows().n_preempted, 1);
    scheduler.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_and_relabelled_members_do_not_count() {
    let world = World::start().await;
    world.nodes(2, 1, 10).await;
    let scheduler = world.schedule(impatient()).await;
    let labelled = |name: &str, group: &str| {
        let mut pod = pod(name, "x");
        pod["metadata"]["annotations"] =
            json!({"scheduling.berth.dev/group": group, "scheduling.berth.dev/group-min": "2"});
        pod
    };
    world.pod(labelled("a", "one")).await;
    until_message(&world, "a", "1 of at least 2 pods exist").await;
    world.delete(&format!("{PODS}/a")).await;
    world.pod(labelled("b", "one")).await;
    until_message(&world, "b", "1 of at least 2 pods exist").await;
    world.pod(labelled("c", "two")).await;
    until_message(&world, "c", "pod group default/two: 1 of at least 2 pods exist").await;
    let group = json!({"metadata": {"annotations": {"scheduling.berth.dev/group": "two"}}});
    world.send(Method::PATCH, &format!("{PODS}/b"), group).await.unwrap();
    world.until_n_bound(2).await;
    // Without a group, a pod is placed by itself.
    world.pod(labelled("d", "three")).await;
    until_message(&world, "d", "pod group default/three").await;
    let none = json!({"metadata": {"annotations": {"scheduling.berth.dev/group": null,
        "scheduling.berth.dev/group-min": null}}});
    world.send(Method::PATCH, &format!("{PODS}/d"), none).await.unwrap();
    world.until_bound("d").await;
    scheduler.until("no pod is queued", |s| s.n_queued() == 0).await;
    scheduler.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_of_which_some_bindings_fail_is_completed() {
    let world = World::start().await;
    world.nodes(4, 2, 10).await;
    let proxy = Proxy::start(world.server.admin_config()).await;
    // The first three requests are refused.
    let left = std::sync::atomic::AtomicUsize::new(3);
    proxy.rule(move |request| {
        let take = |n: usize| n.checked_sub(1);
        let order = std::sync::atomic::Ordering::Relaxed;
        match is_binding(request) && left.fetch_update(order, order, take).is_ok() {
            true => Fault::Answer(409),
            false => Fault::None,
        }
    });
    let scheduler = start_scheduler(proxy.config(), impatient()).await;
    gang(&world, "team", 8, Some(ZONE)).await;
    for i in 0..8 {
        world.pod(member(&format!("m-{i}"), "team")).await;
    }
    world.until_n_bound(8).await;
    let nodes = nodes_of(&world, "m-").await;
    let in_zone = |zone: [&str; 2]| nodes.iter().all(|node| zone.contains(&node.as_str()));
    assert!(in_zone(["n0", "n2"]) || in_zone(["n1", "n3"]), "{nodes:?}");
    until_status(&world, "team", "True", "Scheduled").await;
    scheduler.stopped().await;
    verify::all_is_well(&world, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_leader_is_killed_while_groups_are_bound_the_standby_completes_them() {
    let world = World::start().await;
    world.nodes(24, 3, 20).await;
    let (first_proxy, first, _second_proxy, second) = super::leaders::two_replicas(&world).await;
    first_proxy.rule(|r| if is_binding(r) { Fault::Delay(Duration::from_millis(100)) } else { Fault::None });
    for group in 0..10 {
        gang(&world, &format!("team-{group}"), 8, Some(ZONE)).await;
        for i in 0..8 {
            let team = format!("team-{group}");
            let pod = member(&format!("m-{group}-{i}"), &team);
            world.pod(with_term(pod, "podAntiAffinity", &team, HOSTNAME)).await;
        }
    }
    // In the middle of a group.
    world.until_n_bound(12).await;
    first.handle.abort();
    first_proxy.rule(|_| Fault::Hang);
    second.until("leader", |s| s.leads).await;
    world.until_n_bound(80).await;
    for group in 0..10 {
        let nodes = nodes_of(&world, &format!("m-{group}-")).await;
        let zone = |node: &String| node[1..].parse::<usize>().unwrap() % 3;
        let zones: std::collections::BTreeSet<_> = nodes.iter().map(zone).collect();
        assert_eq!(zones.len(), 1, "team-{group} is in one zone: {nodes:?}");
        until_status(&world, &format!("team-{group}"), "True", "Scheduled").await;
    }
    second.until("no pod is queued", |s| s.n_queued() == 0).await;
    verify::all_is_well(&world, 80).await;
    second.stopped().await;
}

/// Holds room for groups as soon as they have failed.
fn reserving(limit: Duration) -> SchedulerOptions {
    SchedulerOptions { group_reserve_after: Duration::ZERO, group_reservation: limit, ..impatient() }
}

async fn until_nominated(world: &World, name: &str, node: &str) {
    until(&format!("{name} is nominated to {node}"), async || {
        let pod = world.get(&format!("{PODS}/{name}")).await;
        let nominated = pod["status"]["nominatedNodeName"].as_str().unwrap_or_default();
        if nominated == node { Ok(()) } else { Err(pod["status"].clone()) }
    })
    .await;
}

/// A single pod with a node ends, and a new one is created.
async fn replace_single(world: &World, new: usize) {
    let mut pods = world.pods().await.into_iter();
    let bound = pods.find(|pod| pod.metadata.name.starts_with("single-") && !pod.spec.node_name.is_empty());
    world.delete(&format!("{PODS}/{}", bound.unwrap().metadata.name)).await;
    world.pod(pod(&format!("single-{new}"), "x")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_pods_that_follow_one_another_do_not_starve_a_group() {
    let world = World::start().await;
    world.nodes(1, 1, 2).await;
    let scheduler = world.schedule(reserving(Duration::ZERO)).await;
    for i in 0..4 {
        world.pod(pod(&format!("single-{i}"), "x")).await;
    }
    world.until_n_bound(2).await;
    for i in 0..2 {
        world.pod(annotated(&format!("m-{i}"), "team", 2)).await;
    }
    until_message(&world, "m-0", "pod group default/team: ").await;
    for i in 4..12 {
        replace_single(&world, i).await;
        world.until_n_bound(2).await;
        assert_eq!(nodes_of(&world, "m-").await, ["", ""]);
    }
    scheduler.stopped().await;

    let scheduler = world.schedule(reserving(Duration::from_secs(3600))).await;
    until_message(&world, "m-0", "Room is held for the group until ").await;
    for i in 12..14 {
        replace_single(&world, i).await;
    }
    for i in 0..2 {
        world.until_bound(&format!("m-{i}")).await;
    }
    assert_eq!(nodes_of(&world, "single-").await, ["", "", "", ""]);
    scheduler.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_whose_room_never_comes_do_not_starve_single_pods() {
    let world = World::start().await;
    world.nodes(2, 1, 2).await;
    let scheduler = world.schedule(reserving(Duration::from_millis(500))).await;
    // Each node has room for one more.
    for i in 0..2 {
        world
            .pod(with_term(pod(&format!("server-{i}"), "server"), "podAntiAffinity", "server", HOSTNAME))
            .await;
        world.until_bound(&format!("server-{i}")).await;
    }
    let first = world.node_of("server-0").await;
    // This one needs more than the nodes have.
    for i in 0..5 {
        world.pod(annotated(&format!("large-{i}"), "large", 5)).await;
    }
    let mut whole_node = annotated("whole", "whole", 1);
    whole_node["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("200m");
    world.pod(whole_node).await;
    // Pods that did not end while room was held are not waited for the next time.
    until_nominated(&world, "whole", "n0").await;
    until_nominated(&world, "whole", "n1").await;
    for i in 0..2 {
        world.pod(pod(&format!("single-{i}"), "x")).await;
    }
    for i in 0..2 {
        world.until_bound(&format!("single-{i}")).await;
    }
    for event in
        world.get("/apis/events.k8s.io/v1/namespaces/default/events").await["items"].as_array().unwrap()
    {
        let is_held = event["note"].as_str().is_some_and(|note| note.contains("Room is held"));
        assert!(!is_held || event["regarding"]["name"] == "whole", "{event}");
    }
    let of_node = if first == "n0" { 0 } else { 1 };
    for name in [format!("server-{of_node}"), "single-0".to_owned(), "single-1".to_owned()] {
        world.delete(&format!("{PODS}/{name}")).await;
    }
    assert_eq!(world.until_bound("whole").await, "n0");
    scheduler.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_room_follows_changes_of_nodes_leaders_and_members() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(2, 1, 1).await;
    let scheduler = world.schedule(reserving(Duration::from_secs(3600))).await;
    for i in 0..2 {
        world.pod(of_class(pod(&format!("server-{i}"), "server"), "low")).await;
    }
    world.until_n_bound(2).await;
    world.pod(of_class(annotated("m", "team", 1), "low")).await;
    until_nominated(&world, "m", "n0").await;
    world.delete(&format!("{NODES}/n0")).await;
    until_nominated(&world, "m", "n1").await;
    // Another leader does not keep the room that this one held.
    scheduler.stopped().await;
    let scheduler = world.schedule(reserving(Duration::ZERO)).await;
    until_nominated(&world, "m", "").await;
    scheduler.stopped().await;
    let scheduler = world.schedule(reserving(Duration::from_secs(3600))).await;
    until_nominated(&world, "m", "n1").await;
    for i in 0..2 {
        world.delete(&format!("{PODS}/server-{i}")).await;
    }
    world.until_bound("m").await;

    world.node("n2", "z0", 1).await;
    for i in 0..2 {
        world.pod(of_class(annotated(&format!("pair-{i}"), "pair", 2), "low")).await;
    }
    until_nominated(&world, "pair-0", "n2").await;
    world.pod(of_class(pod("single", "x"), "low")).await;
    world.until_refused("single").await;
    world.pod(of_class(pod("high", "x"), "high")).await;
    assert_eq!(world.until_bound("high").await, "n2");
    world.delete(&format!("{PODS}/pair-0")).await;
    world.delete(&format!("{PODS}/m")).await;
    assert_eq!(world.until_bound("single").await, "n1");
    scheduler.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_with_shared_claims_is_reported_and_not_decided() {
    let world = World::start().await;
    world.nodes(2, 1, 10).await;
    let scheduler = world.schedule(impatient()).await;
    let spec = json!({"schedulingPolicy": {"basic": {}}, "resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]});
    let object = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "team"},
        "spec": spec});
    world.create(POD_GROUPS, object).await;
    world.pod(member("m-0", "team")).await;
    until_message(&world, "m-0", "its PodGroup has resourceClaims, which are not supported").await;
    until_status(&world, "team", "False", "Unschedulable").await;
    assert_eq!(nodes_of(&world, "m-").await, [""]);
    scheduler.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pods_of_an_indexed_job_are_bound_together() {
    let world = World::start().await;
    world.nodes(1, 1, 2).await;
    let scheduler = world.schedule(impatient()).await;
    let mut options = ControllerOptions::default();
    options.feature_gates.workload_with_job = true;
    let _controllers = controllers_with(&world, options);
    let mut spec = pod("of-the-job", "train")["spec"].take();
    spec["restartPolicy"] = "Never".into();
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"},
        "spec": {"completionMode": "Indexed", "parallelism": 3, "completions": 3, "template": {"spec": spec}}});
    world.create("/apis/batch/v1/namespaces/default/jobs", job).await;
    let group = until("the job has a group", async || {
        let groups = world.get(POD_GROUPS).await;
        groups["items"][0]["metadata"]["name"].as_str().map(str::to_owned).ok_or(groups)
    })
    .await;
    until("two of three pods fit", async || {
        let object = world.get(&format!("{POD_GROUPS}/{group}")).await;
        let condition = object["status"]["conditions"][0].clone();
        let is_said =
            condition["message"].as_str().is_some_and(|message| message.contains("2 of 3 pods fit"));
        if is_said { Ok(()) } else { Err(condition) }
    })
    .await;
    assert_eq!(nodes_of(&world, "train-").await, ["", "", ""], "there is room for two of three");
    world.node("n1", "z0", 1).await;
    until_status(&world, &group, "True", "Scheduled").await;
    let mut nodes = nodes_of(&world, "train-").await;
    nodes.sort();
    assert_eq!(nodes, ["n0", "n0", "n1"]);
    scheduler.stopped().await;
}

fn gates() -> FeatureGates {
    FeatureGates { composite_pod_group: true, pod_group_preemption_policy: true, ..FeatureGates::default() }
}

/// A world and a scheduler with the gates of groups.
async fn gated() -> (World, SchedulerOptions) {
    let world = World::start_with(ServerOptions { feature_gates: gates(), ..ServerOptions::default() }).await;
    let mut options = impatient();
    options.settings.config.feature_gates = gates();
    (world, options)
}

/// Enhancement 6012: the condition of each group is about its own pods, also if the groups that the root requires are placed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_beyond_the_required_ones_says_that_it_is_not_placed() {
    const COMPOSITES: &str = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups";
    let (world, options) = gated().await;
    world.nodes(2, 1, 1).await;
    let scheduler = world.schedule(options).await;
    let composite = async |name: &str, parent: Option<&str>, policy: serde_json::Value| {
        let spec = json!({"schedulingPolicy": policy, "workloadRef": {"workloadName": "job", "templateName": name},
            "parentCompositePodGroupName": parent});
        let object = json!({"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
            "metadata": {"name": name}, "spec": spec});
        world.create(COMPOSITES, object).await;
    };
    let group = async |name: &str, parent: &str| {
        let spec = json!({"schedulingPolicy": {"gang": {"minCount": 2}}, "parentCompositePodGroupName": parent,
            "workloadRef": {"workloadName": "job", "templateName": name}});
        let object = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
            "spec": spec});
        world.create("/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups", object).await;
        for i in 0..2 {
            world.pod(member(&format!("{name}-{i}"), name)).await;
        }
    };
    composite("job", None, json!({"basic": {}})).await;
    group("servers", "job").await;
    world.until_n_bound(2).await;
    until_status(&world, "servers", "True", "Scheduled").await;
    composite("training", Some("job"), json!({"gang": {"minGroupCount": 1}})).await;
    group("workers", "training").await;
    until_status(&world, "workers", "False", "Unschedulable").await;
    until("training is Unschedulable", async || {
        let training = world.get(&format!("{COMPOSITES}/training")).await;
        let condition = training["status"]["conditions"][0].clone();
        if condition["status"] == "False" && condition["reason"] == "Unschedulable" {
            Ok(())
        } else {
            Err(condition)
        }
    })
    .await;
    until_status(&world, "servers", "True", "Scheduled").await;
    scheduler.stopped().await;
}

/// Enhancement 6012: `minGroupCount` groups are placed, each with its required pods, or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_groups_of_a_composite_group_are_bound_together() {
    const COMPOSITES: &str = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups";
    let (world, options) = gated().await;
    world.nodes(2, 1, 1).await;
    let scheduler = world.schedule(options).await;
    let reference = |template: &str| json!({"workloadName": "job", "templateName": template});
    for group in ["workers", "servers"] {
        let spec = json!({"schedulingPolicy": {"gang": {"minCount": 2}}, "workloadRef": reference(group),
            "parentCompositePodGroupName": "job"});
        let object = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": group},
            "spec": spec});
        world.create("/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups", object).await;
        for i in 0..2 {
            world.pod(member(&format!("{group}-{i}"), group)).await;
        }
    }
    until_message(&world, "workers-0", "its CompositePodGroup default/job does not exist: create it").await;
    let spec = json!({"schedulingPolicy": {"gang": {"minGroupCount": 2}}, "workloadRef": reference("job")});
    let object = json!({"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup", "metadata": {"name": "job"},
        "spec": spec});
    world.create(COMPOSITES, object).await;
    let until_job = async |status: &str, reason: &str| {
        until(&format!("job is {reason}"), async || {
            let job = world.get(&format!("{COMPOSITES}/job")).await;
            let condition = job["status"]["conditions"][0].clone();
            let is_shown = condition["type"] == "CompositePodGroupInitiallyScheduled"
                && condition["status"] == status
                && condition["reason"] == reason;
            if is_shown { Ok(()) } else { Err(condition) }
        })
        .await
    };
    until_job("False", "Unschedulable").await;
    let nodes = nodes_of(&world, "").await;
    assert!(nodes.iter().all(String::is_empty), "{nodes:?}");
    for node in ["n2", "n3"] {
        world.node(node, "z0", 1).await;
    }
    world.until_n_bound(4).await;
    until_job("True", "Scheduled").await;
    for group in ["workers", "servers"] {
        until_status(&world, group, "True", "Scheduled").await;
    }
    // "Once this condition transitions to True, it serves as a terminal state".
    world.delete(&format!("{PODS}/workers-0?gracePeriodSeconds=0")).await;
    world.pod(member("workers-2", "workers")).await;
    world.until_bound("workers-2").await;
    until_job("True", "Scheduled").await;
    scheduler.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_pod_is_preempted_for_a_group_that_never_preempts() {
    let (world, options) = gated().await;
    classes(&world).await;
    world.nodes(2, 1, 1).await;
    let scheduler = world.schedule(options).await;
    for i in 0..2 {
        world.pod(of_class(pod(&format!("low-{i}"), "low"), "low")).await;
    }
    world.until_n_bound(2).await;
    let high = json!({"priorityClassName": "high", "priority": 1000});
    let mut never = high.clone();
    never["preemptionPolicy"] = "Never".into();
    for (name, fields) in [("never", never), ("usual", high)] {
        gang_with(&world, name, 2, fields).await;
        for i in 0..2 {
            world.pod(of_class(member(&format!("{name}-{i}"), name), "high")).await;
        }
        if name == "never" {
            until_message(&world, "never-0", "not eligible due to preemptionPolicy=Never").await;
            assert_eq!(nodes_of(&world, "low-").await.iter().filter(|node| !node.is_empty()).count(), 2);
        }
    }
    for victim in ["low-0", "low-1"] {
        let event = world.until_event(victim, "Preempted").await;
        assert_eq!(event["related"]["name"], "usual");
    }
    scheduler.stopped().await;
}
