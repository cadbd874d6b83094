//! Disruption budgets, and many pods.

use serde_json::{Value, json};

use super::world::*;

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_knows_how_many_may_go() {
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
    world.merge(&format!("{DEPLOYMENTS}/web"), json!({"spec": {"replicas": 6}})).await;
    for (name, expected) in [("number", [6, 3, 6, 3]), ("share", [6, 4, 6, 2]), ("max", [6, 5, 6, 1])] {
        world.until(name, &format!("{BUDGETS}/{name}"), |budget| counts(budget) == expected).await;
    }
    let pods = world.list(PODS).await;
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    world.merge(&format!("{PODS}/{}/status", name(&pods[0])), not_ready).await;
    let none = world.until("max", &format!("{BUDGETS}/max"), |budget| counts(budget) == [6, 5, 5, 0]).await;
    assert_eq!(none["status"]["conditions"][0]["reason"], "InsufficientPods");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_pod_is_made_twice_while_controllers_come_and_go() {
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
