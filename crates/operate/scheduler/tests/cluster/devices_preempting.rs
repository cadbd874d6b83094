//! Preemption for devices, which a profile enables.

use berth_controllers::ControllerOptions;
use berth_engine::Settings;
use berth_input::config::SchedulerConfig;
use berth_scheduler::SchedulerOptions;
use serde_json::{Value, json};

use super::devices::world_with_devices;
use super::support::devices::*;
use super::support::*;

fn preempting_for_devices() -> SchedulerOptions {
    let config = SchedulerConfig::from_value(&json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "berth",
            "pluginConfig": [{"name": "DynamicResources", "args": {"preemptForDevices": true}}]}],
    }));
    SchedulerOptions { settings: Settings { config: config.unwrap(), ..Settings::default() }, ..impatient() }
}

fn important(mut pod: Value) -> Value {
    pod["spec"]["priorityClassName"] = json!("high");
    pod
}

/// A node with three devices, each of which a pod uses, and controllers.
async fn full_world() -> World {
    let world = world_with_devices(1, 3).await;
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "high"}, "value": 1000});
    world.create("/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
    world
}

async fn fill(world: &World) {
    for i in 0..3 {
        let name = format!("low-{i}");
        world.device_claim(&name, 1).await;
        world.pod(pod_with_claims(&name, &[&name])).await;
    }
    world.until_n_bound(3).await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_evicted_for_the_devices_of_their_claims() {
    let world = full_world().await;
    world.control(ControllerOptions::default());
    let scheduler = world.schedule(preempting_for_devices()).await;
    fill(&world).await;
    // It waits for a device, and is not to get one that the next pod preempts for.
    world.device_claim("small", 1).await;
    world.pod(pod_with_claims("small", &["small"])).await;
    world.until_refused("small").await;
    world.device_claim("big", 2).await;
    world.pod(important(pod_with_claims("big", &["big"]))).await;
    assert_eq!(world.until_bound("big").await, "n0");
    world.pod(important(pod_with_gpus("extended", 1))).await;
    assert_eq!(world.until_bound("extended").await, "n0");
    // As many pods as needed: their claims are deallocated a little after they are gone.
    scheduler.until("three pods are removed", |s| s.n_preempted == 3).await;
    let left: Vec<_> = world.pods().await.into_iter().map(|pod| pod.metadata.name).collect();
    assert_eq!(left, ["big", "extended", "small"]);
    world.verify_devices().await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_argument_no_pod_is_evicted_for_devices() {
    let world = full_world().await;
    let scheduler = world.schedule(impatient()).await;
    fill(&world).await;
    world.device_claim("big", 2).await;
    world.pod(important(pod_with_claims("big", &["big"]))).await;
    let condition = world.until_refused("big").await;
    let message = "0/1 nodes are available: 1 cannot allocate all claims. \
        still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert_eq!(condition["message"], message);
    assert_eq!(scheduler.shows().n_preempted, 0);
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_preemptor_waits_until_the_claims_of_its_victims_are_deallocated() {
    let world = full_world().await;
    let scheduler = world.schedule(preempting_for_devices()).await;
    fill(&world).await;
    world.device_claim("big", 1).await;
    world.pod(important(pod_with_claims("big", &["big"]))).await;
    // No controller runs: the claim of the victim keeps its device.
    scheduler.until("a pod is removed", |s| s.n_preempted == 1).await;
    // The scheduler has seen that the victim is gone when it binds a later pod.
    until("the victim is gone", async || if world.pods().await.len() == 3 { Ok(()) } else { Err("not yet") })
        .await;
    world.pod(pod("later", "x")).await;
    world.until_bound("later").await;
    assert_eq!(world.node_of("big").await, "");
    world.control(ControllerOptions::default());
    assert_eq!(world.until_bound("big").await, "n0");
    assert_eq!(scheduler.shows().n_preempted, 1);
    world.verify_devices().await;
    scheduler.stopped().await;
}
