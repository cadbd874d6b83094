//! StatefulSets and DaemonSets.

use serde_json::{Value, json};

use super::world::*;

const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";

fn image_of(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default()
}

fn set_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

#[tokio::test(start_paused = true)]
async fn stateful_pods_are_created_updated_and_deleted_in_order() {
    let world = World::new(2).await;
    let db = format!("{STATEFUL_SETS}/db");
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
        "replicas": 3, "serviceName": "dbs", "selector": {"matchLabels": {"app": "db"}}, "template": template("db", "one"),
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}],
    }});
    world.create(STATEFUL_SETS, &set).await;
    let made = world.until("ready", &db, |db| db["status"]["readyReplicas"] == 3).await;
    let pods = world.list(PODS).await;
    assert_eq!(names(&pods), ["db-0", "db-1", "db-2"]);
    let claims = world.list("/api/v1/namespaces/default/persistentvolumeclaims").await;
    assert_eq!(names(&claims), ["data-db-0", "data-db-1", "data-db-2"]);
    // Each pod was created after the previous one was ready.
    let version = |pod: &Value| pod["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
    assert!(pods.windows(2).all(|pair| version(&pair[0]) <= version(&pair[1])));
    let pod = &pods[2];
    assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "2");
    assert_eq!(
        (pod["spec"]["hostname"].as_str(), pod["spec"]["subdomain"].as_str()),
        (Some("db-2"), Some("dbs"))
    );
    assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], made["status"]["updateRevision"]);

    // A partition: only the highest ordinal is updated.
    world.patch(&db, json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}})).await;
    world.patch(&db, set_image("two")).await;
    world
        .until("the last is updated", &db, |db| {
            db["status"]["updatedReplicas"] == 1 && db["status"]["readyReplicas"] == 3
        })
        .await;
    let images: Vec<_> = world.list(PODS).await.iter().map(|pod| image_of(pod).to_owned()).collect();
    assert_eq!(images, ["one", "one", "two"]);
    world.delete(&format!("{PODS}/db-0")).await;
    let uid = pods[0]["metadata"]["uid"].clone();
    let again = world
        .until("made again", &format!("{PODS}/db-0"), |pod| pod["metadata"]["uid"] != uid && is_ready(pod))
        .await;
    assert_eq!(image_of(&again), "one", "below the partition nothing changes");

    world.patch(&db, json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})).await;
    let done = world
        .until("updated", &db, |db| db["status"]["currentRevision"] == db["status"]["updateRevision"])
        .await;
    assert_eq!(done["status"]["updatedReplicas"], 3);
    let revisions = world.list(REVISIONS).await;
    let mut numbers: Vec<_> =
        revisions.iter().map(|revision| revision["revision"].as_i64().unwrap()).collect();
    numbers.sort();
    assert_eq!(numbers, [1, 2]);

    // The same as `kubectl rollout undo`: the old revision's data is the patch.
    let old = revisions.iter().find(|revision| revision["revision"] == 1).unwrap();
    world.patch_as(STRATEGIC, &db, old["data"].clone()).await.unwrap();
    world
        .until_listed("rolled back", PODS, |pods| {
            pods.len() == 3 && pods.iter().all(|pod| image_of(pod) == "one" && is_ready(pod))
        })
        .await;
    world
        .until_listed("the old revision is the newest", REVISIONS, |revisions| {
            revisions.len() == 2 && revisions.iter().any(|r| name(r) == name(old) && r["revision"] == 3)
        })
        .await;

    world.patch(&db, json!({"spec": {"replicas": 1}})).await;
    let left = world.until_listed("scaled down", PODS, |pods| pods.len() == 1).await;
    assert_eq!(name(&left[0]), "db-0");
    assert_eq!(world.list("/api/v1/namespaces/default/persistentvolumeclaims").await.len(), 3);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn daemon_pods_match_the_nodes() {
    let world = World::new(2).await;
    let agent = format!("{DAEMON_SETS}/agent");
    let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {
        "selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "one")}});
    world.create(DAEMON_SETS, &set).await;
    let on_nodes = |pods: &[Value]| -> Vec<String> {
        let ready = pods.iter().filter(|pod| is_ready(pod) && !is_deleting(pod));
        let mut nodes: Vec<_> =
            ready.filter_map(|pod| pod["spec"]["nodeName"].as_str()).map(str::to_owned).collect();
        nodes.sort();
        nodes
    };
    world.until_listed("on both nodes", PODS, |pods| on_nodes(pods) == ["n0", "n1"]).await;

    world.add_node("n2").await;
    let pods = world.until_listed("on the new node", PODS, |pods| on_nodes(pods) == ["n0", "n1", "n2"]).await;
    let tolerations = pods[0]["spec"]["tolerations"].as_array().unwrap();
    assert!(tolerations.iter().any(|t| t["key"] == "node.kubernetes.io/unschedulable"), "{tolerations:?}");
    world.until("counted", &agent, |agent| agent["status"]["numberAvailable"] == 3).await;

    // A cordoned node keeps its daemon pod; a node with an untolerated taint loses it.
    world.patch("/api/v1/nodes/n1", json!({"spec": {"unschedulable": true}})).await;
    let taint = json!({"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}});
    world.patch("/api/v1/nodes/n2", taint).await;
    world.until_listed("gone from the tainted node", PODS, |pods| on_nodes(pods) == ["n0", "n1"]).await;
    world
        .until("counted", &agent, |agent| {
            agent["status"]["desiredNumberScheduled"] == 2 && agent["status"]["currentNumberScheduled"] == 2
        })
        .await;

    world.patch(&agent, set_image("two")).await;
    world
        .until_listed("updated", PODS, |pods| {
            on_nodes(pods) == ["n0", "n1"] && pods.iter().all(|pod| image_of(pod) == "two")
        })
        .await;
    world.until("counted", &agent, |agent| agent["status"]["updatedNumberScheduled"] == 2).await;

    // A node is deleted: its pod is garbage-collected.
    world.delete("/api/v1/nodes/n0").await;
    world.until_listed("collected", PODS, |pods| pods.len() == 1).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_gets_a_name_that_another_pod_had() {
    let world = World::new(1).await;
    let foreign = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}});
    world.create(PODS, &foreign).await;
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
        "replicas": 1, "serviceName": "dbs", "selector": {"matchLabels": {"app": "db"}}, "template": template("db", "one")}});
    world.create(STATEFUL_SETS, &set).await;
    let db = format!("{STATEFUL_SETS}/db");
    world.until("observed", &db, |db| db["status"]["observedGeneration"] == 1).await;
    world.delete(&format!("{PODS}/db-0")).await;
    world.until("ready", &db, |db| db["status"]["readyReplicas"] == 1).await;
}
