//! The examples with a cluster: created, scheduled, started, and all bindings checked.

use std::collections::HashSet;
use std::path::Path;

use berth_api::read::read_manifests;
use berth_testkit::documents::repository;
use berth_testkit::programs::TempDir;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::record::Record;
use crate::client::{connect, eventually, list, send, text};
use crate::process::Berth;

/// The collection that objects of a kind are created in.
fn collection(object: &Value) -> String {
    let (group, plural) = match text(object, "/kind") {
        "Namespace" => return "/api/v1/namespaces".to_owned(),
        "Node" => return "/api/v1/nodes".to_owned(),
        "Pod" => ("api/v1", "pods"),
        "Deployment" => ("apis/apps/v1", "deployments"),
        "StatefulSet" => ("apis/apps/v1", "statefulsets"),
        other => panic!("the examples have objects of kind {other}, which this test cannot create"),
    };
    let namespace = Some(text(object, "/metadata/namespace")).filter(|n| !n.is_empty()).unwrap_or("default");
    format!("/{group}/namespaces/{namespace}/{plural}")
}

/// All objects in the YAML files of a folder, in order.
pub fn objects(folder: &Path) -> Vec<Value> {
    let mut objects = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let name = file.display().to_string();
        let keep = &mut |manifest: berth_api::read::Manifest| {
            objects.push(manifest.value);
            Ok::<(), berth_api::read::ReadError>(())
        };
        read_manifests(bytes.as_slice(), &name, keep).unwrap();
    }
    objects
}

/// Namespaces and nodes first, the rest in input order.
async fn create_all(client: &Client, folder: &Path) {
    let mut objects = objects(folder);
    objects.sort_by_key(|object| !matches!(text(object, "/kind"), "Namespace" | "Node"));
    for object in objects {
        send(client, Method::POST, &collection(&object), Some(object)).await.unwrap();
    }
}

/// A cluster in which an example settles.
struct Stage {
    _berth: Berth,
    _room: TempDir,
    client: Client,
    record: Record,
}

impl Stage {
    async fn with(example: &str, nodes: &str, zones: &str) -> Stage {
        let directory = TempDir::new(example);
        let args = [
            "up",
            "--no-summary",
            "--nodes",
            nodes,
            "--zones",
            zones,
            "--start-after",
            "0s",
            "--stop-after",
            "0s",
        ];
        let berth = Berth::start(&directory, "up", &args);
        let client = connect(Path::new(&berth.line_after("export KUBECONFIG="))).await;
        eventually("the nodes have registered", async || {
            let n_nodes = list(&client, "/api/v1/nodes").await.map_err(|e| e.to_string())?.len();
            if n_nodes.to_string() == nodes { Ok(()) } else { Err(format!("{n_nodes} nodes")) }
        })
        .await;
        let record = Record::open(&client).await;
        create_all(&client, &repository().join("examples").join(example)).await;
        Stage { _berth: berth, _room: directory, client, record }
    }

    /// Waits until this many pods run, this many are unschedulable, and no others exist.
    async fn settles(&self, n_running: usize, n_unplaced: usize) -> Vec<Value> {
        self.settles_so(|running, unplaced| (running, unplaced) == (n_running, n_unplaced)).await
    }

    /// Waits until all pods run or are unschedulable, with numbers that fulfil `is_so`.
    async fn settles_so(&self, is_so: impl Fn(usize, usize) -> bool) -> Vec<Value> {
        eventually("the example settles", async || {
            let pods = list(&self.client, "/api/v1/pods").await.map_err(|e| e.to_string())?;
            let runs = |pod: &Value| {
                text(pod, "/status/phase") == "Running"
                    && pod.pointer("/metadata/deletionTimestamp").is_none()
            };
            let is_unplaced = |pod: &Value| {
                let conditions = pod["status"]["conditions"].as_array();
                conditions
                    .into_iter()
                    .flatten()
                    .any(|c| c["type"] == "PodScheduled" && c["status"] == "False")
            };
            let found =
                (pods.iter().filter(|p| runs(p)).count(), pods.iter().filter(|p| is_unplaced(p)).count());
            if found.0 + found.1 == pods.len() && is_so(found.0, found.1) {
                Ok(pods)
            } else {
                Err(format!("{} run, {} are unschedulable, of {}", found.0, found.1, pods.len()))
            }
        })
        .await
    }

    /// Checks the number of bindings and each binding.
    async fn judge(&self, n_bound: usize) {
        let (_, findings) = eventually("all bindings are seen", async || {
            let bindings = self.record.bindings();
            if bindings.0 == n_bound { Ok(bindings) } else { Err(format!("{bindings:?}")) }
        })
        .await;
        assert_eq!(findings, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn examples_settle_and_violate_no_rule_meanwhile() {
    for (example, nodes, zones, n_running, n_unplaced) in [
        ("redis-web", "3", "3", 6, 0),
        ("redis-web", "2", "1", 4, 2),
        ("node-affinity", "0", "1", 2, 0),
        ("zone-anti-affinity", "6", "3", 3, 0),
        ("namespace-selector", "3", "3", 4, 0),
    ] {
        let stage = Stage::with(example, nodes, zones).await;
        stage.settles(n_running, n_unplaced).await;
        stage.judge(n_running).await;
    }
}

/// Two pools for three tenants with three, two and one pods: the last tenant gets no pool.
#[tokio::test(flavor = "multi_thread")]
async fn tenants_do_not_share_a_pool() {
    let stage = Stage::with("tenants", "0", "1").await;
    let pods =
        stage.settles_so(|running, unplaced| running + unplaced == 6 && (3..=5).contains(&running)).await;
    let is_placed = |pod: &&Value| !text(pod, "/spec/nodeName").is_empty();
    let tenants: HashSet<_> =
        pods.iter().filter(is_placed).map(|p| text(p, "/metadata/labels/tenant")).collect();
    assert_eq!(tenants.len(), 2, "{tenants:?}");
    stage.judge(pods.iter().filter(is_placed).count()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_update_violates_no_rule_meanwhile() {
    let stage = Stage::with("rollout", "3", "3").await;
    stage.settles(6, 0).await;
    let deployment = "/apis/apps/v1/namespaces/default/deployments/rolling";
    // The controller can write the status between the two requests.
    eventually("the image is changed", async || {
        let mut changed =
            send(&stage.client, Method::GET, deployment, None).await.map_err(|e| e.to_string())?;
        changed["spec"]["template"]["spec"]["containers"][0]["image"] =
            json!("registry.example.com/server:2");
        send(&stage.client, Method::PUT, deployment, Some(changed)).await.map_err(|e| e.to_string())
    })
    .await;
    eventually("all pods are of the new revision", async || {
        let pods = stage.settles(6, 0).await;
        let is_new = |pod: &&Value| text(pod, "/spec/containers/0/image") == "registry.example.com/server:2";
        let n_new = pods.iter().filter(is_new).count();
        if n_new == 3 { Ok(()) } else { Err(format!("{n_new} new pods")) }
    })
    .await;
    stage.judge(9).await;
}
