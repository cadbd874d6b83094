//! API server outages. After each, exactly the violating pods have been evicted, once each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_enforcer::{EnforcerOptions, LimitOptions};
use berth_faults::{Fault, Proxy, is_eviction, is_resumed_watch};
use serde_json::{Value, json};

use super::support::*;

const N_PODS: usize = 24;

/// Pods on three nodes, the first of which is about to lose its label; and the pods on that node.
struct Scene {
    world: World,
    proxy: Proxy,
    all: BTreeSet<String>,
    concerned: BTreeSet<String>,
}

async fn scene() -> Scene {
    let world = World::start(3, 1).await;
    let proxy = world.proxy();
    for node in ["node-1", "node-2", "node-3"] {
        world.label_node(node, "disk", json!("ssd")).await;
    }
    world.create(REPLICA_SETS, replica_set(N_PODS, on_nodes_with(pod("web", "web"), "disk", "ssd"))).await;
    let pods = world.until_ready("web", N_PODS).await;
    let all = uids(&pods);
    let concerned = pods.iter().filter(|p| p.spec.node_name == "node-1").cloned().collect::<Vec<_>>();
    assert!(concerned.len() >= 4, "the scheduler spreads them: {}", concerned.len());
    Scene { world, proxy, all, concerned: uids(&concerned) }
}

impl Scene {
    /// The eviction limit equals the number of victims: an eviction counted twice would leave a pod.
    fn options(&self) -> EnforcerOptions {
        let max_per_node = self.concerned.len() as u32;
        let limits = LimitOptions { max_per_node, window: LONG, ..hasty().limits };
        EnforcerOptions { limits, ..hasty() }
    }

    async fn break_rules(&self) {
        self.world.label_node("node-1", "disk", Value::Null).await;
    }

    /// Exactly the violating pods were evicted, each once.
    async fn ends_well(&self, enforcer: Enforcer, least_faults: usize) {
        let n = self.concerned.len();
        enforcer.until("done", |s| s.n_violated == 0 && s.n_began >= n as u64 && s.n_evicting == 0).await;
        let after = self.world.until_ready("web", N_PODS).await;
        assert!(after.iter().all(|p| p.spec.node_name != "node-1"), "everybody is where they may be");
        let gone: BTreeSet<String> = self.all.difference(&uids(&after)).cloned().collect();
        assert_eq!(gone, self.concerned, "who went is not who had to");
        assert_eq!(self.world.journal.n_ended("web"), n, "more went than had to");
        no_pod_was_evicted_twice(&[&self.proxy]);
        let n_faults = self.proxy.n_faults();
        assert!(n_faults >= least_faults, "only {n_faults} faults: this showed nothing");
        enforcer.stopped().await;
    }
}

/// All replicas together sent one eviction request per pod.
pub fn no_pod_was_evicted_twice(proxies: &[&Proxy]) {
    let mut sent: BTreeMap<String, usize> = BTreeMap::new();
    for passed in proxies.iter().flat_map(|proxy| proxy.forwarded()) {
        if passed.path.ends_with("/eviction") {
            *sent.entry(passed.path).or_default() += 1;
        }
    }
    assert!(sent.values().all(|n| *n == 1), "evicted more than once: {sent:?}");
}

/// Over connections, which break.
#[tokio::test]
async fn evictions_with_errors_or_lost_answers_are_looked_up() {
    let scene = scene().await;
    let enforcer = start_enforcer(scene.proxy.listen().await, scene.options()).await;
    enforcer.until("aware of all", |s| s.n_pods == N_PODS).await;
    let mut n = 0;
    scene.proxy.rule(move |request| {
        if !is_eviction(request) {
            return Fault::None;
        }
        n += 1;
        match n % 7 {
            1 => Fault::Answer(500),
            2 => Fault::LoseAnswer,
            3 => Fault::Answer(409),
            4 => Fault::HangAfter,
            5 => Fault::Answer(429),
            6 => Fault::Hang,
            _ => Fault::None,
        }
    });
    scene.break_rules().await;
    scene.ends_well(enforcer, 6).await;
}

#[tokio::test(start_paused = true)]
async fn evictions_continue_after_all_requests_failed_for_a_while() {
    let scene = scene().await;
    let enforcer = start_enforcer(scene.proxy.connection(), scene.options()).await;
    enforcer.until("aware of all", |s| s.n_pods == N_PODS).await;
    let mut n = 0;
    scene.proxy.rule(move |request| {
        n += 1;
        match n {
            n if n < 60 && is_eviction(request) => Fault::LoseAnswer,
            n if n < 60 && n % 2 == 0 => Fault::Answer(500),
            n if n < 60 && n % 3 == 0 => Fault::Answer(409),
            _ => Fault::None,
        }
    });
    scene.break_rules().await;
    scene.ends_well(enforcer, 10).await;
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_evicted_while_the_ledger_cannot_be_written() {
    let scene = scene().await;
    let enforcer = start_enforcer(scene.proxy.connection(), scene.options()).await;
    enforcer.until("aware of all", |s| s.n_pods == N_PODS).await;
    scene.proxy.rule(|request| {
        let is_write = request.method != http::Method::GET;
        if is_write && request.uri.path().contains("/configmaps") { Fault::Answer(403) } else { Fault::None }
    });
    scene.break_rules().await;
    until("the ledger was refused several times", async || {
        let n = scene.proxy.n_faults();
        if n >= 3 { Ok(()) } else { Err(n) }
    })
    .await;
    assert_eq!((enforcer.shows().n_evicted, scene.world.journal.n_ended("web")), (0, 0));
    scene.proxy.rule(|_| Fault::None);
    scene.ends_well(enforcer, 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_hanging_server_is_detected() {
    let scene = scene().await;
    let enforcer = start_enforcer(scene.proxy.connection(), scene.options()).await;
    enforcer.until("aware of all", |s| s.n_pods == N_PODS).await;
    let hang_until = tokio::time::Instant::now() + Duration::from_secs(3);
    scene.proxy.cut();
    scene.proxy.rule(move |_| match tokio::time::Instant::now() < hang_until {
        true => Fault::Hang,
        false => Fault::None,
    });
    scene.break_rules().await;
    scene.ends_well(enforcer, 2).await;
}

/// Over connections, which break.
#[tokio::test]
async fn broken_watches_and_expired_versions_lose_no_event() {
    let scene = scene().await;
    let mut n = 0;
    scene.proxy.rule(move |request| {
        n += usize::from(is_resumed_watch(request));
        if is_resumed_watch(request) && n % 3 == 0 { Fault::Answer(410) } else { Fault::None }
    });
    let mut options = scene.options();
    options.limits.evictions_per_second = 10.0;
    let enforcer = start_enforcer(scene.proxy.listen().await, options).await;
    enforcer.until("aware of all", |s| s.n_pods == N_PODS).await;
    let cutter = tokio::spawn({
        let proxy = scene.proxy.clone();
        async move {
            loop {
                tokio::time::sleep(Duration::from_millis(70)).await;
                proxy.cut();
            }
        }
    });
    let n_faults = async |n: usize| {
        until("watches broke and versions expired", async || {
            let seen = scene.proxy.n_faults();
            if seen >= n { Ok(()) } else { Err(seen) }
        })
        .await;
    };
    n_faults(3).await;
    scene.break_rules().await;
    enforcer.until("done", |s| s.n_violated == 0 && s.n_began > 0).await;
    cutter.abort();
    scene.ends_well(enforcer, 3).await;
}
