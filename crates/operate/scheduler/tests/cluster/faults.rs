//! API server outages. After each, all pods are bound once, to nodes that their rules allow.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_faults::{Fault, ForwardedRequest, Proxy, RETRY_AFTER, is_binding, is_resumed_watch};
use berth_scheduler::SchedulerOptions;
use tokio::time::Instant;

use super::support::*;

const N_NODES: usize = 12;
const N_PODS: usize = 120;

/// Creates the pods while the scheduler runs, so that the fault occurs during scheduling.
async fn burst(world: &World) {
    for pod in mixed(N_PODS, N_NODES) {
        world.pod(pod).await;
    }
}

async fn with_proxy() -> (World, Proxy) {
    let world = World::start().await;
    world.nodes(N_NODES, 3, 20).await;
    let proxy = world.proxy();
    (world, proxy)
}

async fn ends_well(world: &World, proxy: &Proxy, scheduler: Scheduler, least_faults: usize) {
    world.until_n_bound(N_PODS).await;
    scheduler.until("no pod is queued", |s| s.n_queued() == 0).await;
    verify::all_is_well(world, N_PODS).await;
    let n_faults = proxy.n_faults();
    assert!(n_faults >= least_faults, "only {n_faults} faults: this showed nothing");
    scheduler.stopped().await;
}

/// Over connections, which break.
#[tokio::test]
async fn bindings_with_errors_or_lost_answers_are_looked_up() {
    let (world, proxy) = with_proxy().await;
    let mut n = 0;
    proxy.rule(move |request| {
        if !is_binding(request) {
            return Fault::None;
        }
        n += 1;
        match n % 12 {
            0 => Fault::Answer(500),
            2 => Fault::Answer(409),
            4 => Fault::Answer(503),
            6 => Fault::LoseAnswer,
            8 => Fault::HangAfter,
            10 => Fault::Hang,
            _ => Fault::None,
        }
    });
    let scheduler = start_scheduler(proxy.listen().await, impatient()).await;
    burst(&world).await;
    ends_well(&world, &proxy, scheduler, 20).await;
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_respects_retry_after() {
    let (world, proxy) = with_proxy().await;
    let requests: Arc<Mutex<Vec<(String, Instant, bool)>>> = Arc::default();
    let seen = requests.clone();
    proxy.rule(move |request| {
        if !is_binding(request) {
            return Fault::None;
        }
        let mut seen = seen.lock().unwrap();
        let is_refused = seen.len() % 20 == 19;
        seen.push((request.uri.path().to_owned(), Instant::now(), is_refused));
        if is_refused { Fault::Answer(429) } else { Fault::None }
    });
    let scheduler = start_scheduler(proxy.connection(), impatient()).await;
    burst(&world).await;
    ends_well(&world, &proxy, scheduler, 5).await;
    let requests = requests.lock().unwrap().clone();
    for (at, (path, refused_at, _)) in requests.iter().enumerate().filter(|(_, (.., is_refused))| *is_refused)
    {
        let next = requests[at + 1..].iter().find(|(next, ..)| next == path);
        let (_, next_at, _) = next.expect("a refused binding is sent again");
        let waited = *next_at - *refused_at;
        assert!(waited >= RETRY_AFTER, "{path} was sent again after {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn scheduling_continues_after_all_requests_failed_for_a_while() {
    let (world, proxy) = with_proxy().await;
    let scheduler = start_scheduler(proxy.connection(), impatient()).await;
    scheduler.until("ready", |s| s.is_ready()).await;
    let mut n = 0;
    proxy.rule(move |request| {
        n += 1;
        match n {
            n if n < 150 && is_binding(request) => Fault::LoseAnswer,
            n if n < 150 && n % 2 == 0 => Fault::Answer(500),
            n if n < 150 && n % 3 == 0 => Fault::Answer(429),
            _ => Fault::None,
        }
    });
    burst(&world).await;
    ends_well(&world, &proxy, scheduler, 30).await;
}

#[tokio::test(start_paused = true)]
async fn a_hanging_server_is_detected() {
    let (world, proxy) = with_proxy().await;
    let scheduler = start_scheduler(proxy.connection(), impatient()).await;
    scheduler.until("ready", |s| s.is_ready()).await;
    let hang_until = tokio::time::Instant::now() + Duration::from_secs(3);
    proxy.cut();
    proxy.rule(move |_| if tokio::time::Instant::now() < hang_until { Fault::Hang } else { Fault::None });
    burst(&world).await;
    ends_well(&world, &proxy, scheduler, 5).await;
}

/// Over connections, which break.
#[tokio::test]
async fn broken_watches_and_expired_versions_lose_no_event() {
    let (world, proxy) = with_proxy().await;
    let mut n = 0;
    proxy.rule(move |request| {
        n += usize::from(is_resumed_watch(request));
        if is_resumed_watch(request) && n % 3 == 0 { Fault::Answer(410) } else { Fault::None }
    });
    let scheduler = start_scheduler(proxy.listen().await, impatient()).await;
    let cutter = tokio::spawn({
        let proxy = proxy.clone();
        async move {
            loop {
                tokio::time::sleep(Duration::from_millis(70)).await;
                proxy.cut();
            }
        }
    });
    burst(&world).await;
    world.until_n_bound(N_PODS / 2).await;
    // Pods are also deleted while no watch is open.
    for i in [20, 22, 23, 25] {
        world.delete(&format!("{PODS}/plain-{i}")).await;
    }
    world.until_n_bound(N_PODS - 4).await;
    let expired = async || match proxy.n_faults() {
        n if n > 3 => Ok(()),
        n => Err(format!("{n} times so far")),
    };
    until("versions expire", expired).await;
    cutter.abort();
    scheduler.until("what is gone is known", |s| s.n_queued() == 0 && s.n_pods == N_PODS - 4).await;
    verify::all_is_well(&world, N_PODS - 4).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_deleted_during_bindings_loses_no_pod() {
    let (world, proxy) = with_proxy().await;
    let mut n = 0;
    proxy.rule(move |request| {
        n += usize::from(is_binding(request));
        match n % 4 {
            _ if !is_binding(request) => Fault::None,
            0 => Fault::Delay(Duration::from_millis(300)),
            2 => Fault::Answer(500),
            _ => Fault::None,
        }
    });
    let scheduler = start_scheduler(proxy.connection(), impatient()).await;
    let pods = tokio::spawn({
        let client = world.client.clone();
        async move {
            for pod in mixed(N_PODS, N_NODES - 3) {
                let body = pod.to_string().into_bytes();
                let request =
                    berth_client::call::with_body(http::Method::POST, PODS, "application/json", body);
                berth_client::call::send(&client, request, DEADLINE, 1 << 20).await.unwrap();
            }
        }
    });
    world.until_n_bound(5).await;
    for node in ["n0", "n4", "n8"] {
        world.delete(&format!("{NODES}/{node}")).await;
    }
    pods.await.unwrap();
    world.until_n_bound(N_PODS).await;
    scheduler.until("no pod is queued", |s| s.n_queued() == 0).await;
    // The garbage collector deletes the pods that were bound before their node was deleted.
    verify::no_rule_is_broken(&world, N_PODS, &["n0", "n4", "n8"]).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_listed_in_pages() {
    let (world, proxy) = with_proxy().await;
    proxy.rule(|request| match request.uri.query() {
        Some(query) if query.contains("sendInitialEvents") => Fault::Answer(422),
        _ => Fault::None,
    });
    burst(&world).await;
    let scheduler = start_scheduler(proxy.connection(), impatient()).await;
    // Nodes, pods, and the six other kinds.
    ends_well(&world, &proxy, scheduler, 8).await;
}

/// The first writes of a condition are answered with a code; a later one succeeds.
async fn a_condition_is_written_after(n_answers: usize, code: u16, options: SchedulerOptions) {
    let (world, proxy) = with_proxy().await;
    let mut n = 0;
    proxy.rule(move |request| {
        let is_status = request.method == http::Method::PATCH && request.uri.path().ends_with("/status");
        n += usize::from(is_status);
        if is_status && n <= n_answers { Fault::Answer(code) } else { Fault::None }
    });
    let scheduler = start_scheduler(proxy.connection(), options).await;
    let mut pod = pod("large", "large");
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1000".into();
    world.pod(pod).await;
    world.until_refused("large").await;
    assert_eq!(proxy.n_faults(), n_answers);
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_conflicts_with_another_write_is_written_again() {
    a_condition_is_written_after(2, 409, impatient()).await;
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_could_not_be_written_is_written_later() {
    let options = SchedulerOptions { flush_after: Duration::from_secs(1), ..impatient() };
    // As many as one write is tried.
    a_condition_is_written_after(4, 500, options).await;
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_was_forbidden_is_written_when_the_permission_is_back() {
    let options = SchedulerOptions { flush_after: Duration::from_secs(1), ..impatient() };
    a_condition_is_written_after(2, 403, options).await;
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_arrives_after_the_binding_changes_nothing() {
    let (world, proxy) = with_proxy().await;
    proxy.rule(|request| {
        let is_status = request.method == http::Method::PATCH && request.uri.path().ends_with("/status");
        if is_status { Fault::Delay(Duration::from_secs(1)) } else { Fault::None }
    });
    let scheduler = start_scheduler(proxy.connection(), impatient()).await;
    let mut pod = pod("waits", "waits");
    pod["spec"]["nodeSelector"] = serde_json::json!({"topology.kubernetes.io/zone": "new"});
    world.pod(pod).await;
    until(
        "the condition is on its way",
        async || if proxy.n_faults() == 1 { Ok(()) } else { Err("not yet") },
    )
    .await;
    world.node("late", "new", 20).await;
    assert_eq!(world.until_bound("waits").await, "late");
    until("the condition was sent, and the pod looked up", async || {
        let forwarded = proxy.forwarded();
        let is_lookup = |request: &ForwardedRequest| {
            request.method == http::Method::GET && request.path.ends_with("/pods/waits")
        };
        if forwarded.iter().any(is_lookup) { Ok(()) } else { Err(forwarded) }
    })
    .await;
    let pod = world.get(&format!("{PODS}/waits")).await;
    assert_eq!(pod["status"]["conditions"][0]["status"], "True", "{pod}");
    scheduler.stopped().await;
}
