//! Placement of pods.

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::json;

use berth_client::serving::ServingOptions;
use berth_scheduler::SchedulerOptions;

use super::support::*;

#[tokio::test(start_paused = true)]
async fn pods_with_rules_about_each_other_are_bound_to_allowed_nodes() {
    let world = World::start().await;
    world.nodes(8, 2, 20).await;
    for pod in mixed(60, 8) {
        world.pod(pod).await;
    }
    let scheduler = world.schedule(SchedulerOptions::default()).await;
    world.until_n_bound(60).await;
    verify::all_is_well(&world, 60).await;
    scheduler.until("all are counted", |s| s.n_bound == 60 && s.n_queued() == 0).await;

    let event = world.until_event("Pod", "web-0", "Scheduled").await;
    let node = world.node_of("web-0").await;
    assert_eq!(event["note"], format!("Successfully assigned default/web-0 to {node}"));
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_other_schedulers_and_bound_pods_are_counted_and_not_changed() {
    let world = World::start().await;
    world.nodes(1, 1, 2).await;
    let mut foreign = pod("foreign", "x");
    foreign["spec"]["schedulerName"] = json!("another");
    world.pod(foreign).await;
    let mut bound = pod("bound", "x");
    bound["spec"]["nodeName"] = json!("n0");
    world.pod(bound).await;
    let scheduler = world.schedule(impatient()).await;
    world.pod(pod("one", "x")).await;
    world.until_bound("one").await;
    // The node has capacity for two pods of this size: the bound one and the first.
    world.pod(pod("two", "x")).await;
    world.until_refused("two").await;
    assert_eq!((world.node_of("foreign").await, world.node_of("two").await), (String::new(), String::new()));
    // Another scheduler binds its pod without a capacity check; the pod counts from then on.
    world.delete(&format!("{PODS}/one")).await;
    world.until_bound("two").await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_the_default_scheduler_are_scheduled_if_configured() {
    let world = World::start().await;
    world.nodes(1, 1, 2).await;
    let mut default = pod("default", "x");
    default["spec"].as_object_mut().unwrap().remove("schedulerName");
    world.pod(default).await;
    let options = SchedulerOptions { scheduler_name: Some("default-scheduler".to_owned()), ..impatient() };
    let scheduler = world.schedule(options).await;
    world.until_bound("default").await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_pod_with_higher_priority_gets_the_last_place() {
    let world = World::start().await;
    world.nodes(1, 1, 1).await;
    for (name, value) in [("low", 1), ("high", 1000)] {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value});
        world.create("/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
    }
    // First by age and by name, but with a lower priority.
    for (name, class) in [("a", "low"), ("b", "high")] {
        let mut pod = pod(name, "x");
        pod["spec"]["priorityClassName"] = json!(class);
        world.pod(pod).await;
    }
    let scheduler = world.schedule(impatient()).await;
    assert_eq!(world.until_bound("b").await, "n0");
    world.until_refused("a").await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_gated_pod_waits_until_its_gates_are_removed() {
    let world = World::start().await;
    world.nodes(1, 1, 2).await;
    let mut gated = pod("gated", "x");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/gate"}]);
    world.pod(gated).await;
    let scheduler = world.schedule(impatient()).await;
    scheduler.until("gated", |s| s.is_ready() && s.queue.gated == 1).await;
    world.pod(pod("other", "x")).await;
    world.until_bound("other").await;
    assert_eq!(world.node_of("gated").await, "");
    let open = json!({"spec": {"schedulingGates": []}});
    world.patch(&format!("{PODS}/gated"), open).await;
    world.until_bound("gated").await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_recreated_under_the_same_name_is_another_pod() {
    let world = World::start().await;
    world.nodes(1, 1, 1).await;
    let scheduler = world.schedule(impatient()).await;
    for _ in 0..5 {
        world.pod(pod("again", "x")).await;
        assert_eq!(world.until_bound("again").await, "n0");
        world.delete(&format!("{PODS}/again")).await;
    }
    // A pod that is gone before the answer to its binding arrives is not counted as bound.
    scheduler.until("all are gone", |s| s.n_pods == 0 && s.n_queued() == 0).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn health_readiness_and_metrics_are_served() {
    let world = World::start().await;
    world.nodes(2, 1, 2).await;
    let http = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let serving = ServingOptions { http, ..ServingOptions::default() };
    let scheduler = world.schedule(SchedulerOptions { serving, ..impatient() }).await;
    scheduler.until("ready", |s| s.is_ready()).await;
    let address = scheduler.handle.http_address().unwrap();
    let client =
        berth_client::connect::client(kube::Config::new(format!("http://{address}").parse().unwrap()));
    let client = client.unwrap();
    let get = async |path: &str| {
        let request = berth_client::call::get(path);
        let answer = berth_client::call::send(&client, request, DEADLINE, 1 << 20).await.unwrap();
        String::from_utf8(answer.to_vec()).unwrap()
    };
    assert_eq!((get("/healthz").await, get("/readyz").await), ("ok".to_owned(), "ok".to_owned()));
    for i in 0..6 {
        world.pod(pod(&format!("p{i}"), "x")).await;
    }
    scheduler.until("two wait", |s| s.n_bound == 4 && s.queue.unschedulable == 2).await;
    let metrics = get("/metrics").await;
    for line in [
        "scheduler_pending_pods{queue=\"unschedulable\"} 2",
        "scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"berth\"} 4",
        "scheduler_cache_size{type=\"nodes\"} 2",
        "scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"1\"} 4",
        "berth_scheduler_leader 1",
    ] {
        assert!(metrics.lines().any(|l| l == line), "{line} is not in\n{metrics}");
    }
    scheduler.stopped().await;
}
