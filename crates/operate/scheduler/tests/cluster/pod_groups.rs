//! Pod groups: all members that a group requires are bound, or none.

use std::time::Duration;

use berth_api::feature_gates::{FeatureGates, KubernetesVersion};
use berth_apiserver::ServerOptions;
use berth_controllers::ControllerOptions;
use berth_faults::{Fault, is_binding};
use berth_scheduler::SchedulerOptions;
use serde_json::{Value, json};

use super::support::groups::*;
use super::support::*;

#[tokio::test(start_paused = true)]
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
    world.patch(&format!("{PODS}/m-2"), json!({"spec": {"schedulingGates": null}})).await;
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

#[tokio::test(start_paused = true)]
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
    world.patch(&format!("{sets}/web"), json!({"spec": {"replicas": 2}})).await;
    world.until_n_bound(4).await;
    world.patch(&format!("{sets}/web"), json!({"spec": {"replicas": 3}})).await;
    world.pod(owned("web-2", &set)).await;
    world.until_n_bound(5).await;
    scheduler.stopped().await;
    verify::all_is_well(&world, 5).await;
}

#[tokio::test(start_paused = true)]
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
    let workload = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "w"},
        "spec": {"controllerRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}, "podGroupTemplates": [template]}});
    let workloads = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/workloads";
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

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
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
    let event = world.until_event("Pod", "m-1", "FailedScheduling").await;
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

#[tokio::test(start_paused = true)]
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
    world.patch(&format!("{PODS}/b"), group).await;
    world.until_n_bound(2).await;
    // Without a group, a pod is placed by itself.
    world.pod(labelled("d", "three")).await;
    until_message(&world, "d", "pod group default/three").await;
    let none = json!({"metadata": {"annotations": {"scheduling.berth.dev/group": null,
        "scheduling.berth.dev/group-min": null}}});
    world.patch(&format!("{PODS}/d"), none).await;
    world.until_bound("d").await;
    scheduler.until("no pod is queued", |s| s.n_queued() == 0).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_of_which_some_bindings_fail_is_completed() {
    let world = World::start().await;
    world.nodes(4, 2, 10).await;
    let proxy = world.proxy();
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
    let scheduler = start_scheduler(proxy.connection(), impatient()).await;
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

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
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

/// One division of the members among the two nodes fits, and finding it takes longer than a first decision may.
#[tokio::test(start_paused = true)]
async fn a_group_whose_search_is_long_is_placed_in_its_turn() {
    let sizes = [117, 129, 172, 197, 208, 496, 592, 617, 624, 785, 828, 862, 1963];
    let half = sizes.iter().sum::<usize>() / 2;
    let world = World::start().await;
    for name in ["n0", "n1"] {
        let amounts = json!({"cpu": format!("{half}m"), "memory": "64Gi", "pods": "110"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"capacity": amounts, "allocatable": amounts}});
        world.create(NODES, node).await;
    }
    for (i, size) in sizes.iter().enumerate() {
        let mut member = annotated(&format!("m-{i:02}"), "long", sizes.len());
        member["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(format!("{size}m"));
        world.pod(member).await;
    }
    let scheduler = world.schedule(impatient()).await;
    world.until_n_bound(sizes.len()).await;
    scheduler.stopped().await;
    verify::all_is_well(&world, sizes.len()).await;
}

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
async fn a_group_with_shared_claims_is_reported_and_not_decided() {
    let world = World::start().await;
    world.nodes(2, 1, 10).await;
    let scheduler = world.schedule(impatient()).await;
    let spec = json!({"schedulingPolicy": {"basic": {}}, "resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]});
    let object = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "team"},
        "spec": spec});
    world.create(POD_GROUPS, object).await;
    world.pod(member("m-0", "team")).await;
    until_message(&world, "m-0", "its PodGroup has resourceClaims, which are not supported").await;
    until_status(&world, "team", "False", "Unschedulable").await;
    assert_eq!(nodes_of(&world, "m-").await, [""]);
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_an_indexed_job_are_bound_together() {
    let feature_gates = FeatureGates { workload_with_job: true, ..KubernetesVersion::V1_36.into() };
    let world = World::start_with(ServerOptions { feature_gates, ..ServerOptions::default() }).await;
    world.nodes(1, 1, 2).await;
    let scheduler = world.schedule(impatient()).await;
    let mut options = ControllerOptions::default();
    options.feature_gates = feature_gates;
    world.control(options);
    let groups = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups";
    let mut spec = pod("of-the-job", "train")["spec"].take();
    spec["restartPolicy"] = "Never".into();
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"},
        "spec": {"completionMode": "Indexed", "parallelism": 3, "completions": 3, "template": {"spec": spec}}});
    world.create("/apis/batch/v1/namespaces/default/jobs", job).await;
    let group = until("the job has a group", async || {
        let groups = world.get(groups).await;
        groups["items"][0]["metadata"]["name"].as_str().map(str::to_owned).ok_or(groups)
    })
    .await;
    until("two of three pods fit", async || {
        let object = world.get(&format!("{groups}/{group}")).await;
        let condition = object["status"]["conditions"][0].clone();
        let is_said =
            condition["message"].as_str().is_some_and(|message| message.contains("2 of 3 pods fit"));
        if is_said { Ok(()) } else { Err(condition) }
    })
    .await;
    assert_eq!(nodes_of(&world, "train-").await, ["", "", ""], "there is room for two of three");
    world.node("n1", "z0", 1).await;
    until_shown(&world, &format!("{groups}/{group}"), "True", "Scheduled").await;
    let mut nodes = nodes_of(&world, "train-").await;
    nodes.sort();
    assert_eq!(nodes, ["n0", "n0", "n1"]);
    scheduler.stopped().await;
}
