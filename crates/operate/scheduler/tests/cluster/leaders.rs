//! Two replicas and leader election.

use std::time::Duration;

use berth_client::lease::LeaseOptions;

use berth_scheduler::SchedulerOptions;

use berth_faults::{Fault, Proxy, is_binding};

use super::support::*;

const N_NODES: usize = 12;
const N_PODS: usize = 120;

/// A scheduler with leader election and short periods.
pub fn replica(name: &str) -> SchedulerOptions {
    let lease = LeaseOptions {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_millis(1500),
        retry_period: Duration::from_millis(200),
        ..LeaseOptions::new("kube-system", "berth-scheduler", name)
    };
    SchedulerOptions { leader_election: Some(lease), identity: name.to_owned(), ..impatient() }
}

pub async fn two_replicas(world: &World) -> (Proxy, Scheduler, Proxy, Scheduler) {
    let first_proxy = world.proxy();
    let first = start_scheduler(first_proxy.connection(), replica("first")).await;
    first.until("leader", |s| s.leads && s.is_ready()).await;
    let second_proxy = world.proxy();
    let second = start_scheduler(second_proxy.connection(), replica("second")).await;
    second.until("waiting for the lease", |s| s.is_ready()).await;
    assert!(!second.shows().leads);
    (first_proxy, first, second_proxy, second)
}

#[tokio::test(start_paused = true)]
async fn when_the_leader_is_killed_during_a_burst_the_standby_continues() {
    let world = World::start().await;
    world.nodes(N_NODES, 3, 20).await;
    let (first_proxy, first, second_proxy, second) = two_replicas(&world).await;
    // The burst does not end before the leader is killed.
    let mut n_bindings = 0;
    first_proxy.rule(move |r| {
        n_bindings += usize::from(is_binding(r));
        if is_binding(r) && n_bindings > 10 { Fault::Hang } else { Fault::None }
    });
    for pod in mixed(N_PODS, N_NODES) {
        world.pod(pod).await;
    }
    world.until_n_bound(10).await;
    first.handle.abort();
    first_proxy.rule(|_| Fault::Hang);
    second.until("leader", |s| s.leads).await;
    world.until_n_bound(N_PODS).await;
    second.until("no pod is queued", |s| s.n_queued() == 0).await;
    verify::all_is_well(&world, N_PODS).await;
    assert!(!second_proxy.bindings().is_empty(), "the second one had something left to do");
    second.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_binding_before_the_next_one_starts() {
    let world = World::start().await;
    world.nodes(N_NODES, 3, 20).await;
    let (first_proxy, first, second_proxy, second) = two_replicas(&world).await;
    // Only its lease requests fail.
    first_proxy.rule(|request| {
        if request.uri.path().contains("/leases") {
            Fault::Hang
        } else if is_binding(request) {
            Fault::Delay(Duration::from_millis(150))
        } else {
            Fault::None
        }
    });
    for pod in mixed(N_PODS, N_NODES) {
        world.pod(pod).await;
    }
    first.until("no leader any more", |s| !s.leads).await;
    second.until("leader", |s| s.leads).await;
    for i in 0..20 {
        world.pod(pod(&format!("late-{i}"), "late")).await;
    }
    world.until_n_bound(N_PODS + 20).await;
    verify::all_is_well(&world, N_PODS + 20).await;
    let (last, start) = (first_proxy.bindings().into_iter().max(), second_proxy.bindings().into_iter().min());
    assert!(last.unwrap() < start.unwrap(), "they took turns");
    second.stopped().await;
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_leader_releases_the_lease() {
    let world = World::start().await;
    world.nodes(2, 1, 10).await;
    let (_first_proxy, first, _second_proxy, second) = two_replicas(&world).await;
    world.pod(pod("one", "x")).await;
    world.until_bound("one").await;
    first.stopped().await;
    let lease = world.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/berth-scheduler").await;
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    assert!(holder != "first", "given back, and perhaps taken already: {holder}");
    world.pod(pod("two", "x")).await;
    world.until_bound("two").await;
    second.stopped().await;
}
