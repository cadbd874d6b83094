//! Pods that are bound against the rules fail on their node.

use std::time::Duration;

use berth_kubelet::KubeletOptions;
use serde_json::{Value, json};

use crate::world::{World, node, quick, until};

/// The pod's reason and message once it has failed.
async fn refusal(world: &World, name: &str) -> (String, String) {
    let failed = world.pod_in_phase(name, "Failed").await;
    let text = |field: &str| failed["status"][field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

fn asks(cpu: &str) -> Value {
    let resources = json!({ "requests": { "cpu": cpu } });
    json!({ "containers": [{ "name": "c", "image": "i", "resources": resources }] })
}

#[tokio::test]
async fn a_node_selector_and_node_affinity_are_checked() {
    let world = World::with_nodes(quick(2)).await;
    world.bind("selector", "node-1", json!({}), json!({ "nodeSelector": { "disk": "ssd" } })).await;
    let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [
            { "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-2"] },
        ]}],
    }}});
    world.bind("affinity", "node-1", json!({}), json!({ "affinity": affinity })).await;
    world.bind("fits", "node-2", json!({}), json!({ "affinity": affinity })).await;
    for name in ["selector", "affinity"] {
        let (reason, message) = refusal(&world, name).await;
        assert_eq!(reason, "NodeAffinity");
        assert!(message.starts_with("Pod was rejected: "), "{message}");
    }
    world.pod_in_phase("fits", "Running").await;
    assert_eq!(world.control().snapshot().pods_ended, 2);
}

#[tokio::test]
async fn resources_are_given_in_the_order_of_arrival() {
    let world = World::with_nodes(quick(1)).await;
    world.bind("first", "node-1", json!({}), asks("3")).await;
    world.bind("too-much", "node-1", json!({}), asks("2")).await;
    world.bind("fits", "node-1", json!({}), asks("1")).await;
    let (reason, message) = refusal(&world, "too-much").await;
    assert_eq!(reason, "OutOfcpu");
    assert!(message.contains("cpu"), "{message}");
    world.pod_in_phase("first", "Running").await;
    world.pod_in_phase("fits", "Running").await;
    // What goes makes room.
    world.delete_pod("first").await;
    world.pod_gone("first").await;
    world.bind("next", "node-1", json!({}), asks("3")).await;
    world.pod_in_phase("next", "Running").await;
}

#[tokio::test]
async fn what_has_ended_takes_no_room() {
    let world = World::with_nodes(quick(1)).await;
    let mut job = asks("4");
    job["restartPolicy"] = json!("Never");
    world.bind("job", "node-1", json!({}), job).await;
    world.pod_in_phase("job", "Succeeded").await;
    world.bind("service", "node-1", json!({}), asks("4")).await;
    world.pod_in_phase("service", "Running").await;
}

#[tokio::test]
async fn host_ports_are_checked() {
    let world = World::with_nodes(quick(1)).await;
    let spec = json!({ "containers": [
        { "name": "c", "image": "i", "ports": [{ "containerPort": 80, "hostPort": 8080 }] },
    ]});
    world.bind("first", "node-1", json!({}), spec.clone()).await;
    world.pod_in_phase("first", "Running").await;
    world.bind("second", "node-1", json!({}), spec).await;
    assert_eq!(refusal(&world, "second").await.0, "NodePorts");
}

#[tokio::test]
async fn taints_that_execute_are_checked_and_others_are_not() {
    let world = World::with_nodes(quick(1)).await;
    let taints = |effect: &str| json!({ "spec": { "taints": [{ "key": "k", "effect": effect }] } });
    world.patch(&node("node-1"), taints("NoSchedule")).await;
    world.patch(&node("node-1"), json!({ "spec": { "unschedulable": true } })).await;
    world.bind("daemon", "node-1", json!({}), json!({})).await;
    world.pod_in_phase("daemon", "Running").await;
    world.patch(&node("node-1"), taints("NoExecute")).await;
    // The first look may come before the taint is known here; the second one asks.
    let tolerant = json!({ "tolerations": [{ "key": "k", "operator": "Exists", "effect": "NoExecute" }] });
    world.bind("tolerant", "node-1", json!({}), tolerant).await;
    world.pod_in_phase("tolerant", "Running").await;
    world.bind("intolerant", "node-1", json!({}), json!({})).await;
    assert_eq!(refusal(&world, "intolerant").await.0, "TaintToleration");
}

#[tokio::test]
async fn rules_that_hold_during_execution_are_checked_where_their_topology_is_the_node() {
    let world = World::with_nodes(quick(2)).await;
    let term = |topology: &str| json!([{ "labelSelector": { "matchLabels": { "app": "noisy" } }, "topologyKey": topology }]);
    let rule = |kind: &str, topology: &str| json!({ "affinity": { kind: { "requiredDuringSchedulingRequiredDuringExecution": term(topology) } } });
    let noisy = json!({ "labels": { "app": "noisy" } });
    world.bind("noisy", "node-1", noisy.clone(), json!({})).await;
    world.pod_in_phase("noisy", "Running").await;

    let hostname = "kubernetes.io/hostname";
    world.bind("quiet", "node-1", json!({}), rule("podAntiAffinity", hostname)).await;
    let (reason, message) = refusal(&world, "quiet").await;
    assert_eq!(reason, "PodAntiAffinity", "{message}");
    world.bind("lonely", "node-2", json!({}), rule("podAffinity", hostname)).await;
    assert_eq!(refusal(&world, "lonely").await.0, "PodAffinity");
    world.bind("near", "node-1", json!({}), rule("podAffinity", hostname)).await;
    world.pod_in_phase("near", "Running").await;
    // Symmetric: who is kept away from does not come either.
    world.bind("guarded", "node-2", json!({}), rule("podAntiAffinity", hostname)).await;
    world.pod_in_phase("guarded", "Running").await;
    world.bind("noisy-2", "node-2", noisy, json!({})).await;
    assert_eq!(refusal(&world, "noisy-2").await.0, "PodAntiAffinity");
    // A zone is more than a node sees.
    world.bind("zonal", "node-1", json!({}), rule("podAntiAffinity", "topology.kubernetes.io/zone")).await;
    world.pod_in_phase("zonal", "Running").await;
}

/// The second look never comes here: what takes the refusal back is what arrives meanwhile.
fn patient() -> KubeletOptions {
    KubeletOptions { second_look_after: Duration::from_secs(3600), ..quick(1) }
}

#[tokio::test]
async fn pods_bound_together_may_arrive_in_any_order() {
    let world = World::with_nodes(patient()).await;
    let needs = json!({ "affinity": { "podAffinity": { "requiredDuringSchedulingRequiredDuringExecution": [
        { "labelSelector": { "matchLabels": { "app": "base" } }, "topologyKey": "kubernetes.io/hostname" },
    ]}}});
    world.bind("needs", "node-1", json!({}), needs).await;
    world.bind("base", "node-1", json!({ "labels": { "app": "base" } }), json!({})).await;
    world.pod_in_phase("needs", "Running").await;
}

#[tokio::test]
async fn a_pod_may_arrive_before_its_node_s_label_and_before_its_room() {
    let world = World::with_nodes(patient()).await;
    world.bind("labelled", "node-1", json!({}), json!({ "nodeSelector": { "disk": "ssd" } })).await;
    world.patch(&node("node-1"), json!({ "metadata": { "labels": { "disk": "ssd" } } })).await;
    world.pod_in_phase("labelled", "Running").await;
    world.bind("old", "node-1", json!({}), asks("4")).await;
    world.pod_in_phase("old", "Running").await;
    world.bind("new", "node-1", json!({}), asks("4")).await;
    world.delete_pod("old").await;
    world.pod_in_phase("new", "Running").await;
}

#[tokio::test]
async fn a_doubtful_pod_that_is_deleted_goes() {
    let world = World::with_nodes(patient()).await;
    world.bind("p", "node-1", json!({}), json!({ "nodeSelector": { "disk": "ssd" } })).await;
    until("the pod has arrived", async || {
        let snapshot = world.control().snapshot();
        (snapshot.pods_pending == 1).then_some(()).ok_or(format!("{snapshot:?}"))
    })
    .await;
    world.delete_pod("p").await;
    world.pod_gone("p").await;
}
