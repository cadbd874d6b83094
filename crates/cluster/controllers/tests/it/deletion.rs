//! Owners, namespaces and the deletion of their dependents.

use serde_json::{Value, json};

use super::world::*;

const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

async fn with_pods(world: &World) -> String {
    let rs = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs"}, "spec": {"replicas": 3,
        "selector": {"matchLabels": {"app": "rs"}}, "template": template("rs", "run")}});
    world.create(REPLICA_SETS, &rs).await;
    world.until_listed("ready", PODS, |pods| pods.len() == 3 && pods.iter().all(is_ready)).await;
    format!("{REPLICA_SETS}/rs")
}

#[tokio::test(start_paused = true)]
async fn background_foreground_and_orphan_deletion() {
    let world = World::new(2).await;
    let rs = with_pods(&world).await;
    world.delete_with(&rs, json!({"propagationPolicy": "Background"})).await;
    assert_eq!(world.find(&rs).await, None);
    world.until_listed("collected", PODS, |pods| pods.is_empty()).await;

    let rs = with_pods(&world).await;
    world.hold_pods(true);
    world.delete_with(&rs, json!({"propagationPolicy": "Foreground"})).await;
    world.until_listed("told to go", PODS, |pods| pods.iter().all(is_deleting)).await;
    let waiting = world.get(&rs).await;
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    world.hold_pods(false);
    world.until_gone(&rs).await;
    assert!(world.list(PODS).await.is_empty());

    let rs = with_pods(&world).await;
    world.delete_with(&rs, json!({"propagationPolicy": "Orphan"})).await;
    world.until_gone(&rs).await;
    let pods = world.list(PODS).await;
    let is_free = |pod: &Value| pod["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty);
    assert!(pods.len() == 3 && pods.iter().all(|pod| is_free(pod) && !is_deleting(pod)), "{pods:?}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_owner_is_read_before_dependents_are_deleted() {
    let world = World::new(1).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str, owners: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}});
    let owner = world.create(maps, &map("owner", json!([]))).await;
    let reference = |kind: &str, name: &str, uid: Value| json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid});
    let real = reference("ConfigMap", "owner", owner["metadata"]["uid"].clone());
    let absent = reference("ConfigMap", "owner", json!("00000000-0000-0000-0000-000000000000"));
    let unknown = json!({"apiVersion": "x.io/v1", "kind": "Thing", "name": "t", "uid": "1"});
    let node = world.get("/api/v1/nodes/n0").await;
    let on_node = reference("Node", "n0", node["metadata"]["uid"].clone());
    world.create(maps, &map("of-unknown", json!([unknown]))).await;
    world.create(maps, &map("of-node", json!([on_node]))).await;
    world.create(maps, &map("of-both", json!([absent, real]))).await;
    world.create(maps, &map("of-absent", json!([absent]))).await;

    world.until_gone(&format!("{maps}/of-absent")).await;
    let both = world
        .until("one owner left", &format!("{maps}/of-both"), |map| {
            map["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.len() == 1)
        })
        .await;
    assert_eq!(both["metadata"]["ownerReferences"][0]["uid"], owner["metadata"]["uid"]);
    world.delete(&format!("{maps}/owner")).await;
    world.until_gone(&format!("{maps}/of-both")).await;
    world.delete("/api/v1/nodes/n0").await;
    world.until_gone(&format!("{maps}/of-node")).await;
    assert!(world.find(&format!("{maps}/of-unknown")).await.is_some());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn namespace_deletion_deletes_all_its_objects() {
    let world = World::new(2).await;
    world
        .create(
            "/api/v1/namespaces",
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}),
        )
        .await;
    world.until("its service account", "/api/v1/namespaces/team/serviceaccounts/default", |_| true).await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 3,
        "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "run")}});
    world.create("/apis/apps/v1/namespaces/team/deployments", &deployment).await;
    let definition = json!({"metadata": {"name": "gadgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    world.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "gadget"}});
    world.create("/apis/example.com/v1/namespaces/team/gadgets", &gadget).await;
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["x.io/y"]}});
    world.create("/api/v1/namespaces/team/configmaps", &held).await;
    let pods = "/api/v1/namespaces/team/pods";
    world.until_listed("ready", pods, |pods| pods.len() == 3 && pods.iter().all(is_ready)).await;

    world.delete("/api/v1/namespaces/team").await;
    world.until_listed("empty", pods, |pods| pods.is_empty()).await;
    let told = world
        .until("said what holds it", "/api/v1/namespaces/team", |namespace| {
            let conditions = namespace["status"]["conditions"].as_array();
            conditions
                .into_iter()
                .flatten()
                .any(|c| c["type"] == "NamespaceFinalizersRemaining" && c["status"] == "True")
        })
        .await;
    assert_eq!(told["status"]["phase"], "Terminating");
    world.patch("/api/v1/namespaces/team/configmaps/held", json!({"metadata": {"finalizers": null}})).await;
    world.until_gone("/api/v1/namespaces/team").await;
    for path in [
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/replicasets",
        "/apis/example.com/v1/gadgets",
        "/api/v1/configmaps",
        "/api/v1/events",
    ] {
        let left = world.list(path).await;
        assert!(left.iter().all(|object| object["metadata"]["namespace"] != "team"), "{path}: {left:?}");
    }
    world.end().await;
}
