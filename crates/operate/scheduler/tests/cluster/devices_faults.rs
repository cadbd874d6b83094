//! Claims of devices while requests fail and schedulers end: what was written is taken back or used, and nothing is leaked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use berth_faults::{Fault, is_binding, is_resumed_watch};
use berth_scheduler::SchedulerOptions;
use http::Method;
use serde_json::{Value, json};

use super::devices::world_with_devices;
use super::leaders::replica;
use super::support::devices::*;
use super::support::*;

async fn until_reserved(world: &World, claim: &str, n: usize) {
    until(&format!("{claim} is reserved for {n} pods"), async || {
        let claim = world.device_claim_of(claim).await;
        let reserved = claim["status"]["reservedFor"].as_array().map_or(0, Vec::len);
        if reserved == n { Ok(()) } else { Err(claim) }
    })
    .await;
}

/// A scheduler whose pods return to the queue for a minute after a failure.
fn slow() -> SchedulerOptions {
    let minute = Duration::from_secs(60);
    SchedulerOptions { first_backoff: minute, longest_backoff: minute, ..impatient() }
}

#[tokio::test(start_paused = true)]
async fn what_was_written_before_a_failure_is_taken_back() {
    let world = world_with_devices(1, 3).await;
    let proxy = world.proxy();
    proxy.rule(|request| {
        match request.uri.path().ends_with("/bad/status") && request.method == Method::PUT {
            true => Fault::Answer(403),
            false => Fault::None,
        }
    });
    for name in ["good", "bad"] {
        world.device_claim(name, 1).await;
    }
    let scheduler = start_scheduler(proxy.connection(), slow()).await;
    world.pod(pod_with_claims("p", &["good", "bad"])).await;
    let condition = world.until_refused("p").await;
    assert_eq!(condition["reason"], "SchedulerError");
    let start =
        "running PreBind plugin \"DynamicResources\": add allocation and reservation to claim default/bad: ";
    assert!(condition["message"].as_str().unwrap().starts_with(start), "{condition}");
    until_reserved(&world, "good", 0).await;
    assert_eq!(world.pool_of("good").await, "n0", "the claim stays allocated, as kube-scheduler leaves it");
    assert_eq!(world.pool_of("bad").await, "");
    scheduler.until("nothing is assumed", |s| s.queue.in_flight == 0 && s.n_pods == 0).await;
    // The device that was not written is free again, and the other is not.
    for name in ["x", "y", "z"] {
        world.device_claim(name, 1).await;
        world.pod(pod_with_claims(name, &[name])).await;
    }
    world.until_n_bound(2).await;
    until("one pod has no device", async || {
        let pods = world.pods().await;
        let refused = pods.iter().filter(|pod| {
            pod.status.conditions.iter().any(|c| c.message.contains("cannot allocate all claims"))
        });
        if refused.count() == 1 { Ok(()) } else { Err("not yet") }
    })
    .await;
    world.verify_devices().await;
    assert!(proxy.n_faults() > 0, "this showed nothing");
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn claims_of_a_pod_that_cannot_be_bound_are_taken_back() {
    let world = world_with_devices(1, 2).await;
    let proxy = world.proxy();
    proxy.rule(|request| if is_binding(request) { Fault::Answer(403) } else { Fault::None });
    let scheduler = start_scheduler(proxy.connection(), slow()).await;
    world.device_claim("c", 1).await;
    world.pod(pod_with_claims("claiming", &["c"])).await;
    world.pod(pod_with_gpus("extended", 1)).await;
    for pod in ["claiming", "extended"] {
        assert_eq!(world.until_refused(pod).await["reason"], "SchedulerError");
    }
    until_reserved(&world, "c", 0).await;
    until("the claim for extended resources is deleted", async || {
        let claims = world.list(DEVICE_CLAIMS).await.len();
        let status =
            world.get(&format!("{PODS}/extended")).await["status"]["extendedResourceClaimStatus"].clone();
        if claims == 1 && status.is_null() { Ok(()) } else { Err((claims, status)) }
    })
    .await;
    world.verify_devices().await;
    // Another scheduler gives the devices away.
    scheduler.stopped().await;
    let scheduler = world.schedule(impatient()).await;
    world.until_n_bound(2).await;
    world.verify_devices().await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_while_its_devices_are_not_ready_leaves_nothing() {
    let world = World::start().await;
    world.nodes(1, 1, 20).await;
    world.gpu_class().await;
    world
        .devices("n0", 1, json!({"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}))
        .await;
    let scheduler = world.schedule(impatient()).await;
    world.device_claim("c", 1).await;
    world.pod(pod_with_claims("p", &["c"])).await;
    world.until_event("Pod", "p", "BindingConditionsPending").await;
    world.delete(&format!("{PODS}/p")).await;
    until_reserved(&world, "c", 0).await;
    scheduler.until("nothing is in flight", |s| s.n_queued() == 0 && s.n_pods == 0).await;
    // The next pod waits for the same device.
    world.pod(pod_with_claims("next", &["c"])).await;
    until_reserved(&world, "c", 1).await;
    world.set_device_condition("c", "attached").await;
    world.until_bound("next").await;
    world.verify_devices().await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_uses_the_claims_that_were_written() {
    let world = world_with_devices(3, 2).await;
    let proxy = world.proxy();
    proxy.rule(|request| if is_binding(request) { Fault::Hang } else { Fault::None });
    let first = start_scheduler(proxy.connection(), replica("first")).await;
    first.until("leader", |s| s.leads && s.is_ready()).await;
    let second = world.schedule(replica("second")).await;
    second.until("waiting for the lease", |s| s.is_ready()).await;
    for i in 0..4 {
        world.device_claim(&format!("c{i}"), 1).await;
        world.pod(pod_with_claims(&format!("p{i}"), &[&format!("c{i}")])).await;
    }
    world.pod(pod_with_gpus("extended", 1)).await;
    let mut pools = Vec::new();
    for i in 0..4 {
        until_reserved(&world, &format!("c{i}"), 1).await;
        pools.push(world.pool_of(&format!("c{i}")).await);
    }
    until("the claim for extended resources is written", async || {
        let status =
            world.get(&format!("{PODS}/extended")).await["status"]["extendedResourceClaimStatus"].clone();
        if status.is_object() { Ok(()) } else { Err(status) }
    })
    .await;
    first.handle.abort();
    proxy.rule(|_| Fault::Hang);
    second.until("leader", |s| s.leads).await;
    world.until_n_bound(5).await;
    for (i, pool) in pools.iter().enumerate() {
        assert_eq!(world.node_of(&format!("p{i}")).await, *pool);
    }
    let claims = world.list(DEVICE_CLAIMS).await.len();
    assert_eq!(claims, 5, "the claim of the first leader for extended resources is replaced");
    world.verify_devices().await;
    second.until("no pod is queued", |s| s.n_queued() == 0).await;
    second.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn writes_of_claims_that_fail_are_tried_again_and_leak_nothing() {
    let world = world_with_devices(4, 4).await;
    let proxy = world.proxy();
    let mut n = 0;
    proxy.rule(move |request| {
        let path = request.uri.path();
        let is_read = request.method == Method::GET;
        if is_read || !(path.contains("resourceclaims") || is_binding(request)) {
            return Fault::None;
        }
        n += 1;
        // Attempts of seven requests must not meet the same fault each time.
        match (n + n / 7) % 7 {
            0 => Fault::Answer(500),
            2 => Fault::LoseAnswer,
            3 => Fault::HangAfter,
            4 => Fault::Answer(409),
            5 => Fault::Delay(Duration::from_millis(900)),
            _ => Fault::None,
        }
    });
    let scheduler = start_scheduler(proxy.connection(), impatient()).await;
    for i in 0..14 {
        let name = format!("c{i}");
        world.device_claim(&name, 1).await;
        world.pod(pod_with_claims(&name, &[&name])).await;
        if i % 2 == 0 {
            // Some pods come and go.
            let name = format!("gone-{i}");
            world.pod(pod_with_claims(&name, &[&format!("c{i}")])).await;
            world.delete(&format!("{PODS}/{name}")).await;
        }
    }
    for i in 0..2 {
        world.pod(pod_with_gpus(&format!("e{i}"), 1)).await;
    }
    world.until_n_bound(16).await;
    scheduler.until("no pod is queued", |s| s.n_queued() == 0).await;
    until("no claim is reserved for a pod that is gone", async || {
        let claims = world.list(DEVICE_CLAIMS).await;
        let n_reserved: usize =
            claims.iter().map(|claim| claim["status"]["reservedFor"].as_array().map_or(0, Vec::len)).sum();
        if n_reserved == 16 && claims.len() == 16 { Ok(()) } else { Err(Value::from(claims)) }
    })
    .await;
    world.verify_devices().await;
    assert!(proxy.n_faults() >= 3, "this showed nothing");
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_made_and_deleted_while_no_watch_saw_it_does_not_keep_its_device() {
    let world = world_with_devices(1, 1).await;
    let proxy = world.proxy();
    let scheduler = start_scheduler(proxy.connection(), impatient()).await;
    scheduler.until("ready", |s| s.is_ready()).await;
    let is_blind = Arc::new(AtomicBool::new(true));
    proxy.rule({
        let is_blind = is_blind.clone();
        move |request| match is_resumed_watch(request) && request.uri.path().ends_with("/resourceclaims") {
            true if is_blind.load(Ordering::Relaxed) => Fault::Answer(503),
            // The versions in between are not kept.
            true => Fault::Answer(410),
            false => Fault::None,
        }
    });
    proxy.cut();
    let is_interrupted = async || if proxy.n_faults() > 0 { Ok(()) } else { Err("not yet") };
    until("the watch is interrupted", is_interrupted).await;
    world.pod(pod_with_gpus("gone", 1)).await;
    world.until_bound("gone").await;
    let status = world.get(&format!("{PODS}/gone")).await["status"].clone();
    let claim = status["extendedResourceClaimStatus"]["resourceClaimName"].as_str().unwrap();
    let claim = format!("{DEVICE_CLAIMS}/{claim}");
    world.delete(&format!("{PODS}/gone")).await;
    world.patch(&claim, json!({"metadata": {"finalizers": null}})).await;
    world.delete(&claim).await;
    is_blind.store(false, Ordering::Relaxed);
    world.pod(pod_with_gpus("next", 1)).await;
    world.until_bound("next").await;
    world.verify_devices().await;
    assert!(proxy.n_faults() >= 2, "this showed nothing");
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_an_earlier_scheduler_left_with_a_broken_device_get_another() {
    let world = World::start().await;
    world.nodes(2, 1, 20).await;
    world.gpu_class().await;
    world.devices("n1", 1, json!({})).await;
    let cordon = json!({"spec": {"unschedulable": true}});
    world.patch(&format!("{NODES}/n0"), cordon).await;
    let mut claim = world.device_claim("c", 1).await;
    let mut reserved = Vec::new();
    for name in ["a", "b"] {
        let pod = world.pod(pod_with_claims(name, &["c"])).await;
        reserved.push(json!({"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}));
    }
    // Both waited for it when the scheduler ended; neither has taken its reservation back.
    let device = json!({"request": "gpu", "driver": DRIVER, "pool": "n0", "device": "d0",
        "bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]});
    let on_n0 = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]);
    claim["status"] = json!({"reservedFor": reserved, "allocation": {"devices": {"results": [device]},
        "nodeSelector": {"nodeSelectorTerms": on_n0}, "allocationTimestamp": "2026-01-01T00:00:00Z"}});
    world.send(Method::PUT, &format!("{DEVICE_CLAIMS}/c/status"), claim).await.unwrap();
    world.set_device_condition("c", "broken").await;
    let scheduler = world.schedule(impatient()).await;
    for name in ["a", "b"] {
        assert_eq!(world.until_bound(name).await, "n1");
    }
    world.verify_devices().await;
    scheduler.stopped().await;
}
