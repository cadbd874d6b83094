//! Rollouts.

use serde_json::{Value, json};

use super::world::*;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";

fn deployment(image: &str, spec: Value) -> Value {
    let mut deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", image)}});
    json_patch::merge(&mut deployment["spec"], &spec);
    deployment
}

/// The check of `kubectl rollout status`.
fn is_rolled_out(deployment: &Value) -> bool {
    let (spec, status) = (&deployment["spec"], &deployment["status"]);
    status["observedGeneration"].as_i64() >= deployment["metadata"]["generation"].as_i64()
        && ["replicas", "updatedReplicas", "availableReplicas"]
            .iter()
            .all(|field| status[field] == spec["replicas"])
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|c| c["type"] == kind).unwrap_or(&Value::Null)
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_keeps_its_limits_and_is_undone() {
    let world = World::new(3).await;
    let strategy = json!({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}});
    world.create(DEPLOYMENTS, &deployment("one", strategy)).await;
    let first = world.until("rolled out", WEB, is_rolled_out).await;
    assert_eq!(first["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(condition(&first, "Available")["status"], "True");
    let first = world
        .until("complete", WEB, |d| condition(d, "Progressing")["reason"] == "NewReplicaSetAvailable")
        .await;
    assert_eq!(first["status"]["readyReplicas"], 4);
    let sets = world.list(REPLICA_SETS).await;
    let old_name = name(&sets[0]);
    let hash = sets[0]["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(old_name, format!("web-{hash}"));

    world.watch_extremes("web", 4);
    world.patch(WEB, image("two")).await;
    let second = world.until("rolled out", WEB, is_rolled_out).await;
    assert_eq!(second["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    let (most, fewest_ready) = world.extremes("web");
    assert!(most <= 5, "at most one more than wanted: {most}");
    assert!(fewest_ready >= 3, "at most one less than wanted: {fewest_ready}");
    let pods = world.list(PODS).await;
    assert!(
        pods.iter().filter(|pod| !is_deleting(pod)).all(|pod| pod["spec"]["containers"][0]["image"] == "two")
    );
    let sets = world.list(REPLICA_SETS).await;
    assert_eq!(sets.len(), 2);

    // As `kubectl rollout undo` does: the template of the old revision, without the hash.
    let old = sets.iter().find(|set| name(set) == old_name).unwrap();
    assert_eq!(old["spec"]["replicas"], 0);
    let mut template = old["spec"]["template"].clone();
    template["metadata"]["labels"].as_object_mut().unwrap().remove("pod-template-hash");
    let patch = json!([{"op": "replace", "path": "/spec/template", "value": template}]);
    world.patch_as("application/json-patch+json", WEB, patch).await.unwrap();
    let third = world.until("rolled back", WEB, is_rolled_out).await;
    assert_eq!(third["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    let sets = world.list(REPLICA_SETS).await;
    assert_eq!(sets.len(), 2, "the old one is taken again");
    let old = sets.iter().find(|set| name(set) == old_name).unwrap();
    assert_eq!(old["spec"]["replicas"], 4);
    assert_eq!(old["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    assert_eq!(old["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");

    let events = world
        .until_listed("events", "/api/v1/namespaces/default/events", |events| {
            events
                .iter()
                .any(|e| e["reason"] == "ScalingReplicaSet" && e["involvedObject"]["kind"] == "Deployment")
                && events.iter().any(|e| e["reason"] == "SuccessfulCreate")
        })
        .await;
    let scaled = format!("Scaled up replica set {old_name} from 0 to 4");
    assert!(events.iter().any(|event| event["message"] == *scaled), "{events:?}");
    world.end().await;
}

/// In real time: the deadline of a rollout is counted by the wall clock.
#[tokio::test]
async fn a_stuck_rollout_is_reported_scales_in_proportion_and_is_cleaned_up() {
    let world = World::new(2).await;
    let spec = json!({"progressDeadlineSeconds": 1, "revisionHistoryLimit": 0,
        "strategy": {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}});
    world.create(DEPLOYMENTS, &deployment("one", spec)).await;
    world.until("rolled out", WEB, is_rolled_out).await;
    world.patch(WEB, image("stuck")).await;
    let stuck = world
        .until("out of time", WEB, |d| {
            let numbers = (&d["status"]["readyReplicas"], &d["status"]["updatedReplicas"]);
            condition(d, "Progressing")["status"] == "False" && numbers == (&json!(4), &json!(2))
        })
        .await;
    assert_eq!(condition(&stuck, "Progressing")["reason"], "ProgressDeadlineExceeded");

    // Twice the size: each ReplicaSet gets its proportion. 4 and 2 of 6 become 7 and 3 of 10.
    world.patch(WEB, json!({"spec": {"replicas": 8}})).await;
    world
        .until_listed("scaled in proportion", REPLICA_SETS, |sets| {
            let mut sizes: Vec<_> = sets.iter().filter_map(|set| set["spec"]["replicas"].as_i64()).collect();
            sizes.sort();
            sizes == [3, 7]
        })
        .await;

    world.patch(WEB, image("three")).await;
    world.until("rolled out", WEB, is_rolled_out).await;
    world.until_listed("no history", REPLICA_SETS, |sets| sets.len() == 1).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_rollout_waits_and_recreate_never_mixes_templates() {
    let world = World::new(2).await;
    let spec = json!({"strategy": {"type": "Recreate", "rollingUpdate": null}, "paused": true});
    world.create(DEPLOYMENTS, &deployment("one", spec)).await;
    world
        .until("said to be paused", WEB, |d| condition(d, "Progressing")["reason"] == "DeploymentPaused")
        .await;
    assert_eq!(world.list(REPLICA_SETS).await.len(), 0);
    world.patch(WEB, json!({"spec": {"paused": false}})).await;
    world.until("rolled out", WEB, is_rolled_out).await;

    world.hold_pods(true);
    world.patch(WEB, image("two")).await;
    world.until_listed("all told to go", PODS, |pods| pods.len() == 4 && pods.iter().all(is_deleting)).await;
    world.until("unavailable", WEB, |d| condition(d, "Available")["status"] == "False").await;
    assert_eq!(world.list(REPLICA_SETS).await.len(), 1, "old pods are still there");
    world.hold_pods(false);
    world.until("rolled out", WEB, is_rolled_out).await;
    world.end().await;
}
