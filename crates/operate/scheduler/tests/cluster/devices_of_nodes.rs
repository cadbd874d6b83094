//! Devices that take allocatable resources of their node (enhancement 5517): the status of pods says how much.

use berth_api::feature_gates::FeatureGates;
use berth_apiserver::ServerOptions;
use berth_engine::Settings;
use berth_input::config::SchedulerConfig;
use berth_scheduler::SchedulerOptions;
use serde_json::{Value, json};

use super::support::devices::*;
use super::support::*;

const STATUSES: &str = "nodeAllocatableResourceClaimStatuses";

fn gates() -> FeatureGates {
    FeatureGates { dra_node_allocatable_resources: true, ..FeatureGates::default() }
}

fn counting() -> SchedulerOptions {
    let config = SchedulerConfig { feature_gates: gates(), ..SchedulerConfig::default() };
    SchedulerOptions { settings: Settings { config, ..Settings::default() }, ..impatient() }
}

/// A node with four CPUs, and two devices that take two of them each; `fields` are added to the devices.
async fn world(fields: Value) -> World {
    let server = ServerOptions { feature_gates: gates(), ..ServerOptions::default() };
    let world = World::start_with(server).await;
    world.nodes(1, 1, 40).await;
    world.gpu_class().await;
    let mut device = json!({"nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": "2"}}});
    device.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    world.devices("n0", 2, device).await;
    for claim in ["a", "b"] {
        world.device_claim(claim, 1).await;
    }
    world
}

fn with_cpu(mut pod: Value, cpu: &str) -> Value {
    pod["spec"]["containers"][0]["resources"]["requests"] = json!({"cpu": cpu});
    pod
}

#[tokio::test(start_paused = true)]
async fn the_status_is_written_before_the_binding_and_counts_for_other_pods() {
    let world = world(json!({})).await;
    let scheduler = world.schedule(counting()).await;
    world.pod(with_cpu(pod_with_claims("p", &["a"]), "500m")).await;
    assert_eq!(world.until_bound("p").await, "n0");
    let written = world.get(&format!("{PODS}/p")).await["status"][STATUSES].clone();
    assert_eq!(written, json!([{"resourceClaimName": "a", "containers": ["c"], "resources": {"cpu": "2"}}]));
    // 1.5 CPUs are left: too little for a second device, and for a pod without any.
    for (pod, cpu) in [(pod_with_claims("q", &["b"]), "100m"), (pod("plain", "devices"), "1600m")] {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        world.pod(with_cpu(pod, cpu)).await;
        world.until_refused_with(&name, "0/1 nodes are available: 1 Insufficient cpu.").await;
    }
    world.verify_devices().await;
    scheduler.stopped().await;
    // Another scheduler counts what it reads.
    let scheduler = world.schedule(counting()).await;
    world.pod(with_cpu(pod("late", "devices"), "1600m")).await;
    world.until_refused_with("late", "0/1 nodes are available: 1 Insufficient cpu.").await;
    world.delete(&format!("{PODS}/p")).await;
    assert_eq!(world.until_bound("late").await, "n0");
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_status_is_taken_back_when_the_devices_fail() {
    let world = world(json!({"bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"]})).await;
    let scheduler = world.schedule(counting()).await;
    world.pod(with_cpu(pod_with_claims("p", &["a"]), "500m")).await;
    let shows_status = async |is_there: bool| {
        let status = world.get(&format!("{PODS}/p")).await["status"].clone();
        if status[STATUSES].is_null() != is_there { Ok(()) } else { Err(status) }
    };
    until("the status is written", async || shows_status(true).await).await;
    // There are no other devices to try.
    world.delete(&format!("{SLICES}/n0-gpus")).await;
    world.set_device_condition("a", "Broken").await;
    until("the status is taken back", async || shows_status(false).await).await;
    scheduler.stopped().await;
}
