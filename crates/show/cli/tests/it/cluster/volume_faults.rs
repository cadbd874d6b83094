//! Failures while claims are bound: a provisioner that fails, a leader that is killed, nodes and zones that are lost.

use http::Method;
use serde_json::{Value, json};

use super::check::assert_every_rule_kept;
use super::running::{PODS, REPLICA};
use super::volumes::{CLAIMS, Storage, VOLUMES, pod, uses};
use crate::client::{create, eventually, list, send, text};

const NODES: &str = "/api/v1/nodes";

/// How many attempts of the simulated provisioner fail for a claim.
fn failures(n: usize) -> Value {
    json!({"metadata": {"annotations": {"berth.dev/provisioning-failures": n.to_string()}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_once_the_provisioner_no_longer_fails() {
    let storage = Storage::start("failing-provisioner", &[&[]]).await;
    for i in 0..8 {
        storage.pod_and_claim(&format!("p{i}"), "zonal", failures(i % 4)).await;
    }
    for i in 0..8 {
        storage.runs(&format!("p{i}")).await;
        storage.volume_of(&format!("p{i}")).await;
    }
    storage.check().await;
    let events = list(&storage.cluster.client, "/api/v1/namespaces/default/events").await.unwrap();
    assert!(events.iter().any(|e| e["reason"] == "ProvisioningFailed"), "the provisioner did not fail");
    // A failure leaves no volume behind.
    assert_eq!(list(&storage.cluster.client, VOLUMES).await.unwrap().len(), 8);
    assert_eq!(assert_every_rule_kept(&storage.cluster.client).await, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_leader_continues_between_the_selected_node_and_the_binding() {
    const N_PODS: usize = 10;
    let mut storage = Storage::start("killed-leader-volumes", &[&REPLICA, &REPLICA]).await;
    let first = storage.cluster.leader().await;
    for i in 0..N_PODS {
        storage.pod_and_claim(&format!("p{i}"), "external", json!({})).await;
    }
    eventually("the leader has selected all nodes", async || {
        let claims = list(&storage.cluster.client, CLAIMS).await.map_err(|e| e.to_string())?;
        let n_selected = claims.iter().filter(|c| selected_node(c).is_some()).count();
        if n_selected == N_PODS { Ok(()) } else { Err(format!("{n_selected} claims")) }
    })
    .await;
    storage.cluster.kill_scheduler(&first);
    let claims = list(&storage.cluster.client, CLAIMS).await.unwrap();
    let pods = list(&storage.cluster.client, PODS).await.unwrap();
    assert!(
        pods.iter().all(|pod| text(pod, "/spec/nodeName").is_empty()),
        "pods were bound before their claims"
    );
    let second = eventually("the other replica leads", async || {
        Some(storage.cluster.leader().await).filter(|leader| *leader != first).ok_or_else(|| first.clone())
    })
    .await;
    assert_ne!(first, second);
    // Only now the volumes are provisioned, each for the selected node.
    for claim in &claims {
        let (name, node) = (text(claim, "/metadata/name"), selected_node(claim));
        let of = json!({"namespace": "default", "name": name, "uid": claim["metadata"]["uid"]});
        storage
            .volume(&format!("v-{name}"), "external", "1Gi", node, json!({"spec": {"claimRef": of}}))
            .await;
    }
    for i in 0..N_PODS {
        storage.runs(&format!("p{i}")).await;
    }
    storage.check().await;
    assert_eq!(assert_every_rule_kept(&storage.cluster.client).await, N_PODS);
    assert_eq!(list(&storage.cluster.client, VOLUMES).await.unwrap().len(), N_PODS);
    // The second leader kept the nodes that the first one selected.
    for claim in claims {
        let name = text(&claim, "/metadata/name");
        let pod = storage.get(&format!("{PODS}/{name}")).await;
        assert_eq!(Some(text(&pod, "/spec/nodeName")), selected_node(&claim), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_leader_continues_between_the_reservation_of_a_volume_and_the_binding() {
    const N_PODS: usize = 12;
    let slow = ["--config", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cluster/slow_scheduler.yaml")];
    let replica = &[REPLICA.as_slice(), &slow].concat();
    let mut storage = Storage::start("killed-leader-static", &[replica, replica]).await;
    let first = storage.cluster.leader().await;
    for i in 0..N_PODS {
        let node = format!("node-{}", i % 6 + 1);
        storage.volume(&format!("v{i}"), "local", "1Gi", Some(&node), json!({})).await;
    }
    for i in 0..N_PODS {
        storage.pod_and_claim(&format!("p{i}"), "local", json!({})).await;
    }
    let reserved = async || {
        let volumes = list(&storage.cluster.client, VOLUMES).await.unwrap();
        let of = |v: &Value| {
            let claim = text(v, "/spec/claimRef/name");
            (!claim.is_empty()).then(|| (claim.to_owned(), text(v, "/metadata/name").to_owned()))
        };
        volumes.iter().filter_map(of).collect::<Vec<_>>()
    };
    let before = eventually("the leader has reserved some volumes", async || {
        Some(reserved().await).filter(|reserved| reserved.len() > 2).ok_or_else(|| "none".to_owned())
    })
    .await;
    storage.cluster.kill_scheduler(&first);
    assert!(before.len() < N_PODS, "the leader was killed too late");
    for i in 0..N_PODS {
        storage.runs(&format!("p{i}")).await;
    }
    // Also that no two claims have the same volume.
    storage.check().await;
    for (claim, volume) in before {
        assert_eq!(storage.volume_of(&claim).await, volume, "{claim}");
    }
    assert_eq!(assert_every_rule_kept(&storage.cluster.client).await, N_PODS);
}

fn selected_node(claim: &Value) -> Option<&str> {
    claim.pointer("/metadata/annotations/volume.kubernetes.io~1selected-node")?.as_str()
}

/// A StatefulSet with a zonal claim per pod, and each pod in a separate zone.
fn stateful_set(name: &str, n_replicas: usize) -> Value {
    let mut pod = pod("", json!(null));
    let labels = json!({"app": name});
    let term =
        json!({"labelSelector": {"matchLabels": labels}, "topologyKey": "topology.kubernetes.io/zone"});
    pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!([term]);
    pod["spec"]["volumes"] = json!([]);
    let claim = json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "zonal",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
        "spec": {"replicas": n_replicas, "serviceName": name, "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels}, "volumeClaimTemplates": [claim],
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_lost_zone_wait_for_a_node_that_can_use_their_volumes() {
    let mut storage = Storage::start("lost-zone", &[&[]]).await;
    create(&storage.cluster.client, "/apis/apps/v1/namespaces/default/statefulsets", stateful_set("db", 3))
        .await;
    let mut placed = Vec::new();
    for i in 0..3 {
        let (name, claim) = (format!("db-{i}"), format!("data-db-{i}"));
        placed.push((zone_of(&storage, &name).await, storage.volume_of(&claim).await, name, claim));
    }
    placed.sort();
    let zones: Vec<_> = placed.iter().map(|(zone, ..)| zone.as_str()).collect();
    assert_eq!(zones, ["zone-1", "zone-2", "zone-3"]);

    for node in list(&storage.cluster.client, NODES).await.unwrap() {
        if zone(&node) == "zone-1" {
            storage.delete(&format!("{NODES}/{}", text(&node, "/metadata/name"))).await;
        }
    }
    let (_, volume, name, claim) = placed.remove(0);
    // Otherwise the pod of a deleted node stays for a while.
    storage.delete(&format!("{PODS}/{name}")).await;
    storage.waits(&name, "node(s) didn't match PersistentVolume's node affinity").await;
    storage.check().await;

    // A zone that is back has other nodes.
    storage.cluster.add_nodes(1, &["--zones", "1", "--node-prefix", "new-"]).await;
    assert_eq!(storage.runs(&name).await, "new-1");
    assert_eq!(storage.volume_of(&claim).await, volume);
    for (zone, volume, name, claim) in placed {
        assert_eq!(
            (zone_of(&storage, &name).await, storage.volume_of(&claim).await),
            (zone, volume),
            "{name}"
        );
    }
    storage.check().await;
    assert_eq!(assert_every_rule_kept(&storage.cluster.client).await, 3);
}

/// The zone in which a pod runs.
async fn zone_of(storage: &Storage, pod: &str) -> String {
    let node = storage.runs(pod).await;
    zone(&storage.get(&format!("{NODES}/{node}")).await).to_owned()
}

fn zone(node: &Value) -> &str {
    text(node, "/metadata/labels/topology.kubernetes.io~1zone")
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_drained_node_with_local_volumes_come_back_to_it() {
    let storage = Storage::start("drained-node", &[&[]]).await;
    for i in 0..3 {
        storage.volume(&format!("disk-{i}"), "local", "1Gi", Some("node-2"), json!({})).await;
        storage.pod_and_claim(&format!("p{i}"), "local", json!({})).await;
    }
    let mut volumes = Vec::new();
    for i in 0..3 {
        assert_eq!(storage.runs(&format!("p{i}")).await, "node-2");
        volumes.push(storage.volume_of(&format!("p{i}")).await);
    }
    storage.check().await;

    let node = format!("{NODES}/node-2");
    storage.patch(&node, &json!({"spec": {"unschedulable": true}})).await;
    for i in 0..3 {
        let eviction =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": format!("p{i}")}});
        let path = format!("{PODS}/p{i}/eviction");
        send(&storage.cluster.client, Method::POST, &path, Some(eviction)).await.unwrap();
        storage.gone(&format!("{PODS}/p{i}")).await;
        storage.pod(&format!("p{i}"), uses(&format!("p{i}"))).await;
        storage.waits(&format!("p{i}"), "1 node(s) were unschedulable").await;
    }
    storage.check().await;

    storage.patch(&node, &json!({"spec": {"unschedulable": null}})).await;
    for (i, volume) in volumes.iter().enumerate() {
        assert_eq!(storage.runs(&format!("p{i}")).await, "node-2");
        assert_eq!(storage.volume_of(&format!("p{i}")).await, *volume);
    }
    storage.check().await;
    assert_eq!(assert_every_rule_kept(&storage.cluster.client).await, 3);
}
