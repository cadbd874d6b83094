//! Two replicas and leader election.

use std::time::Duration;

use berth_client::lease::LeaseOptions;
use berth_enforcer::{EnforcerOptions, LimitOptions, Status};
use berth_faults::{Fault, Proxy, is_eviction};
use serde_json::{Value, json};

use super::faults::no_pod_was_evicted_twice;
use super::support::*;

const N_PODS: usize = 20;
/// The eviction limit equals the number of victims.
const BUDGET: usize = 4;

fn replica(name: &str) -> EnforcerOptions {
    let lease = LeaseOptions {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_millis(1500),
        retry_period: Duration::from_millis(200),
        ..LeaseOptions::new("kube-system", "berth-enforcer", name)
    };
    let limits = LimitOptions { max_per_node: BUDGET as u32, window: LONG, ..hasty().limits };
    EnforcerOptions { leader_election: Some(lease), identity: name.to_owned(), limits, ..hasty() }
}

/// A cluster with all pods on one node, and free capacity on another.
async fn world() -> World {
    let world = World::start(2, 1).await;
    world.label_node("node-1", "disk", json!("ssd")).await;
    world.create(REPLICA_SETS, replica_set(N_PODS, on_nodes_with(pod("web", "web"), "disk", "ssd"))).await;
    world.until_ready("web", N_PODS).await;
    world.label_node("node-2", "disk", json!("ssd")).await;
    world
}

async fn two_replicas(world: &World) -> (Proxy, Enforcer, Proxy, Enforcer) {
    let first_proxy = world.proxy();
    let first = start_enforcer(first_proxy.connection(), replica("first")).await;
    first.until("leader", |s| s.leads && s.is_ready()).await;
    let second_proxy = world.proxy();
    let second = start_enforcer(second_proxy.connection(), replica("second")).await;
    second.until("waiting for the lease", |s| s.is_ready()).await;
    assert!(!second.shows().leads);
    (first_proxy, first, second_proxy, second)
}

/// The budget is used up and not exceeded.
async fn is_spent(world: &World, leader: &Enforcer) {
    let n_left = N_PODS - BUDGET;
    let is_at_limit = |s: &Status| s.held.get("node_limit") == Some(&n_left);
    leader.until("at its limit", |s| s.leads && s.n_violated == n_left && is_at_limit(s)).await;
    world.until_ready("web", N_PODS).await;
    assert_eq!(world.journal.n_ended("web"), BUDGET);
}

/// The first replica is killed: the second one evicts as many pods as are left of the budget.
async fn second_takes_over(world: &World, first: (Enforcer, Proxy), second: (Enforcer, Proxy)) {
    let ((first, first_proxy), (second, second_proxy)) = (first, second);
    first.handle.abort();
    first_proxy.rule(|_| Fault::Hang);
    second.until("leader", |s| s.leads).await;
    is_spent(world, &second).await;
    no_pod_was_evicted_twice(&[&first_proxy, &second_proxy]);
    second.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_killed_before_the_eviction_costs_no_budget_and_misses_no_pod() {
    let world = world().await;
    let (first_proxy, first, second_proxy, second) = two_replicas(&world).await;
    // It has decided and written the ledger; its requests never arrive.
    first_proxy.rule(|request| if is_eviction(request) { Fault::Hang } else { Fault::None });
    world.label_node("node-1", "disk", Value::Null).await;
    until("the first one has decided", async || {
        let n = first_proxy.n_faults();
        if n >= BUDGET { Ok(()) } else { Err(n) }
    })
    .await;
    second_takes_over(&world, (first, first_proxy), (second, second_proxy)).await;
}

#[tokio::test(start_paused = true)]
async fn evictions_of_a_killed_leader_count_for_the_next_one() {
    let world = world().await;
    let (first_proxy, first, second_proxy, second) = two_replicas(&world).await;
    // The server executes them; the leader does not receive the answers.
    let mut n = 0;
    first_proxy.rule(move |request| {
        n += usize::from(is_eviction(request));
        match is_eviction(request) {
            true if n <= 2 => Fault::HangAfter,
            true => Fault::Hang,
            false => Fault::None,
        }
    });
    world.label_node("node-1", "disk", Value::Null).await;
    until("two have gone", async || {
        let n = world.journal.n_ended("web");
        if n == 2 { Ok(()) } else { Err(n) }
    })
    .await;
    second_takes_over(&world, (first, first_proxy), (second, second_proxy)).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_evicting_before_the_next_one_starts() {
    let world = world().await;
    let (first_proxy, first, second_proxy, second) = two_replicas(&world).await;
    // Only its lease requests fail.
    first_proxy.rule(|request| match request.uri.path() {
        path if path.contains("/leases") => Fault::Hang,
        _ if is_eviction(request) => Fault::Delay(Duration::from_millis(150)),
        _ => Fault::None,
    });
    first.until("no leader any more", |s| !s.leads).await;
    world.label_node("node-1", "disk", Value::Null).await;
    first.until("aware that rules broke", |s| s.n_due == N_PODS).await;
    second.until("leader", |s| s.leads).await;
    is_spent(&world, &second).await;
    assert_eq!(first.shows().n_evicted, 0);
    no_pod_was_evicted_twice(&[&first_proxy, &second_proxy]);
    second.stopped().await;
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_leader_releases_the_lease() {
    let world = world().await;
    let (_first_proxy, first, _second_proxy, second) = two_replicas(&world).await;
    world.label_node("node-1", "disk", Value::Null).await;
    is_spent(&world, &first).await;
    first.stopped().await;
    second.until("leader", |s| s.leads).await;
    is_spent(&world, &second).await;
    second.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn enforcers_without_an_election_share_the_limits() {
    let world = world().await;
    let replica = |name: &str| EnforcerOptions { leader_election: None, ..replica(name) };
    let (first_proxy, second_proxy) = (world.proxy(), world.proxy());
    let first = start_enforcer(first_proxy.connection(), replica("first")).await;
    let second = start_enforcer(second_proxy.connection(), replica("second")).await;
    for enforcer in [&first, &second] {
        enforcer.until("ready", |s| s.is_ready() && s.n_pods == N_PODS).await;
    }
    world.label_node("node-1", "disk", json!("hdd")).await;
    for enforcer in [&first, &second] {
        is_spent(&world, enforcer).await;
    }
    first.stopped().await;
    second.stopped().await;
}
