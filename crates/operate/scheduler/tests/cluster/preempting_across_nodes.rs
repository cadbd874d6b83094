//! Preemption across nodes, which a profile enables.

use berth_engine::Settings;
use berth_faults::Fault;
use berth_input::config::SchedulerConfig;
use berth_scheduler::SchedulerOptions;
use http::Method;
use serde_json::{Value, json};

use super::preempting::{FORCE, classes, of_class};
use super::support::*;

fn across_nodes() -> SchedulerOptions {
    let config = SchedulerConfig::from_value(&json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "berth",
            "pluginConfig": [{"name": "DefaultPreemption", "args": {"preemptAcrossNodes": true}}]}],
    }));
    SchedulerOptions { settings: Settings { config: config.unwrap(), ..Settings::default() }, ..impatient() }
}

/// A pod that must not be with others of its app in a zone.
fn apart() -> Value {
    with_term(of_class(pod("apart", "x"), "high"), "podAntiAffinity", "web", ZONE)
}

impl World {
    /// A running pod of low priority that keeps the pod apart out of the zone, and takes its time to terminate.
    async fn web(&self, name: &str, node: &str, class: &str) {
        let mut web = of_class(pod(name, "web"), class);
        web["spec"]["terminationGracePeriodSeconds"] = json!(600);
        web["spec"]["nodeName"] = json!(node);
        self.pod(web).await;
    }

    async fn is_deleted(&self, name: &str) -> bool {
        self.get(&format!("{PODS}/{name}")).await["metadata"]["deletionTimestamp"].is_string()
    }

    async fn until_deleted(&self, name: &str) {
        until(&format!("{name} is being deleted"), async || {
            if self.is_deleted(name).await { Ok(()) } else { Err("not yet") }
        })
        .await;
    }

    async fn end(&self, name: &str) {
        self.delete(&format!("{PODS}/{name}{FORCE}")).await;
    }
}

/// Zone z0 has the nodes n0 and n2 with pods of low priority, zone z1 has n1 and n3 with more important ones.
async fn world_with_webs() -> World {
    let world = World::start().await;
    classes(&world).await;
    let middle = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "middle"}, "value": 10});
    world.create("/apis/scheduling.k8s.io/v1/priorityclasses", middle).await;
    world.nodes(4, 2, 2).await;
    for (name, node, class) in
        [("web-0", "n2", "low"), ("web-1", "n0", "low"), ("web-2", "n1", "middle"), ("web-3", "n3", "middle")]
    {
        world.web(name, node, class).await;
    }
    world
}

#[tokio::test(start_paused = true)]
async fn victims_on_several_nodes_are_evicted_and_the_preemptor_waits_for_all_of_them() {
    let world = world_with_webs().await;
    let scheduler = world.schedule(across_nodes()).await;
    let apart = world.pod(apart()).await;
    for (victim, other) in [("web-0", "web-1"), ("web-1", "web-0")] {
        world.until_deleted(victim).await;
        let event = world.until_event("Pod", victim, "Preempted").await;
        assert!(event["note"].as_str().unwrap().ends_with("on node n0"), "{event} ({other})");
        let found = world.get(&format!("{PODS}/{victim}")).await;
        let conditions = found["status"]["conditions"].as_array().unwrap();
        let target = conditions.iter().find(|c| c["type"] == "DisruptionTarget").unwrap();
        assert_eq!(target["reason"], "PreemptionByScheduler");
        assert!(target["message"].as_str().unwrap().contains(apart["metadata"]["uid"].as_str().unwrap()));
    }
    world.until_nominated("apart", json!("n0")).await;
    // The victim on its own node ends first.
    world.end("web-1").await;
    world.pod(pod("later", "x")).await;
    world.until_bound("later").await;
    assert_eq!(world.node_of("apart").await, "");
    world.end("web-0").await;
    assert_eq!(world.until_bound("apart").await, "n0");
    scheduler.until("two pods are removed", |s| s.n_preempted == 2).await;
    assert!(!world.is_deleted("web-2").await && !world.is_deleted("web-3").await);
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_argument_only_victims_on_one_node_are_considered() {
    let world = world_with_webs().await;
    let scheduler = world.schedule(impatient()).await;
    world.pod(apart()).await;
    let text = "preemption: 0/4 nodes are available: 4 node(s) didn't match pod anti-affinity rules.";
    world.until_refused_with("apart", text).await;
    assert_eq!(scheduler.shows().n_preempted, 0);
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_scheduler_waits_for_victims_on_other_nodes() {
    let world = world_with_webs().await;
    let scheduler = world.schedule(across_nodes()).await;
    world.pod(apart()).await;
    world.until_deleted("web-0").await;
    world.until_deleted("web-1").await;
    scheduler.until("two pods are removed", |s| s.n_preempted == 2).await;
    scheduler.stopped().await;
    // Now one pod on a node of the other zone would be enough.
    world.end("web-1").await;
    world.end("web-2").await;
    world.end("web-3").await;
    world.web("web-4", "n1", "low").await;
    let scheduler = world.schedule(across_nodes()).await;
    // The pod is decided before one of lower priority.
    world.pod(pod("later", "x")).await;
    world.until_bound("later").await;
    world.until_refused_with("apart", "not eligible due to a terminating pod on the nominated node.").await;
    world.end("web-0").await;
    assert_eq!(world.until_bound("apart").await, "n0");
    assert_eq!(scheduler.shows().n_preempted, 0);
    assert!(!world.is_deleted("web-4").await);
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_that_is_killed_between_two_evictions_leaves_no_needless_ones_to_the_next() {
    let world = world_with_webs().await;
    let proxy = world.proxy();
    proxy.rule(|request| match request.method == Method::DELETE && request.uri.path().ends_with("/web-1") {
        true => Fault::Hang,
        false => Fault::None,
    });
    let scheduler = start_scheduler(proxy.connection(), across_nodes()).await;
    world.pod(apart()).await;
    world.until_deleted("web-0").await;
    until("the second eviction hangs", async || {
        let n = proxy.n_faults();
        if n > 0 { Ok(()) } else { Err(n) }
    })
    .await;
    scheduler.handle.abort();
    proxy.rule(|_| Fault::Hang);
    let scheduler = world.schedule(across_nodes()).await;
    world.pod(pod("later", "x")).await;
    world.until_bound("later").await;
    // While a victim terminates on another node, no pod is evicted.
    world.until_refused_with("apart", "not eligible due to a terminating pod on the nominated node.").await;
    assert!(!world.is_deleted("web-1").await);
    world.end("web-0").await;
    world.until_deleted("web-1").await;
    world.end("web-1").await;
    assert_eq!(world.until_bound("apart").await, "n0");
    scheduler.until("one pod is removed", |s| s.n_preempted == 1).await;
    assert!(!world.is_deleted("web-2").await && !world.is_deleted("web-3").await);
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_preemption_whose_second_eviction_is_refused_is_completed_later() {
    let world = world_with_webs().await;
    let proxy = world.proxy();
    proxy.rule(|request| match request.method == Method::DELETE && request.uri.path().ends_with("/web-1") {
        true => Fault::Answer(403),
        false => Fault::None,
    });
    let scheduler = start_scheduler(proxy.connection(), across_nodes()).await;
    world.pod(apart()).await;
    world.until_deleted("web-0").await;
    until("evictions are refused", async || {
        let n = proxy.n_faults();
        if n > 0 { Ok(()) } else { Err(n) }
    })
    .await;
    proxy.rule(|_| Fault::None);
    world.end("web-0").await;
    world.until_deleted("web-1").await;
    world.end("web-1").await;
    assert_eq!(world.until_bound("apart").await, "n0");
    assert!(!world.is_deleted("web-2").await && !world.is_deleted("web-3").await);
    scheduler.stopped().await;
}
