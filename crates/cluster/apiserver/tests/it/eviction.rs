//! Eviction under a disruption budget.

use http::StatusCode;
use kube::Client;
use serde_json::{Value, json};

use crate::support::*;

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

pub async fn running(client: &Client, name: &str, ready: bool) {
    let mut pod = pod(name);
    pod["metadata"]["labels"] = json!({"app": "web"});
    post(client, PODS, &pod).await;
    bind(client, name, "n1").await;
    let ready = if ready { "True" } else { "False" };
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
    let (code, _) = merge(client, &format!("{PODS}/{name}/status"), &status).await;
    assert_eq!(code, StatusCode::OK);
}

pub async fn evict(client: &Client, name: &str) -> (StatusCode, Value) {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    post(client, &format!("{PODS}/{name}/eviction"), &eviction).await
}

pub async fn budget(client: &Client, name: &str, allowed: i32, desired: i32, current: i32) {
    let budget = json!({"metadata": {"name": name},
        "spec": {"minAvailable": desired, "selector": {"matchLabels": {"app": "web"}}}});
    let (code, created) = post(client, BUDGETS, &budget).await;
    assert_eq!(code, StatusCode::CREATED, "{created}");
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "desiredHealthy": desired,
        "currentHealthy": current, "expectedPods": 2}});
    merge(client, &format!("{BUDGETS}/{name}/status"), &status).await;
}

#[tokio::test]
async fn an_exhausted_budget_refuses_evictions() {
    let server = server().await;
    let client = admin(&server);
    for name in ["a", "b"] {
        running(&client, name, true).await;
    }
    budget(&client, "web", 1, 1, 2).await;
    let (code, done) = evict(&client, "a").await;
    assert_eq!((code, &done["status"]), (StatusCode::CREATED, &json!("Success")), "{done}");
    let (_, ending) = get(&client, &format!("{PODS}/a")).await;
    assert!(ending["metadata"]["deletionTimestamp"].is_string());
    let conditions = ending["status"]["conditions"].as_array().unwrap();
    let target = conditions.iter().find(|c| c["type"] == "DisruptionTarget").unwrap();
    assert_eq!((&target["status"], &target["reason"]), (&json!("True"), &json!("EvictionByEvictionAPI")));
    let (_, spent) = get(&client, &format!("{BUDGETS}/web")).await;
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    assert!(spent["status"]["disruptedPods"]["a"].is_string());
    let (code, refused) = evict(&client, "b").await;
    assert_eq!((code, &refused["reason"]), (StatusCode::TOO_MANY_REQUESTS, &json!("TooManyRequests")));
    assert_eq!(refused["message"], "Cannot evict pod as it would violate the pod's disruption budget.");
    let cause = &refused["details"]["causes"][0];
    assert_eq!(cause["reason"], "DisruptionBudget");
    assert_eq!(cause["message"], "The disruption budget web needs 1 healthy pods and has 2 currently");
    // A terminating pod needs no budget. A running pod with two budgets cannot be evicted.
    assert_eq!(evict(&client, "a").await.0, StatusCode::CREATED);
    budget(&client, "again", 1, 1, 2).await;
    let (code, two) = evict(&client, "b").await;
    assert_eq!((code, &two["reason"]), (StatusCode::INTERNAL_SERVER_ERROR, &json!("InternalError")));
}

#[tokio::test]
async fn an_unready_pod_does_not_count_while_the_budget_is_met() {
    let server = server().await;
    let client = admin(&server);
    running(&client, "sick", false).await;
    budget(&client, "web", 0, 1, 0).await;
    assert_eq!(evict(&client, "sick").await.0, StatusCode::TOO_MANY_REQUESTS);
    merge(&client, &format!("{BUDGETS}/web/status"), &json!({"status": {"currentHealthy": 1}})).await;
    assert_eq!(evict(&client, "sick").await.0, StatusCode::CREATED);
}

#[tokio::test]
async fn an_unscheduled_pod_is_deleted_at_once() {
    let server = server().await;
    let client = admin(&server);
    post(&client, PODS, &pod("a")).await;
    let dry = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"},
        "deleteOptions": {"dryRun": ["All"]}});
    assert_eq!(post(&client, &format!("{PODS}/a/eviction"), &dry).await.0, StatusCode::CREATED);
    assert_eq!(get(&client, &format!("{PODS}/a")).await.0, StatusCode::OK);
    assert_eq!(evict(&client, "a").await.0, StatusCode::CREATED);
    assert_eq!(evict(&client, "a").await.0, StatusCode::NOT_FOUND);
}
