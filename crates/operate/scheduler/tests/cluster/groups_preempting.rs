//! Preemption of groups, and by groups.

use std::time::Duration;

use berth_api::feature_gates::KubernetesVersion;
use berth_faults::Fault;
use berth_scheduler::SchedulerOptions;
use serde_json::json;

use super::support::groups::*;
use super::support::*;

#[tokio::test(start_paused = true)]
async fn a_group_that_is_decided_again_before_its_victims_are_evicted_still_evicts_them() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(2, 1, 1).await;
    let proxy = world.proxy();
    let options = SchedulerOptions { flush_after: Duration::from_millis(100), ..impatient() };
    let scheduler = start_scheduler(proxy.connection(), options).await;
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

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
async fn a_group_that_preempts_and_its_victims_say_so_in_the_words_of_kube_scheduler() {
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
    let said = "minCount (2) cannot be satisfied: 0 scheduled, 0 remaining, pod group preemption: found a placement for podgroup, \
        preempting 2 victims; ";
    until("the group says that it preempts", async || {
        let condition = until_status(&world, "high", "False", "Unschedulable").await;
        if condition["message"].to_string().contains(said) { Ok(()) } else { Err(condition) }
    })
    .await;
    let object = world.get(&format!("{POD_GROUPS}/high")).await;
    let uid = object["metadata"]["uid"].as_str().unwrap();
    for victim in ["low-0", "low-1"] {
        let event = world.until_event("Pod", victim, "Preempted").await;
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

#[tokio::test(start_paused = true)]
async fn victims_of_the_pods_of_a_basic_group_are_preempted_by_the_group() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(1, 1, 1).await;
    let scheduler = world.schedule(impatient()).await;
    world.pod(of_class(pod("low", "low"), "low")).await;
    world.until_bound("low").await;
    let spec = json!({"schedulingPolicy": {"basic": {}}, "priorityClassName": "high", "priority": 1000});
    let object = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "high"},
        "spec": spec});
    let object = world.create(POD_GROUPS, object).await;
    world.pod(of_class(member("high-0", "high"), "high")).await;
    let event = world.until_event("Pod", "low", "Preempted").await;
    let uid = object["metadata"]["uid"].as_str().unwrap();
    assert_eq!(event["note"], format!("Preempted by podgroup {uid} on node cluster"));
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_disrupted_as_a_whole_is_preempted_on_all_nodes() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(3, 1, 1).await;
    let scheduler = world.schedule(impatient()).await;
    let low = json!({"disruptionMode": {"all": {}}, "priorityClassName": "low", "priority": 1});
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

#[tokio::test(start_paused = true)]
async fn the_priority_of_a_group_counts_instead_of_that_of_its_pods() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(1, 1, 1).await;
    // Later versions do not place pods whose priority is not that of their group.
    let mut options = impatient();
    options.settings.config.feature_gates = KubernetesVersion::V1_36.into();
    let scheduler = world.schedule(options).await;
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
