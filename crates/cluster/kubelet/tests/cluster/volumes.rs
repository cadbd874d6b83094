//! Volumes of pods: claims, node affinity, limits of drivers.

use berth_kubelet::{CsiDriverTemplate, KubeletOptions};
use serde_json::{Value, json};

use crate::world::{World, pod, quick, until};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Creates a claim, bound to a volume in a zone.
async fn bound_claim(world: &World, name: &str, zone: &str) {
    let requirement = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]});
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "csi.example.com", "volumeHandle": name},
        "claimRef": {"namespace": "default", "name": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}}});
    world.create(VOLUMES, volume).await;
    claim(world, name).await;
    bind_claim(world, name).await;
}

async fn claim(world: &World, name: &str) {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}});
    world.create(CLAIMS, claim).await;
}

async fn bind_claim(world: &World, name: &str) {
    let path = format!("{CLAIMS}/{name}");
    world.patch(&path, json!({"spec": {"volumeName": name}})).await;
    world.patch(&format!("{path}/status"), json!({"status": {"phase": "Bound"}})).await;
}

fn uses(claim: &str) -> Value {
    json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]})
}

#[tokio::test(start_paused = true)]
async fn a_pod_starts_when_its_volumes_are_mounted() {
    let world = World::with_nodes(quick(2)).await;
    // Nodes are assigned to zones in turn: node-1 is in zone-1.
    bound_claim(&world, "near", "zone-1").await;
    bound_claim(&world, "far", "zone-2").await;
    world.bind("runs", "node-1", json!({}), uses("near")).await;
    world.bind("waits", "node-1", json!({}), uses("late")).await;
    world.bind("stays", "node-1", json!({}), uses("far")).await;
    world.pod_in_phase("runs", "Running").await;
    let waits = world
        .pod_when("waits", "creates", |pod| {
            pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating"
        })
        .await;
    assert_eq!(waits["status"]["phase"], "Pending");
    let messages = until("events", async || {
        let events = world.list(EVENTS).await;
        let mounts = events.iter().filter(|event| event["reason"] == "FailedMount");
        let mut found: Vec<String> =
            mounts.map(|event| event["message"].as_str().unwrap().to_owned()).collect();
        found.sort();
        if found.len() == 2 { Ok(found) } else { Err(format!("{events:?}")) }
    })
    .await;
    assert_eq!(
        messages,
        [
            "MountVolume.NodeAffinity check failed for volume \"far\" : no matching NodeSelectorTerms",
            "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process \
             volumes=[data]: error processing PVC default/late: failed to fetch PVC from API server: \
             persistentvolumeclaims \"late\" not found",
        ]
    );
    bound_claim(&world, "late", "zone-1").await;
    world.pod_in_phase("waits", "Running").await;
    assert_eq!(world.get(&pod("stays")).await["status"]["phase"], "Pending");
    world.delete_pod("stays").await;
    world.until_pod_gone("stays").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_rejects_pods_beyond_the_limit_of_a_driver() {
    let driver = CsiDriverTemplate { name: "csi.example.com".to_owned(), limit: Some(1) };
    let world = World::with_nodes(KubeletOptions { csi_drivers: vec![driver], ..quick(1) }).await;
    let csi_node = world.until("a CSINode", &format!("{CSI_NODES}/node-1"), |_| true).await;
    assert_eq!(csi_node["spec"]["drivers"][0]["allocatable"]["count"], 1);
    bound_claim(&world, "a", "zone-1").await;
    bound_claim(&world, "b", "zone-1").await;
    world.bind("first", "node-1", json!({}), uses("a")).await;
    world.pod_in_phase("first", "Running").await;
    world.bind("shares", "node-1", json!({}), uses("a")).await;
    world.pod_in_phase("shares", "Running").await;
    world.bind("second", "node-1", json!({}), uses("b")).await;
    let rejected = world.pod_in_phase("second", "Failed").await;
    assert_eq!(rejected["status"]["reason"], "VolumeAttachmentLimitExceeded");
    assert_eq!(
        rejected["status"]["message"],
        "Pod was rejected: Node has reached its volume attachment limit, rejecting pod"
    );
    // The limit counts volumes of pods that run.
    for name in ["first", "shares"] {
        world.delete_pod(name).await;
        world.until_pod_gone(name).await;
    }
    world.bind("third", "node-1", json!({}), uses("b")).await;
    world.pod_in_phase("third", "Running").await;
}
