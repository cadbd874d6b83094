//! Disruption budgets, and many pods.

use berth_apiserver::{ApiServer, ServerOptions};
use berth_client::connect;
use berth_faults::observe::{send, until};
use http::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::world::*;

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

#[tokio::test(start_paused = true)]
async fn a_budget_reports_its_allowed_disruptions() {
    let world = World::new(2).await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 4,
        "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "run")}});
    world.create(DEPLOYMENTS, &deployment).await;
    for (name, spec) in [
        ("number", json!({"minAvailable": 3})),
        ("share", json!({"minAvailable": "60%"})),
        ("max", json!({"maxUnavailable": 1})),
    ] {
        let mut budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": "web"}}}});
        json_patch::merge(&mut budget["spec"], &spec);
        world.create(BUDGETS, &budget).await;
    }
    let counts = |budget: &Value| -> Vec<i64> {
        let fields = ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"];
        fields.iter().map(|field| budget["status"][field].as_i64().unwrap_or(-1)).collect()
    };
    for (name, expected) in [("number", [4, 3, 4, 1]), ("share", [4, 3, 4, 1]), ("max", [4, 3, 4, 1])] {
        let budget =
            world.until(name, &format!("{BUDGETS}/{name}"), |budget| counts(budget) == expected).await;
        assert_eq!(budget["status"]["conditions"][0]["reason"], "SufficientPods");
        assert_eq!(budget["status"]["observedGeneration"], budget["metadata"]["generation"]);
    }
    world.patch(&format!("{DEPLOYMENTS}/web"), json!({"spec": {"replicas": 6}})).await;
    for (name, expected) in [("number", [6, 3, 6, 3]), ("share", [6, 4, 6, 2]), ("max", [6, 5, 6, 1])] {
        world.until(name, &format!("{BUDGETS}/{name}"), |budget| counts(budget) == expected).await;
    }
    let pods = world.list(PODS).await;
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    world.patch(&format!("{PODS}/{}/status", name(&pods[0])), not_ready).await;
    let none = world.until("max", &format!("{BUDGETS}/max"), |budget| counts(budget) == [6, 5, 5, 0]).await;
    assert_eq!(none["status"]["conditions"][0]["reason"], "InsufficientPods");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_created_twice_when_controllers_restart() {
    let world = World::new(3).await;
    for i in 0..5 {
        let app = format!("app{i}");
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app}, "spec": {"replicas": 20,
            "selector": {"matchLabels": {"app": app}}, "template": template(&app, "run")}});
        world.watch_extremes(&app, 0);
        world.create(DEPLOYMENTS, &deployment).await;
    }
    world.until_listed("all ready", PODS, |pods| pods.len() == 100 && pods.iter().all(is_ready)).await;
    for i in 0..5 {
        let app = format!("app{i}");
        assert_eq!(world.extremes(&app).0, 20, "never more than wanted");
        let path = format!("{DEPLOYMENTS}/{app}");
        world.until("counted", &path, |d| d["status"]["availableReplicas"] == 20).await;
    }
    world.end().await;
}

#[tokio::test]
async fn controllers_resume_after_a_server_outage() {
    let dir = std::env::temp_dir().join(format!("berth-controllers-{}", std::process::id()));
    let start = || async {
        let options = ServerOptions { data_dir: Some(dir.clone()), ..ServerOptions::default() };
        ApiServer::start(options).await.unwrap()
    };
    let server = start().await;
    let client = connect::client(server.admin_config()).unwrap();
    let stop = CancellationToken::new();
    let controllers = tokio::spawn(berth_controllers::run(client.clone(), options(), stop.clone()));
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 3,
        "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "run")}});
    send(&client, Method::POST, DEPLOYMENTS, &deployment).await.unwrap();
    let path = format!("{DEPLOYMENTS}/web");
    let until_replicas = async |client: &kube::Client, n: i64| {
        until(&format!("{n} replicas"), async || {
            let web = send(client, Method::GET, &path, Value::Null).await.unwrap();
            if web["status"]["replicas"] == n { Ok(()) } else { Err(web) }
        })
        .await;
    };
    until_replicas(&client, 3).await;
    server.shutdown().await;

    let server = start().await;
    let client = connect::client(server.admin_config()).unwrap();
    send(&client, Method::PATCH, &path, json!({"spec": {"replicas": 5}})).await.unwrap();
    until_replicas(&client, 5).await;
    let pods = send(&client, Method::GET, PODS, Value::Null).await.unwrap();
    assert_eq!(pods["items"].as_array().unwrap().len(), 5);
    stop.cancel();
    controllers.await.unwrap();
    server.shutdown().await;
    std::fs::remove_dir_all(&dir).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_budget_grants_one_eviction_at_a_time() {
    let world = World::new(2).await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 3,
        "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "run")}});
    world.create(DEPLOYMENTS, &deployment).await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    world.create(BUDGETS, &budget).await;
    let path = format!("{BUDGETS}/web");
    let allowed = |n: i64| move |budget: &Value| budget["status"]["disruptionsAllowed"] == n;
    world.until("one may go", &path, allowed(1)).await;
    let pods = world.list(PODS).await;
    let evict = |pod: &Value| {
        let eviction =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name(pod)}});
        let (world, path) = (&world, format!("{PODS}/{}/eviction", name(pod)));
        async move { world.send(Method::POST, &path, eviction).await.map_err(|error| error.code()).map(drop) }
    };
    world.hold_pods(true);
    assert_eq!(evict(&pods[0]).await, Ok(()));
    assert_eq!(evict(&pods[1]).await, Err(Some(429)));
    let spent = world.until("looked at", &path, |budget| budget["status"]["currentHealthy"] == 2).await;
    assert_eq!(spent["status"]["disruptionsAllowed"], 0, "the evicted pod is not gone, but counts as gone");
    world.hold_pods(false);
    let free = world.until("replaced", &path, allowed(1)).await;
    assert_eq!(free["status"]["disruptedPods"].as_object().map_or(0, serde_json::Map::len), 0);
    assert_eq!(evict(&pods[1]).await, Ok(()));
    world.end().await;
}
