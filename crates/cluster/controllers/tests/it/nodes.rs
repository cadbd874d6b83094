//! Unreachable nodes, cordons, and evicted pods.

use std::time::Duration;

use serde_json::{Value, json};

use super::world::*;

fn has_taint(node: &Value, key: &str, effect: &str) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints
        .into_iter()
        .flatten()
        .any(|t| t["key"] == format!("node.kubernetes.io/{key}") && t["effect"] == effect)
}

#[tokio::test(start_paused = true)]
async fn pods_are_evicted_from_an_unreachable_node_when_their_toleration_expires() {
    let mut options = options();
    options.node_monitor_grace_period = Duration::from_secs(4);
    let world = World::with(3, options).await;
    let node_ready = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
    };
    for node in ["n0", "n1", "n2"] {
        world.until("ready", &format!("/api/v1/nodes/{node}"), node_ready).await;
    }
    let tolerate = |seconds: i64| {
        json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": seconds}])
    };
    let mut quick = template("quick", "run");
    quick["spec"]["tolerations"] = tolerate(0);
    let rs = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "quick"}, "spec": {"replicas": 6,
        "selector": {"matchLabels": {"app": "quick"}}, "template": quick}});
    world.create("/apis/apps/v1/namespaces/default/replicasets", &rs).await;
    let mut patient = template("patient", "run");
    patient["metadata"]["name"] = "patient".into();
    patient["spec"]["tolerations"] = tolerate(3600);
    patient["spec"]["nodeName"] = "n1".into();
    world.create(PODS, &patient).await;
    let of = |pods: &[Value], app: &str| -> Vec<Value> {
        pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == app).cloned().collect()
    };
    let pods = world
        .until_listed("ready", PODS, |pods| of(pods, "quick").len() == 6 && pods.iter().all(is_ready))
        .await;
    let evicted: Vec<_> =
        of(&pods, "quick").into_iter().filter(|pod| pod["spec"]["nodeName"] == "n1").collect();
    assert!(!evicted.is_empty(), "the stand-in spreads pods");

    world.set_dead("n1", true);
    let silent =
        world.until("unreachable", "/api/v1/nodes/n1", |n| has_taint(n, "unreachable", "NoExecute")).await;
    assert!(has_taint(&silent, "unreachable", "NoSchedule"));
    let ready =
        silent["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("Unknown"), &json!("NodeStatusUnknown")));
    let told = world.until("told to leave", &format!("{PODS}/{}", name(&evicted[0])), is_deleting).await;
    let target =
        told["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "DisruptionTarget");
    assert_eq!(target.unwrap()["reason"], "DeletionByTaintManager");
    world
        .until_listed("replaced elsewhere", PODS, |pods| {
            let quick = of(pods, "quick");
            let elsewhere =
                |pod: &&Value| pod["spec"]["nodeName"] != "n1" && is_ready(pod) && !is_deleting(pod);
            quick.iter().filter(elsewhere).count() == 6
        })
        .await;
    let patient = world.until("not ready", &format!("{PODS}/patient"), |pod| !is_ready(pod)).await;
    assert!(!is_deleting(&patient), "it tolerates an hour of it");

    world.set_dead("n1", false);
    world
        .until("well again", "/api/v1/nodes/n1", |node| {
            node_ready(node) && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
        })
        .await;
    world.end().await;
}

/// In real time: tolerations are counted by the wall clock.
#[tokio::test]
async fn cordon_adds_a_taint_and_no_execute_evicts_at_once() {
    let world = World::new(2).await;
    world.patch("/api/v1/nodes/n0", json!({"spec": {"unschedulable": true}})).await;
    world.until("tainted", "/api/v1/nodes/n0", |node| has_taint(node, "unschedulable", "NoSchedule")).await;
    world.patch("/api/v1/nodes/n0", json!({"spec": {"unschedulable": null}})).await;
    world.until("free", "/api/v1/nodes/n0", |node| !has_taint(node, "unschedulable", "NoSchedule")).await;

    let mut pod = template("a", "run");
    pod["metadata"]["name"] = "a".into();
    pod["spec"]["nodeName"] = "n0".into();
    world.create(PODS, &pod).await;
    world.until("ready", &format!("{PODS}/a"), is_ready).await;
    // A toleration counts from the moment the taint is seen, also if the taint does not say when it was added.
    for (name, seconds) in [("brief", 1), ("patient", 3600)] {
        pod["metadata"]["name"] = name.into();
        pod["spec"]["tolerations"] =
            json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]);
        world.create(PODS, &pod).await;
        world.until("ready", &format!("{PODS}/{name}"), is_ready).await;
    }
    world.patch("/api/v1/nodes/n0", json!({"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}})).await;
    world.until_gone(&format!("{PODS}/a")).await;
    world.until_gone(&format!("{PODS}/brief")).await;
    let patient = world.until("there", &format!("{PODS}/patient"), is_ready).await;
    assert!(!is_deleting(&patient), "it tolerates an hour of it");
    world
        .until_listed("an event", "/api/v1/namespaces/default/events", |events| {
            events.iter().any(|event| event["reason"] == "TaintManagerEviction")
        })
        .await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn pods_were_left_on_a_node_that_is_out_of_service() {
    let mut options = options();
    options.node_monitor_grace_period = Duration::from_secs(4);
    let world = World::with(3, options).await;
    let mut pod = template("db", "run");
    pod["spec"]["tolerations"] = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists",
        "effect": "NoExecute", "tolerationSeconds": 0}]);
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {"replicas": 1,
        "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": pod}});
    world.create("/apis/apps/v1/namespaces/default/statefulsets", &set).await;
    let path = format!("{PODS}/db-0");
    let pod = world.until("ready", &path, is_ready).await;
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    world.set_dead(&node, true);
    world.until("told to leave", &path, is_deleting).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.until("still there", &path, |now| now["metadata"]["uid"] == pod["metadata"]["uid"]).await;
    let mut taints = world.get(&format!("/api/v1/nodes/{node}")).await["spec"]["taints"].clone();
    let taint =
        json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"});
    taints.as_array_mut().unwrap().push(taint);
    world.patch(&format!("/api/v1/nodes/{node}"), json!({"spec": {"taints": taints}})).await;
    world.until("elsewhere", &path, |pod| is_ready(pod) && pod["spec"]["nodeName"] != node.as_str()).await;
    world.end().await;
}
