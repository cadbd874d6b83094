//! ReplicaSets and ReplicationControllers.

use serde_json::{Value, json};

use super::world::*;

const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

fn replica_set(replicas: i32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "rs"}}, "template": template("rs", "run")}})
}

fn all_ready(n: usize) -> impl Fn(&[Value]) -> bool {
    move |pods| pods.len() == n && pods.iter().all(is_ready)
}

#[tokio::test(start_paused = true)]
async fn the_least_useful_pods_are_deleted_first() {
    let world = World::new(2).await;
    let rs = format!("{REPLICA_SETS}/rs");
    world.create(REPLICA_SETS, &replica_set(5)).await;
    let pods = world.until_listed("ready", PODS, all_ready(5)).await;
    world.until("counted", &rs, |rs| rs["status"]["availableReplicas"] == 5).await;
    let [cheap, unready, others @ ..] = &pods[..] else { panic!("five pods") };
    let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-7"}}});
    world.patch(&format!("{PODS}/{}", name(cheap)), cost).await;
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    world.patch(&format!("{PODS}/{}/status", name(unready)), not_ready).await;
    world.until("seen", &rs, |rs| rs["status"]["readyReplicas"] == 4).await;

    world.patch(&rs, json!({"spec": {"replicas": 4}})).await;
    let left = world.until_listed("one gone", PODS, |pods| pods.len() == 4).await;
    assert!(!names(&left).contains(&name(unready)), "not ready goes before all others");
    world.patch(&rs, json!({"spec": {"replicas": 3}})).await;
    let left = world.until_listed("two gone", PODS, |pods| pods.len() == 3).await;
    assert_eq!(names(&left), names(others), "the cheaper goes before equals");
    let status = world.until("counted", &rs, |rs| rs["status"]["replicas"] == 3).await;
    assert_eq!(status["status"]["observedGeneration"], status["metadata"]["generation"]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_adopted_released_and_replaced() {
    let world = World::new(2).await;
    let mut stray = template("rs", "run");
    stray["metadata"]["name"] = "stray".into();
    world.create(PODS, &stray).await;
    let made = world.create(REPLICA_SETS, &replica_set(3)).await;
    let pods = world.until_listed("ready", PODS, all_ready(3)).await;
    let owner = |pod: &Value| pod["metadata"]["ownerReferences"][0]["uid"].clone();
    assert!(pods.iter().all(|pod| owner(pod) == made["metadata"]["uid"]), "{pods:?}");
    assert!(names(&pods).contains(&"stray".to_owned()));

    world.patch(&format!("{PODS}/stray"), json!({"metadata": {"labels": {"app": "free"}}})).await;
    let pods = world.until_listed("released and replaced", PODS, all_ready(4)).await;
    let stray = world.until("released", &format!("{PODS}/stray"), |pod| owner(pod).is_null()).await;
    assert!(!is_deleting(&stray));

    let lost = pods.iter().find(|pod| name(pod) != "stray").unwrap();
    world.delete(&format!("{PODS}/{}", name(lost))).await;
    world
        .until_listed("replaced", PODS, |pods| all_ready(4)(pods) && !names(pods).contains(&name(lost)))
        .await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn replication_controllers_and_refused_templates() {
    let world = World::new(1).await;
    let rcs = "/api/v1/namespaces/default/replicationcontrollers";
    let rc = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"},
        "spec": {"replicas": 2, "selector": {"app": "rc"}, "template": template("rc", "run")}});
    world.create(rcs, &rc).await;
    world.until_listed("ready", PODS, all_ready(2)).await;
    world.until("counted", &format!("{rcs}/rc"), |rc| rc["status"]["readyReplicas"] == 2).await;

    // The server takes the template but not the pod: its priority class does not exist.
    let mut refused = replica_set(3);
    refused["spec"]["template"]["spec"]["priorityClassName"] = "nowhere".into();
    world.create(REPLICA_SETS, &refused).await;
    let told = world
        .until("said why", &format!("{REPLICA_SETS}/rs"), |rs| {
            rs["status"]["conditions"].as_array().is_some_and(|conditions| !conditions.is_empty())
        })
        .await;
    assert_eq!(told["status"]["conditions"][0]["type"], "ReplicaFailure");
    assert_eq!(told["status"]["conditions"][0]["reason"], "FailedCreate");
    world.end().await;
}
