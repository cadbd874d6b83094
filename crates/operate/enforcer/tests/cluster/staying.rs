//! Pods that the enforcer does not evict, and the events about them.

use std::time::Duration;

use berth_apiserver::ServerOptions;
use berth_enforcer::{EnforcerOptions, LimitOptions, Status};
use berth_engine::Settings;
use berth_input::config::SchedulerConfig;
use serde_json::{Value, json};

use super::support::*;

#[tokio::test(start_paused = true)]
async fn a_disruption_budget_blocks_an_eviction_until_it_allows_it() {
    let world = World::start(2, 1).await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    world.create(budgets, budget).await;
    let enforcer = world.enforce(hasty()).await;
    world.label_node("node-1", "disk", json!("ssd")).await;
    world.create(REPLICA_SETS, replica_set(2, on_nodes_with(pod("web", "web"), "disk", "ssd"))).await;
    let pods = world.until_ready("web", 2).await;
    until("the budget is about both", async || {
        let status = world.get(&format!("{budgets}/web")).await["status"].clone();
        if status["currentHealthy"] == 2 { Ok(()) } else { Err(status) }
    })
    .await;
    enforcer.until("aware of both", |s| s.n_pods == 2).await;
    world.label_node("node-2", "disk", json!("ssd")).await;
    world.label_node("node-1", "disk", Value::Null).await;
    // The enforcer retries, and the server refuses each time.
    enforcer.until("refused", |s| s.n_refused >= 6 && s.held.contains_key("refused")).await;
    assert_eq!((world.journal.n_ended("web"), enforcer.shows().n_evicted), (0, 0));
    let event = world.until_event("Pod", &pods[0].metadata.name, "EvictionRefused").await;
    assert!(event["note"].as_str().unwrap().contains("disruption budget"), "{event}");
    world.patch(&format!("{budgets}/web"), json!({"spec": {"minAvailable": 1}})).await;
    enforcer.until("done", |s| s.n_evicted == 2 && s.n_violated == 0).await;
    let after = world.until_ready("web", 2).await;
    assert!(after.iter().all(|p| p.spec.node_name == "node-2"));
    assert_eq!(world.journal.n_ended("web"), 2);
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_feasible_node_stays_with_an_event_until_there_is_one() {
    let world = World::start(2, 1).await;
    let enforcer = world.enforce(hasty()).await;
    world.label_node("node-1", "disk", json!("ssd")).await;
    world.create(REPLICA_SETS, replica_set(1, on_nodes_with(pod("web", "web"), "disk", "ssd"))).await;
    let pods = world.until_ready("web", 1).await;
    enforcer.until("aware of it", |s| s.n_pods == 1).await;
    world.label_node("node-1", "disk", Value::Null).await;
    let shown = enforcer.until("holding it", |s| s.held.get("no_target") == Some(&1)).await;
    assert_eq!((shown.n_evicted, shown.n_due), (0, 1));
    for (kind, name) in [("Pod", pods[0].metadata.name.as_str()), ("ReplicaSet", "web")] {
        let event = world.until_event(kind, name, "EvictionHeld").await;
        let note = event["note"].as_str().unwrap();
        assert!(note.contains("disk") && note.contains("no feasible node"), "{note}");
    }
    assert_eq!(world.journal.n_ended("web"), 0);
    world.label_node("node-2", "disk", json!("ssd")).await;
    enforcer.until("done", |s| s.n_evicted == 1 && s.n_violated == 0 && s.held.is_empty()).await;
    world.until_ready("web", 1).await;
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_feasibility_check_a_pod_is_evicted_anyway() {
    let world = World::start(1, 1).await;
    let enforcer = world.enforce(EnforcerOptions { holds: held_for(0), ..hasty() }).await;
    world.label_node("node-1", "disk", json!("ssd")).await;
    world.run(on_nodes_with(pod("web", "web"), "disk", "ssd")).await;
    enforcer.until("aware of it", |s| s.n_pods == 1).await;
    world.label_node("node-1", "disk", Value::Null).await;
    world.until_pod_gone("web").await;
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn when_every_node_is_relabelled_the_limiter_stops_evictions_until_the_labels_are_back() {
    let world = World::start(4, 1).await;
    let limits = LimitOptions { max_cluster_share: 0.1, window: LONG, ..hasty().limits };
    let options = EnforcerOptions { limits, holds: held_for(0), ..hasty() };
    let enforcer = world.enforce(options).await;
    let nodes = ["node-1", "node-2", "node-3", "node-4"];
    for node in nodes {
        world.label_node(node, "disk", json!("ssd")).await;
    }
    world.create(REPLICA_SETS, replica_set(24, on_nodes_with(pod("web", "web"), "disk", "ssd"))).await;
    let before = uids(&world.until_ready("web", 24).await);
    enforcer.until("aware of all", |s| s.n_pods == 24).await;
    for node in nodes {
        world.label_node(node, "disk", json!("hdd")).await;
    }
    let n_held = |s: &Status| s.held.get("cluster_share").copied().unwrap_or(0);
    enforcer.until("stopped by the cluster limit", |s| s.is_stopped && n_held(s) >= 19).await;
    let event = world.until_event("ConfigMap", "berth-enforcer", "EvictionsLimited").await;
    assert!(event["note"].as_str().unwrap().contains("change them back"), "{event}");
    for node in nodes {
        world.label_node(node, "disk", json!("ssd")).await;
    }
    enforcer.until("released", |s| !s.is_stopped && s.n_violated == 0).await;
    let after = uids(&world.until_ready("web", 24).await);
    // 10 % of 24 pods are 2, and a small cluster allows at least 5; if more are due, the limiter allows none.
    let n_gone = before.difference(&after).count();
    assert!(n_gone <= berth_enforcer::LEAST_CLUSTER_LIMIT, "{n_gone} are gone");
    assert_eq!(world.journal.n_ended("web"), n_gone);
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_workload_placed_into_the_same_violation_again_is_throttled() {
    let world = World::start(2, 2).await;
    let limits = LimitOptions { max_repeats: 2, ..hasty().limits };
    let options = EnforcerOptions { limits, ..hasty() };
    let enforcer = world.enforce(options.clone()).await;
    // Its template contains both the node and the rule.
    let quiet = with_term(pod("quiet", "quiet"), "podAntiAffinity", "loud", ZONE);
    world.create(REPLICA_SETS, replica_set(1, with(quiet, "nodeName", json!("node-1")))).await;
    world.until_ready("quiet", 1).await;
    world.run(with(pod("loud", "calm"), "nodeName", json!("node-1"))).await;
    enforcer.until("aware of both", |s| s.n_pods == 2).await;
    world.label(&format!("{PODS}/loud"), "app", json!("loud")).await;
    let is_held = |s: &Status| s.held.get("repeats") == Some(&1);
    let shown = enforcer.until("holding it", |s| s.n_evicted == 2 && is_held(s)).await;
    assert_eq!(shown.n_due, 1);
    let event = world.until_event("ReplicaSet", "quiet", "EvictionHeld").await;
    let note = event["note"].as_str().unwrap();
    assert!(note.contains("evicted 2 times in a row") && note.contains("nodeName"), "{note}");
    // The next leader throttles it as well.
    enforcer.stopped().await;
    let enforcer = world.enforce(options).await;
    enforcer.until("holding it", |s| s.held.get("repeats") == Some(&1)).await;
    assert_eq!(world.journal.n_ended("quiet"), 2);
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn pods_in_exempt_namespaces_are_not_evicted() {
    let world = World::start(2, 1).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}});
    world.create("/api/v1/namespaces", namespace).await;
    let exempt_namespaces = vec!["monitoring".to_owned()];
    let enforcer = world.enforce(EnforcerOptions { exempt_namespaces, ..hasty() }).await;
    world.label_node("node-1", "disk", json!("ssd")).await;
    for namespace in ["monitoring", "kube-system", "default"] {
        let mut pod = on_nodes_with(pod("web", "web"), "disk", "ssd");
        pod["metadata"]["namespace"] = json!(namespace);
        world.run(pod).await;
    }
    enforcer.until("aware of all", |s| s.n_pods == 3).await;
    world.label_node("node-2", "disk", json!("ssd")).await;
    world.label_node("node-1", "disk", Value::Null).await;
    world.until_pod_gone("web").await;
    enforcer.until("done", |s| s.n_evicted == 1 && s.n_violated == 0).await;
    assert_eq!(world.journal.n_ended("web"), 1);
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_writes_nothing() {
    let world = World::start(2, 1).await;
    let proxy = world.proxy();
    let lease = berth_client::lease::LeaseOptions::new("kube-system", "berth-enforcer", "dry");
    let options = EnforcerOptions { dry_run: true, leader_election: Some(lease), ..hasty() };
    let enforcer = start_enforcer(proxy.connection(), options).await;
    world.label_node("node-1", "disk", json!("ssd")).await;
    world.run(on_nodes_with(pod("web", "web"), "disk", "ssd")).await;
    let stuck = with_grace(on_nodes_with(pod("stuck", "stuck"), "disk", "ssd"), "not a duration");
    world.run(with(stuck, "nodeSelector", json!({HOSTNAME: "node-1"}))).await;
    enforcer.until("aware of them", |s| s.n_pods == 2).await;
    world.label_node("node-2", "disk", json!("ssd")).await;
    world.label_node("node-1", "disk", Value::Null).await;
    let shown = enforcer.until("done", |s| s.n_would_evict == 1 && s.held.get("no_target") == Some(&1)).await;
    assert_eq!((shown.n_evicted, shown.leads), (0, false));
    // It evaluates again and still writes nothing: no eviction, event, condition, lease or ledger.
    world.run(pod("another", "x")).await;
    enforcer.until("aware of more", |s| s.n_pods == 3).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    enforcer.stopped().await;
    let written: Vec<_> = proxy.forwarded().into_iter().filter(|p| p.method != http::Method::GET).collect();
    assert!(written.is_empty(), "{written:?}");
    assert!(!proxy.forwarded().is_empty() && world.events().await.is_empty());
    assert_eq!(world.journal.ended().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_claims_whose_profile_does_not_allocate_devices_is_evicted_like_any_other() {
    let world = World::start(2, 1).await;
    let config = SchedulerConfig::from_value(&json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "berth", "plugins": {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}}],
    }));
    let settings = Settings { config: config.unwrap(), ..Settings::default() };
    let enforcer = world.enforce(EnforcerOptions { settings, ..hasty() }).await;
    world.label_node("node-1", "disk", json!("ssd")).await;
    let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "gpu"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}});
    let path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    world.create(path, claim).await;
    let devices = json!({"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]});
    world.patch(&format!("{path}/gpu/status"), json!({"status": {"allocation": {"devices": devices}}})).await;
    let claims = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
    let bound = with(pod("web", "web"), "nodeName", json!("node-1"));
    world.run(with(on_nodes_with(bound, "disk", "ssd"), "resourceClaims", claims)).await;
    enforcer.until("aware of it", |s| s.n_pods == 1).await;
    world.label_node("node-2", "disk", json!("ssd")).await;
    world.label_node("node-1", "disk", Value::Null).await;
    enforcer.until("evicting it", |s| s.n_evicted == 1).await;
    enforcer.stopped().await;
}

/// An API server that does not validate the annotation, as that of any cluster.
#[tokio::test(start_paused = true)]
async fn a_misspelt_rule_of_a_running_pod_was_lost_without_an_event() {
    let world =
        World::start_with(ServerOptions { extensions: false, ..ServerOptions::default() }, 1, 1).await;
    let enforcer = world.enforce(hasty()).await;
    let mut misspelt = pod("web", "web");
    misspelt["spec"]["nodeName"] = json!("node-1");
    misspelt["metadata"]["annotations"] =
        json!({"scheduling.berth.dev/affinity": "{podAntiAfinity: {}, nodeAffinity: {}}"});
    world.create(PODS, misspelt).await;
    let event = world.until_event("Pod", "web", "InvalidPodRules").await;
    let expected = "metadata.annotations[scheduling.berth.dev/affinity]: podAntiAfinity: unknown field; did you mean \
                    \"podAntiAffinity\"?; rules that cannot be read have no effect";
    assert_eq!(event["note"], expected);
    enforcer.stopped().await;
}
