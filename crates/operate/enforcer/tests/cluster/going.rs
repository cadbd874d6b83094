//! Victim selection: which pods are evicted, when, and where they are placed again.

use std::time::Duration;

use berth_api::syntax::annotations::AFFINITY_ANNOTATION;
use berth_client::serving::ServingOptions;
use berth_enforcer::{CONDITION_REASON, EnforcerOptions, Graces};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::support::*;

#[tokio::test(start_paused = true)]
async fn a_pod_is_evicted_and_rescheduled_after_its_node_loses_a_label() {
    let world = World::start(3, 1).await;
    let http = Some("127.0.0.1:0".parse().unwrap());
    let serving = ServingOptions { http, ..ServingOptions::default() };
    let enforcer = world.enforce(EnforcerOptions { serving, ..hasty() }).await;
    for node in ["node-1", "node-2"] {
        world.label_node(node, "disk", json!("ssd")).await;
    }
    world.create(REPLICA_SETS, replica_set(2, on_nodes_with(pod("web", "web"), "disk", "ssd"))).await;
    let pods = world.until_ready("web", 2).await;
    let (victims, others): (Vec<_>, Vec<_>) = pods.iter().partition(|p| p.spec.node_name == "node-1");
    enforcer.until("aware of both", |s| s.n_pods == 2).await;
    world.label_node("node-1", "disk", Value::Null).await;
    enforcer
        .until("done", |s| s.n_evicted == victims.len() as u64 && s.n_violated == 0 && s.n_evicting == 0)
        .await;
    let after = world.until_ready("web", 2).await;
    assert!(after.iter().all(|p| p.spec.node_name == "node-2"), "they are where they may be");
    for other in others {
        assert!(uids(&after).contains(&other.metadata.uid), "{} had no reason to go", other.key());
    }
    for victim in victims {
        let name = &victim.metadata.name;
        let about_pod = world.until_event("Pod", name, "EvictedForAffinity").await;
        let note = about_pod["note"].as_str().unwrap();
        assert!(note.contains("disk") && note.contains("fits on node-2"), "{note}");
        let about_set = world.until_event("ReplicaSet", "web", "EvictedForAffinity").await;
        assert!(about_set["note"].as_str().unwrap().contains("disk"), "{about_set}");
        let entry = world.journal.ended().into_iter().find(|e| e.name == *name).unwrap();
        let said = entry.disruption.last().unwrap();
        assert!(said.starts_with(CONDITION_REASON) && said.contains("disk"), "{said}");
    }
    let metrics = get(&enforcer, "/metrics").await;
    for line in [
        "berth_enforcer_violations{rule=\"node_affinity\"} 0",
        "berth_enforcer_evictions_total{result=\"evicted\"}",
        "berth_enforcer_leader 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    assert!(get(&enforcer, "/readyz").await.starts_with("HTTP/1.1 200"));
    assert!(get(&enforcer, "/healthz").await.starts_with("HTTP/1.1 200"));
    enforcer.stopped().await;
}

/// The scheduler and the enforcer have read the nodes without the annotation before a pod mentions it.
#[tokio::test(start_paused = true)]
async fn a_pod_is_evicted_and_rescheduled_after_an_annotation_of_its_node_changes() {
    let world = World::start(2, 1).await;
    let enforcer = world.enforce(hasty()).await;
    let slot = async |node: &str, slot: &str| {
        let annotations = json!({"metadata": {"annotations": {"example.com/slot": slot}}});
        world.patch(&format!("/api/v1/nodes/{node}"), annotations).await;
    };
    slot("node-2", "7").await;
    let term = json!({
        "matchAnnotations": [{"key": "example.com/slot", "operator": "Gt", "values": ["5"]}],
        "matchFields": [{"key": "status.nodeInfo.kubeletVersion", "operator": "VersionGt", "values": ["v1.30"]}]});
    let affinity = json!({"nodeAffinity": {EXECUTING: {"nodeSelectorTerms": [term]}}});
    let mut web = pod("web", "web");
    web["metadata"]["annotations"][AFFINITY_ANNOTATION] = affinity.to_string().into();
    world.create(REPLICA_SETS, replica_set(1, web)).await;
    assert_eq!(world.until_ready("web", 1).await[0].spec.node_name, "node-2");
    enforcer.until("aware of it", |s| s.n_pods == 1).await;
    slot("node-1", "6").await;
    slot("node-2", "5").await;
    enforcer.until("done", |s| s.n_evicted == 1 && s.n_violated == 0 && s.n_evicting == 0).await;
    assert_eq!(world.until_ready("web", 1).await[0].spec.node_name, "node-1");
    enforcer.stopped().await;
}

async fn get(enforcer: &Enforcer, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(enforcer.handle.http_address().unwrap()).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(start_paused = true)]
async fn a_missing_required_match_evicts_only_after_the_grace_period() {
    let world = World::start(4, 2).await;
    let graces = Graces { pod_affinity: LONG, ..hasty().graces };
    let enforcer = world.enforce(EnforcerOptions { graces, ..hasty() }).await;
    let db = |name: &str, zone: &str| with(pod(name, "db"), "nodeSelector", json!({ZONE: zone}));
    world.run(db("db-1", "zone-1")).await;
    let near_db = |name: &str| with_term(pod(name, "web"), "podAffinity", "db", ZONE);
    let before = world.run(near_db("patient")).await;
    world.run(with_grace(near_db("hasty"), "100ms")).await;
    // From now on another node is feasible.
    world.run(db("db-2", "zone-2")).await;
    enforcer.until("aware of all", |s| s.n_pods == 4).await;

    world.delete_pod("db-1").await;
    enforcer.until("aware that two rules broke", |s| s.n_began == 2).await;
    // The grace period of one pod expires; the other pod still has time.
    enforcer.until("done with the hasty one", |s| s.n_evicted == 1 && s.n_violated == 1).await;
    world.until_pod_gone("hasty").await;
    assert_eq!(enforcer.shows().n_due, 0, "the patient one is in its grace");
    world.run(db("db-1", "zone-1")).await;
    enforcer.until("aware that it holds again", |s| s.n_violated == 0 && s.n_ended == 2).await;

    // An interrupted violation starts again, and a grace period shortened meanwhile counts from its start.
    world.delete_pod("db-1").await;
    enforcer.until("aware that it broke again", |s| s.n_began == 3 && s.n_violated == 1).await;
    assert_eq!((enforcer.shows().n_due, world.journal.n_ended("patient")), (0, 0));
    let grace = json!({"metadata": {"annotations": {"scheduling.berth.dev/eviction-grace": "0"}}});
    world.patch(&format!("{PODS}/patient"), grace).await;
    world.until_pod_gone("patient").await;
    assert!(["node-1", "node-3"].contains(&before.as_str()), "it was in zone-1: {before}");
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_relabelled_into_conflict_evicts_the_pod_whose_rule_it_breaks() {
    let world = World::start(2, 1).await;
    let enforcer = world.enforce(hasty()).await;
    let quiet = with_term(pod("quiet", "quiet"), "podAntiAffinity", "loud", HOSTNAME);
    world.run(with(pod("other", "calm"), "nodeName", json!("node-1"))).await;
    world.run(with(quiet, "nodeName", json!("node-1"))).await;
    enforcer.until("aware of both", |s| s.n_pods == 2).await;
    world.label(&format!("{PODS}/other"), "app", json!("loud")).await;
    world.until_pod_gone("quiet").await;
    enforcer.until("done", |s| s.n_evicted == 1 && s.n_violated == 0).await;
    assert_eq!(world.journal.n_ended("other"), 0);
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_lowest_priority_is_evicted() {
    let world = World::start(2, 1).await;
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "high"}, "value": 1000});
    world.create("/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
    let enforcer = world.enforce(hasty()).await;
    let quiet = with_term(pod("quiet", "quiet"), "podAntiAffinity", "loud", HOSTNAME);
    let quiet = with(with(quiet, "nodeName", json!("node-1")), "priorityClassName", json!("high"));
    world.run(quiet).await;
    world.run(with(pod("other", "calm"), "nodeName", json!("node-1"))).await;
    enforcer.until("aware of both", |s| s.n_pods == 2).await;
    world.label(&format!("{PODS}/other"), "app", json!("loud")).await;
    world.until_pod_gone("other").await;
    enforcer.until("done", |s| s.n_evicted == 1 && s.n_violated == 0).await;
    assert_eq!(world.journal.n_ended("quiet"), 0);
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_bound_against_a_rule_is_evicted_at_once_whatever_its_priority() {
    let world = World::start(4, 2).await;
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "high"}, "value": 1000});
    world.create("/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
    let graces = Graces { node_affinity: LONG, pod_affinity: LONG, pod_anti_affinity: LONG };
    let enforcer = world.enforce(EnforcerOptions { graces, ..hasty() }).await;
    let quiet = with_term(pod("quiet", "quiet"), "podAntiAffinity", "loud", ZONE);
    world.run(with(quiet, "nodeName", json!("node-1"))).await;
    world.run(with(pod("other", "quiet"), "nodeName", json!("node-2"))).await;
    enforcer.until("aware of both", |s| s.n_pods == 2).await;
    // Another scheduler places it into the same zone. Nodes see only themselves.
    let loud = with(pod("loud", "loud"), "priorityClassName", json!("high"));
    world.create(PODS, with(loud, "nodeName", json!("node-3"))).await;
    enforcer.until("done with the first", |s| s.n_evicted == 1 && s.n_violated == 0).await;
    world.until_pod_gone("loud").await;
    // By its own rule it has no feasible node at all.
    let nowhere = with_term(pod("nowhere", "calm"), "podAntiAffinity", "quiet", ZONE);
    world.create(PODS, with(nowhere, "nodeName", json!("node-3"))).await;
    enforcer.until("done with the second", |s| s.n_evicted == 2 && s.n_violated == 0).await;
    world.until_pod_gone("nowhere").await;
    assert_eq!((world.journal.n_ended("quiet"), world.journal.n_ended("other")), (0, 0));
    // What breaks later has its grace period.
    world.label(&format!("{PODS}/other"), "app", json!("calm")).await;
    let late = with_term(pod("late", "calm"), "podAntiAffinity", "noisy", ZONE);
    world.run(with(late, "nodeName", json!("node-4"))).await;
    enforcer.until("aware of it", |s| s.n_pods == 3).await;
    world.label(&format!("{PODS}/other"), "app", json!("noisy")).await;
    enforcer.until("aware of the violation", |s| s.n_violated == 1).await;
    assert_eq!(enforcer.shows().n_due, 0);
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn changed_namespace_labels_break_rules_about_its_pods() {
    let world = World::start(4, 2).await;
    for (name, team) in [("one", "a"), ("two", "a")] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}});
        world.create("/api/v1/namespaces", namespace).await;
    }
    let enforcer = world.enforce(hasty()).await;
    let db = |namespace: &str, zone: &str| {
        let mut pod = with(pod("db", "db"), "nodeSelector", json!({ZONE: zone}));
        pod["metadata"]["namespace"] = json!(namespace);
        pod
    };
    world.run(db("one", "zone-1")).await;
    let mut near = with_term(pod("near", "web"), "podAffinity", "db", ZONE);
    let term =
        &mut near["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingRequiredDuringExecution"];
    term[0]["namespaceSelector"] = json!({"matchLabels": {"team": "a"}});
    world.run(near).await;
    world.run(db("two", "zone-2")).await;
    enforcer.until("aware of all", |s| s.n_pods == 3).await;
    world.label("/api/v1/namespaces/one", "team", json!("b")).await;
    world.until_pod_gone("near").await;
    enforcer.until("done", |s| s.n_evicted == 1 && s.n_violated == 0).await;
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn violations_at_startup_get_their_grace_period() {
    let world = World::start(2, 1).await;
    world.label_node("node-1", "disk", json!("ssd")).await;
    world.run(on_nodes_with(pod("web", "web"), "disk", "ssd")).await;
    world.label_node("node-2", "disk", json!("ssd")).await;
    world.label_node("node-1", "disk", Value::Null).await;
    let graces = Graces { node_affinity: LONG, ..hasty().graces };
    let patient = world.enforce(EnforcerOptions { graces, ..hasty() }).await;
    patient.until("aware of it", |s| s.n_violated == 1).await;
    assert_eq!((patient.shows().n_due, world.journal.n_ended("web")), (0, 0));
    patient.stopped().await;
    let graces = Graces { node_affinity: Duration::from_millis(200), ..hasty().graces };
    let enforcer = world.enforce(EnforcerOptions { graces, ..hasty() }).await;
    world.until_pod_gone("web").await;
    enforcer.stopped().await;
}
