//! Pods bound on many nodes by a scheduler, through an API server: where they are, and what requests each of them takes.

use std::time::Duration;

use berth_api::resource::{NODES, PODS};
use berth_apiserver::{ApiServer, ServerOptions};
use berth_bench::bind::n_bound;
use berth_bench::scale::nodes;
use berth_bench::scale::templates::{PodTemplate, namespaces, templates};
use berth_client::call::{self, get, json, send};
use berth_client::connect::client;
use berth_client::serving::ServingOptions;
use berth_scheduler::{SchedulerOptions, start};
use berth_testkit::check::{Findings, Placed, check};
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const TIMEOUT: Duration = Duration::from_secs(60);
/// The first decision for a template evaluates all nodes: the pods before these have been decided.
const WARM_UP: usize = 400;
const N_PODS: usize = 2_400;

/// The requests for the pods after the warm-up: those to bind, and all others that change pods.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Work {
    n_bindings: f64,
    n_others: f64,
}

/// The sum of a metric over the lines that have all of these labels.
fn sum(metrics: &str, name: &str, labels: &[&str]) -> f64 {
    let lines = metrics.lines().filter(|line| line.starts_with(name));
    let lines = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

impl Work {
    fn of(server: &str) -> Work {
        let changes = ["POST", "PUT", "PATCH"].map(|verb| {
            let labels = [&format!("verb=\"{verb}\""), "resource=\"pods\""];
            sum(server, "apiserver_request_total", &labels)
        });
        let n_bindings = sum(server, "apiserver_request_total", &["subresource=\"binding\""]);
        Work { n_bindings, n_others: changes.iter().sum::<f64>() - n_bindings }
    }
}

async fn metrics(client: &Client) -> String {
    let text = send(client, get("/metrics"), TIMEOUT, call::MAX_OBJECT_BYTES).await.unwrap();
    String::from_utf8(text.to_vec()).unwrap()
}

fn node(i: usize) -> Value {
    let mut node = json!(nodes::node(1, i));
    (node["apiVersion"], node["kind"]) = ("v1".into(), "Node".into());
    node
}

fn pod(template: &PodTemplate, i: usize) -> Value {
    let mut pod = json!(template.pod);
    (pod["apiVersion"], pod["kind"]) = ("v1".into(), "Pod".into());
    pod["metadata"]["name"] = format!("{}-{i:05}", template.pod.metadata.name).into();
    pod["spec"]["schedulerName"] = "berth".into();
    pod
}

/// Binds pods on this many nodes.
async fn bound_on(n_nodes: usize) -> (Work, Findings) {
    let server = ApiServer::start(ServerOptions::default()).await.unwrap();
    let of_server = client(server.admin_config()).unwrap();
    for namespace in namespaces() {
        let object = json!({"metadata": {"name": namespace.metadata.name}});
        let request = call::with_json(Method::POST, "/api/v1/namespaces", &object);
        send(&of_server, request, TIMEOUT, call::MAX_OBJECT_BYTES).await.unwrap();
    }
    server.import((0..n_nodes).map(node).collect()).await.unwrap();
    let stop = CancellationToken::new();
    let serving = ServingOptions { http: Some("127.0.0.1:0".parse().unwrap()), ..ServingOptions::default() };
    let options = SchedulerOptions { serving, ..SchedulerOptions::default() };
    let scheduler = start(server.component_config("kube-scheduler"), options, stop.clone()).await.unwrap();
    let uri = format!("http://{}", scheduler.http_address().unwrap()).parse().unwrap();
    let of_scheduler = client(kube::Config::new(uri)).unwrap();
    let templates = templates(false);
    let mut before = Work::default();
    for pods in [0..WARM_UP, WARM_UP..N_PODS] {
        let end = pods.end;
        before = Work::of(&metrics(&of_server).await);
        server.import(pods.map(|i| pod(&templates[i % templates.len()], i)).collect()).await.unwrap();
        while n_bound(&metrics(&of_scheduler).await) < end {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let after = Work::of(&metrics(&of_server).await);
    let work =
        Work { n_bindings: after.n_bindings - before.n_bindings, n_others: after.n_others - before.n_others };
    stop.cancel();
    scheduler.stopped().await.unwrap();
    let list: Value = json(&of_server, get(&PODS.path("")), TIMEOUT).await.unwrap();
    let n_listed: Value =
        json(&of_server, get(&format!("{}?limit=1", NODES.path(""))), TIMEOUT).await.unwrap();
    assert_eq!(n_listed["metadata"]["remainingItemCount"], n_nodes - 1);
    let placed = berth_bench::bind::decidable(placed(&list, &templates), &templates, |node| {
        nodes::node(1, node as usize).metadata.labels.remove(nodes::ZONE)
    });
    server.shutdown().await;
    let pods: Vec<_> = templates.into_iter().map(|template| template.pod).collect();
    (work, check((0..n_nodes).map(|i| nodes::node(1, i)), &namespaces(), &pods, &placed))
}

/// The pods of a list, with the versions of their bindings.
fn placed(list: &Value, templates: &[PodTemplate]) -> Vec<(u64, Placed)> {
    let placed = |pod: &Value| {
        let name = pod["metadata"]["name"].as_str()?;
        let template = templates.iter().position(|t| name.starts_with(&t.pod.metadata.name))?;
        let node = nodes::node_index(pod["spec"]["nodeName"].as_str()?)?;
        let version = pod["metadata"]["resourceVersion"].as_str()?.parse().ok()?;
        Some((version, Placed { template: template as u32, node: node as u32 }))
    };
    list["items"].as_array().unwrap().iter().filter_map(placed).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_on_20_000_nodes_takes_as_many_requests_as_on_2_000() {
    let (few, _) = bound_on(2_000).await;
    let (many, findings) = bound_on(20_000).await;
    assert_eq!((findings.pods, &findings.violations), (N_PODS, &vec![]));
    // One request for each pod, however many nodes there are.
    assert_eq!(few, Work { n_bindings: (N_PODS - WARM_UP) as f64, n_others: 0.0 });
    assert_eq!(many, few);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_on_a_given_api_server_leaves_neither_nodes_nor_pods_and_needs_one_without_them() {
    let server = ApiServer::start(ServerOptions::default()).await.unwrap();
    let stop = CancellationToken::new();
    let options =
        SchedulerOptions { scheduler_name: Some("other".to_owned()), ..SchedulerOptions::default() };
    let scheduler = start(server.component_config("kube-scheduler"), options, stop.clone()).await.unwrap();
    let kubeconfig = server.kubeconfig_path().to_owned();
    let run = move || {
        let args = ["bind", "--scheduler-name", "other", "--nodes", "100", "--pods", "80", "-o", "json"];
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_berth-bench"));
        command.args(args).arg("--kubeconfig").arg(&kubeconfig).output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run.clone()).await.unwrap();
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && notes.contains("start the scheduler other now"), "{notes}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let size = &report["sizes"][0];
    assert_eq!((&size["unbound"], &size["check"]["pods"]), (&json!(0), &json!(80)));
    let admin = client(server.admin_config()).unwrap();
    for resource in [&NODES, &PODS] {
        let list: Value = json(&admin, get(&resource.path("")), TIMEOUT).await.unwrap();
        assert_eq!(list["items"], json!([]));
    }
    // Objects of others stay, even one with a name that a run uses.
    for (resource, object) in [(&PODS, pod(&templates(false)[0], 0)), (&NODES, node(7))] {
        server.import(vec![object]).await.unwrap();
        let output = tokio::task::spawn_blocking(run.clone()).await.unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        let why = format!("the API server has {}", resource.plural);
        assert!(output.status.code() == Some(2) && error.contains(&why), "{error}");
        let list: Value = json(&admin, get(&resource.path("")), TIMEOUT).await.unwrap();
        assert_eq!(list["items"].as_array().unwrap().len(), 1);
    }
    stop.cancel();
    scheduler.stopped().await.unwrap();
    server.shutdown().await;
}
