//! Pods that are bound against the rules are rejected by their node.

use std::time::Duration;

use berth_kubelet::KubeletOptions;
use serde_json::{Value, json};

use crate::world::{World, node, quick, until};

/// The pod's reason and message once it has failed.
async fn rejection(world: &World, name: &str) -> (String, String) {
    let failed = world.pod_in_phase(name, "Failed").await;
    let text = |field: &str| failed["status"][field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

fn requests(cpu: &str) -> Value {
    let resources = json!({ "requests": { "cpu": cpu } });
    json!({ "containers": [{ "name": "c", "image": "i", "resources": resources }] })
}

#[tokio::test(start_paused = true)]
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
        let (reason, message) = rejection(&world, name).await;
        assert_eq!(reason, "NodeAffinity");
        assert!(message.starts_with("Pod was rejected: "), "{message}");
    }
    world.pod_in_phase("fits", "Running").await;
    assert_eq!(world.control().status().pods_ended, 2);
}

#[tokio::test(start_paused = true)]
async fn a_linux_node_rejects_windows_pods() {
    let world = World::with_nodes(quick(1)).await;
    world.bind("field", "node-1", json!({}), json!({ "os": { "name": "windows" } })).await;
    world.bind("label", "node-1", json!({ "labels": { "kubernetes.io/os": "windows" } }), json!({})).await;
    world.bind("fits", "node-1", json!({}), json!({ "os": { "name": "linux" } })).await;
    for (name, expected) in [("field", "PodOSNotSupported"), ("label", "PodOSSelectorNodeLabelDoesNotMatch")]
    {
        let (reason, message) = rejection(&world, name).await;
        assert_eq!(reason, expected);
        assert!(message.starts_with("Pod was rejected: Failed to admit pod as the "), "{message}");
    }
    world.pod_in_phase("fits", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn resources_are_assigned_in_order_of_arrival() {
    let world = World::with_nodes(quick(1)).await;
    world.bind("first", "node-1", json!({}), requests("3")).await;
    world.bind("too-much", "node-1", json!({}), requests("2")).await;
    world.bind("fits", "node-1", json!({}), requests("1")).await;
    let (reason, message) = rejection(&world, "too-much").await;
    assert_eq!(reason, "OutOfcpu");
    assert!(message.contains("cpu"), "{message}");
    world.pod_in_phase("first", "Running").await;
    world.pod_in_phase("fits", "Running").await;
    // A deleted pod releases its resources.
    world.delete_pod("first").await;
    world.until_pod_gone("first").await;
    world.bind("next", "node-1", json!({}), requests("3")).await;
    world.pod_in_phase("next", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn ended_pods_use_no_resources() {
    let world = World::with_nodes(quick(1)).await;
    let mut job = requests("4");
    job["restartPolicy"] = json!("Never");
    world.bind("job", "node-1", json!({}), job).await;
    world.pod_in_phase("job", "Succeeded").await;
    world.bind("service", "node-1", json!({}), requests("4")).await;
    world.pod_in_phase("service", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn host_ports_are_checked() {
    let world = World::with_nodes(quick(1)).await;
    let spec = json!({ "containers": [
        { "name": "c", "image": "i", "ports": [{ "containerPort": 80, "hostPort": 8080 }] },
    ]});
    world.bind("first", "node-1", json!({}), spec.clone()).await;
    world.pod_in_phase("first", "Running").await;
    world.bind("second", "node-1", json!({}), spec).await;
    assert_eq!(rejection(&world, "second").await.0, "NodePorts");
}

#[tokio::test(start_paused = true)]
async fn taints_that_execute_are_checked_and_others_are_not() {
    let world = World::with_nodes(quick(1)).await;
    let taints = |effect: &str| json!({ "spec": { "taints": [{ "key": "k", "effect": effect }] } });
    world.patch(&node("node-1"), taints("NoSchedule")).await;
    world.patch(&node("node-1"), json!({ "spec": { "unschedulable": true } })).await;
    world.bind("daemon", "node-1", json!({}), json!({})).await;
    world.pod_in_phase("daemon", "Running").await;
    world.patch(&node("node-1"), taints("NoExecute")).await;
    // The first check may run before the agent knows the taint; the second one reads the node.
    let tolerant = json!({ "tolerations": [{ "key": "k", "operator": "Exists", "effect": "NoExecute" }] });
    world.bind("tolerant", "node-1", json!({}), tolerant).await;
    world.pod_in_phase("tolerant", "Running").await;
    world.bind("intolerant", "node-1", json!({}), json!({})).await;
    assert_eq!(rejection(&world, "intolerant").await.0, "TaintToleration");
}

#[tokio::test(start_paused = true)]
async fn rules_that_hold_during_execution_are_checked_where_their_topology_is_the_node() {
    let world = World::with_nodes(quick(2)).await;
    let term = |topology: &str| json!([{ "labelSelector": { "matchLabels": { "app": "noisy" } }, "topologyKey": topology }]);
    let rule = |kind: &str, topology: &str| json!({ "affinity": { kind: { "requiredDuringSchedulingRequiredDuringExecution": term(topology) } } });
    let noisy = json!({ "labels": { "app": "noisy" } });
    world.bind("noisy", "node-1", noisy.clone(), json!({})).await;
    world.pod_in_phase("noisy", "Running").await;

    let hostname = "kubernetes.io/hostname";
    world.bind("quiet", "node-1", json!({}), rule("podAntiAffinity", hostname)).await;
    let (reason, message) = rejection(&world, "quiet").await;
    assert_eq!(reason, "PodAntiAffinity", "{message}");
    world.bind("lonely", "node-2", json!({}), rule("podAffinity", hostname)).await;
    assert_eq!(rejection(&world, "lonely").await.0, "PodAffinity");
    world.bind("near", "node-1", json!({}), rule("podAffinity", hostname)).await;
    world.pod_in_phase("near", "Running").await;
    // Anti-affinity is symmetric.
    world.bind("guarded", "node-2", json!({}), rule("podAntiAffinity", hostname)).await;
    world.pod_in_phase("guarded", "Running").await;
    world.bind("noisy-2", "node-2", noisy, json!({})).await;
    assert_eq!(rejection(&world, "noisy-2").await.0, "PodAntiAffinity");
    // A node does not know the other nodes of its zone.
    world.bind("zonal", "node-1", json!({}), rule("podAntiAffinity", "topology.kubernetes.io/zone")).await;
    world.pod_in_phase("zonal", "Running").await;
}

/// Without a final check: only watch events can lead to the acceptance of a rejected pod.
fn without_recheck() -> KubeletOptions {
    KubeletOptions { recheck_after: Duration::from_secs(3600), ..quick(1) }
}

#[tokio::test(start_paused = true)]
async fn pods_bound_together_may_arrive_in_any_order() {
    let world = World::with_nodes(without_recheck()).await;
    let needs = json!({ "affinity": { "podAffinity": { "requiredDuringSchedulingRequiredDuringExecution": [
        { "labelSelector": { "matchLabels": { "app": "base" } }, "topologyKey": "kubernetes.io/hostname" },
    ]}}});
    world.bind("needs", "node-1", json!({}), needs).await;
    world.bind("base", "node-1", json!({ "labels": { "app": "base" } }), json!({})).await;
    world.pod_in_phase("needs", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_may_arrive_before_its_node_s_label_and_before_its_room() {
    let world = World::with_nodes(without_recheck()).await;
    world.bind("labelled", "node-1", json!({}), json!({ "nodeSelector": { "disk": "ssd" } })).await;
    world.patch(&node("node-1"), json!({ "metadata": { "labels": { "disk": "ssd" } } })).await;
    world.pod_in_phase("labelled", "Running").await;
    world.bind("old", "node-1", json!({}), requests("4")).await;
    world.pod_in_phase("old", "Running").await;
    world.bind("new", "node-1", json!({}), requests("4")).await;
    world.delete_pod("old").await;
    world.pod_in_phase("new", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_before_its_final_check_is_removed() {
    let world = World::with_nodes(without_recheck()).await;
    world.bind("p", "node-1", json!({}), json!({ "nodeSelector": { "disk": "ssd" } })).await;
    until("the pod has arrived", async || {
        let status = world.control().status();
        (status.pods_pending == 1).then_some(()).ok_or(format!("{status:?}"))
    })
    .await;
    world.delete_pod("p").await;
    world.until_pod_gone("p").await;
}
