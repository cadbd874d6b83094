//! Placement quotas: concurrent creators, binding, deletion, and restarts.

use std::fs;
use std::path::Path;

use berth_api::read::{Manifest, ReadError, read_manifests};
use berth_client::call;
use berth_testkit::documents::repository;
use berth_testkit::programs::TempDir;
use futures::future::join_all;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::bindings::bind;
use super::world::{PODS, World, pod, post, rules};
use crate::client::{connect, eventually, get, send, text};
use crate::process::{Berth, DEADLINE};

const POLICY: &str = "placementQuotas: true\n";
const QUOTAS: &str = "/apis/scheduling.berth.dev/v1alpha1/namespaces/default/placementquotas";
const N_CREATORS: usize = 50;

/// The definition of the resource, nodes with 4, 8 and 12 CPUs, and a quota of ten nodes.
async fn prepare(client: &Client) {
    let bytes = fs::read(repository().join("deploy/kustomize/base/placement-quota.yaml")).unwrap();
    let mut found = Vec::new();
    let keep = &mut |manifest: Manifest| {
        found.push(manifest.value);
        Ok::<(), ReadError>(())
    };
    read_manifests(bytes.as_slice(), "placement-quota.yaml", keep).unwrap();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(post(client, definitions, &found[0]).await.code, 201);
    for (name, cpu) in [("small", "4"), ("medium", "8"), ("large", "12")] {
        let amounts = json!({"cpu": cpu, "memory": "8Gi", "pods": "110"});
        let labels = json!({"kubernetes.io/hostname": name});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": amounts, "capacity": amounts}});
        assert_eq!(post(client, "/api/v1/nodes", &node).await.code, 201);
    }
    let quota = json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "PlacementQuota",
        "metadata": {"name": "exclusive"}, "spec": {"hard": {"nodes": 10, "cpu": "130"}}});
    eventually("the quota is created", async || match post(client, QUOTAS, &quota).await {
        reply if reply.code == 201 => Ok(()),
        reply => Err(format!("{reply:?}")),
    })
    .await;
}

/// A pod with its own node.
fn exclusive(name: &str, labels: Value) -> Value {
    let term = json!({"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname"});
    let anti_affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    pod(name, json!({"labels": labels}), json!({"affinity": {"podAntiAffinity": anti_affinity}}))
}

/// Creates pods at the same time; returns the names of those that were allowed, and a message of a refusal.
async fn create_all(client: &Client, label: impl Fn(usize) -> Value) -> (Vec<String>, String) {
    let create = async |i: usize| {
        let name = format!("p-{i}");
        (post(client, PODS, &exclusive(&name, label(i))).await, name)
    };
    let (mut created, mut refused) = (Vec::new(), String::new());
    for (reply, name) in join_all((0..N_CREATORS).map(create)).await {
        match reply.code {
            201 => created.push(name),
            403 => refused = reply.message().to_owned(),
            _ => panic!("{reply:?}"),
        }
    }
    (created, refused)
}

/// Waits until the quota shows this usage, and the webhook has observed all pods that it has charged.
async fn shows(client: &Client, nodes: &str, cpu: &str) -> Value {
    eventually("the usage of the quota", async || {
        let quota = get(client, &format!("{QUOTAS}/exclusive")).await.map_err(|e| e.to_string())?;
        let used = (text(&quota, "/status/used/nodes"), text(&quota, "/status/used/cpu"));
        let charges = quota["status"]["charges"].as_array();
        let is_settled = charges.into_iter().flatten().all(|charge| charge.get("reserved").is_none());
        if used == (nodes, cpu) && is_settled { Ok(quota) } else { Err(quota["status"].to_string()) }
    })
    .await
}

async fn delete(client: &Client, pod: &str) {
    send(client, Method::DELETE, &format!("{PODS}/{pod}"), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creators_never_exceed_a_quota_with_two_webhooks() {
    let world = World::new("quotas", true).await;
    let admin = &world.admin;
    prepare(admin).await;
    let replicas = [world.replica("a", POLICY, &[]).await, world.replica("b", POLICY, &[]).await];
    for (webhook, replica) in replicas.iter().zip(["a", "b"]) {
        let pods = rules("", &["pods"], &["CREATE", "UPDATE"]);
        let name = format!("{replica}.berth.dev");
        let mut entry = webhook.entry(&name, "/validate-pods", "Fail", pods);
        entry["objectSelector"] = json!({"matchLabels": {"replica": replica}});
        world.register("Validating", replica, entry).await;
    }
    let label = |i: usize| json!({"replica": if i.is_multiple_of(2) { "a" } else { "b" }});
    let (created, refused) = create_all(admin, label).await;
    assert_eq!(created.len(), 10);
    let begin = "admission webhook \"*.berth.dev\" denied the request: pods \"*\" is forbidden: exceeded placement quota: \
                 exclusive, requested: ";
    let parts: Vec<&str> = begin.split('*').collect();
    assert!(parts.iter().all(|part| refused.contains(part)), "{refused}");
    // Without a node, each is charged for the largest one.
    shows(admin, "10", "120").await;
    // Others and pods that block no pods of other namespaces are not charged.
    assert_eq!(post(admin, PODS, &pod("plain", json!({"labels": label(0)}), json!({}))).await.code, 201);

    // After binding, the pod is charged for its node; the rest is free.
    assert_eq!(bind(admin, &created[0], "small").await.code, 201);
    let quota = shows(admin, "10", "112").await;
    let charges = quota["status"]["charges"].as_array().unwrap();
    let bound = charges.iter().find(|charge| charge["pod"] == created[0].as_str()).unwrap();
    assert_eq!((&bound["node"], &bound["cpu"]), (&json!("small"), &json!("4")));
    delete(admin, &created[1]).await;
    shows(admin, "9", "100").await;
    assert_eq!(post(admin, PODS, &exclusive("late", label(1))).await.code, 201);
    shows(admin, "10", "112").await;

    // Changes while no webhook runs are seen afterwards.
    drop(replicas);
    delete(admin, &created[2]).await;
    delete(admin, "late").await;
    assert_eq!(bind(admin, &created[3], "medium").await.code, 201);
    let _replica = world.replica("c", POLICY, &[]).await;
    shows(admin, "8", "84").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_of_the_embedded_server_survives_its_restart() {
    let directory = TempDir::new("quotas-embedded");
    let policy = directory.file("policy.yaml");
    let head = "apiVersion: admission.berth.dev/v1alpha1\nkind: AdmissionPolicy\n";
    fs::write(&policy, format!("{head}{POLICY}")).unwrap();
    let path = |file: &str| directory.file(file).display().to_string();
    let args = ["apiserver", "--data-dir", &path("data"), "--admission-config", &path("policy.yaml")];
    let start = async |name: &str| {
        let server = Berth::start(&directory, name, &args);
        let client = connect(Path::new(&server.line_after("export KUBECONFIG="))).await;
        (server, client)
    };
    let (server, client) = start("first").await;
    prepare(&client).await;
    let (created, refused) = create_all(&client, |_| json!({})).await;
    assert_eq!(created.len(), 10);
    let begin = "pods \"p-*\" is forbidden: exceeded placement quota: exclusive, requested: ";
    assert!(begin.split('*').all(|part| refused.contains(part)), "{refused}");
    let quota = shows(&client, "10", "120").await;
    assert_eq!(quota["status"]["pods"], 10);
    drop(server);

    let (_server, client) = start("second").await;
    assert_eq!(post(&client, PODS, &exclusive("late", json!({}))).await.code, 403);
    delete(&client, &created[0]).await;
    shows(&client, "9", "108").await;
    assert_eq!(post(&client, PODS, &exclusive("late", json!({}))).await.code, 201);
    shows(&client, "10", "120").await;
    let line = r#"placement_quota_used{namespace="default",quota="exclusive",resource="nodes"} 10.0"#;
    eventually("the metrics", async || {
        let metrics = call::send(&client, call::get("/metrics"), DEADLINE, 1 << 20).await;
        let metrics = String::from_utf8_lossy(&metrics.map_err(|e| e.to_string())?).into_owned();
        if metrics.contains(line) { Ok(()) } else { Err(metrics) }
    })
    .await;
}
