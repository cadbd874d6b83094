//! Running pods whose resize their node defers.

use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_apiserver::ServerOptions;
use berth_scheduler::SchedulerOptions;
use serde_json::{Value, json};

use super::preempting::{classes, of_class};
use super::support::*;

async fn start(is_on: bool) -> (World, SchedulerOptions) {
    let feature_gates =
        FeatureGates { in_place_pod_vertical_scaling_scheduler_preemption: is_on, ..FeatureGates::default() };
    let mut options = impatient();
    options.settings.config.feature_gates = feature_gates;
    let world = World::start_with(ServerOptions { feature_gates, ..ServerOptions::default() }).await;
    classes(&world).await;
    (world, options)
}

/// A running pod with 100m that waits for more.
async fn waits_for(world: &World, name: &str, class: &str, cpu: &str, is_deleting: bool) {
    let mut pod = of_class(pod(name, "x"), class);
    pod["spec"]["nodeName"] = json!("n0");
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpu);
    pod["spec"]["terminationGracePeriodSeconds"] = json!(30);
    world.pod(pod).await;
    if is_deleting {
        world.delete(&format!("{PODS}/{name}")).await;
    }
    let has = json!({"cpu": "100m", "memory": "64Mi"});
    let condition = json!({"type": "PodResizePending", "status": "True", "reason": "Deferred"});
    let container = json!({"name": "c", "allocatedResources": has, "resources": {"requests": has}});
    let status = json!({"phase": "Running", "conditions": [condition], "containerStatuses": [container]});
    world.patch(&format!("{PODS}/{name}/status"), json!({"status": status})).await;
}

async fn left(world: &World) -> Vec<String> {
    world.pods().await.into_iter().map(|pod| pod.metadata.name).collect()
}

async fn with_two_victims(world: &World) {
    world.nodes(1, 1, 3).await;
    for name in ["low-0", "low-1"] {
        let mut pod: Value = of_class(pod(name, "low"), "low");
        pod["spec"]["nodeName"] = json!("n0");
        world.pod(pod).await;
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_preempted_for_a_resize_that_the_node_defers() {
    let (world, options) = start(true).await;
    with_two_victims(&world).await;
    let scheduler = world.schedule(options).await;
    // Both leave: it has 100m of 300m, and asks for all of them.
    waits_for(&world, "high", "high", "300m", false).await;
    scheduler.until("both victims are removed", |s| s.n_preempted == 2).await;
    assert_eq!(left(&world).await, ["high"]);
    let pod = world.get(&format!("{PODS}/high")).await;
    assert!(pod["status"]["nominatedNodeName"].is_null(), "{pod}");
    let event = world.until_event("Pod", "low-0", "Preempted").await;
    assert!(event["note"].as_str().unwrap().ends_with("on node n0"), "{event}");
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn for_a_resize_as_few_pods_are_preempted_as_suffice() {
    let (world, options) = start(true).await;
    with_two_victims(&world).await;
    let scheduler = world.schedule(options).await;
    waits_for(&world, "high", "high", "200m", false).await;
    scheduler.until("a victim is removed", |s| s.n_preempted > 0).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(left(&world).await.len(), 2);
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_preempted_for_a_resize_where_it_is_not_allowed() {
    let cases = [
        (false, "high", false, false),
        (true, "patient", false, false),
        (true, "high", true, false),
        (true, "high", false, true),
    ];
    for (is_on, class, forbids, is_deleting) in cases {
        let (world, options) = start(is_on).await;
        with_two_victims(&world).await;
        let policy =
            |owners: Value| json!({"spec": {"podPreemptionPolicy": {"disableResizePreemption": owners}}});
        if forbids {
            world.patch(&format!("{NODES}/n0"), policy(json!(["example.com/operator"]))).await;
        }
        let scheduler = world.schedule(options).await;
        waits_for(&world, "resized", class, "300m", is_deleting).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(left(&world).await.len(), 3, "{is_on} {class} {forbids} {is_deleting}");
        if forbids {
            world.patch(&format!("{NODES}/n0"), policy(Value::Null)).await;
            scheduler.until("it is allowed", |s| s.n_preempted == 2).await;
        }
        scheduler.stopped().await;
    }
}
