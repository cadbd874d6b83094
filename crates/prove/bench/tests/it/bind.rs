//! Pods bound on many nodes by a scheduler, through an API server: where they are, and what each of them costs.

use std::time::Duration;

use berth_api::resource::{NODES, PODS};
use berth_apiserver::{ApiServer, ServerOptions};
use berth_bench::bind::n_bound;
use berth_bench::check::{Findings, Placed, check};
use berth_bench::scale::nodes;
use berth_bench::scale::templates::{PodTemplate, namespaces, templates};
use berth_client::call::{self, get, json, send};
use berth_client::connect::client;
use berth_client::serving::ServingOptions;
use berth_scheduler::{SchedulerOptions, start};
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const TIMEOUT: Duration = Duration::from_secs(60);
/// The first decision for a template evaluates all nodes: the pods before these have been decided.
const WARM_UP: usize = 400;
const N_PODS: usize = 2_400;
/// As large as it is tolerated when the nodes are ten times as many. Work for each node would be 10.
const TOLERATED: f64 = 4.0;

/// What the pods after the warm-up cost.
#[derive(Debug, Default)]
struct Work {
    /// Requests to bind, and all others of the scheduler that change pods.
    n_bindings: f64,
    n_others: f64,
    /// Processor time in seconds: of decisions, of what the scheduler keeps, and of the API server.
    decisions: f64,
    state: f64,
    server: f64,
}

/// The sum of a metric over the lines that have all of these labels.
fn sum(metrics: &str, name: &str, labels: &[&str]) -> f64 {
    let lines = metrics.lines().filter(|line| line.starts_with(name));
    let lines = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

impl Work {
    fn of(server: &str, scheduler: &str) -> Work {
        let changes = |resource: &str| {
            ["POST", "PUT", "PATCH"]
                .map(|verb| sum(server, "apiserver_request_total", &[&format!("verb=\"{verb}\""), resource]))
        };
        let n_bindings = sum(server, "apiserver_request_total", &["subresource=\"binding\""]);
        let n_changes: f64 = changes("resource=\"pods\"").iter().sum();
        let time = |metrics: &str, parts: &[&str]| {
            let part =
                |part: &&str| sum(metrics, "berth_processor_seconds_total", &[&format!("part=\"{part}\"")]);
            parts.iter().map(part).sum()
        };
        Work {
            n_bindings,
            n_others: n_changes - n_bindings,
            decisions: time(scheduler, &["decisions"]),
            state: time(scheduler, &["events", "assumptions", "completions"]),
            server: time(server, &["requests", "store", "responses"]),
        }
    }

    fn since(&self, before: &Work) -> Work {
        Work {
            n_bindings: self.n_bindings - before.n_bindings,
            n_others: self.n_others - before.n_others,
            decisions: self.decisions - before.decisions,
            state: self.state - before.state,
            server: self.server - before.server,
        }
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
    let mut work = Work::default();
    for pods in [0..WARM_UP, WARM_UP..N_PODS] {
        let end = pods.end;
        work = Work::of(&metrics(&of_server).await, &metrics(&of_scheduler).await);
        server.import(pods.map(|i| pod(&templates[i % templates.len()], i)).collect()).await.unwrap();
        while n_bound(&metrics(&of_scheduler).await) < end {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let work = Work::of(&metrics(&of_server).await, &metrics(&of_scheduler).await).since(&work);
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
async fn a_pod_on_20_000_nodes_costs_what_it_does_on_2_000() {
    let (few, _) = bound_on(2_000).await;
    let (many, findings) = bound_on(20_000).await;
    assert_eq!((findings.pods, &findings.violations), (N_PODS, &vec![]));
    for work in [&few, &many] {
        assert_eq!((work.n_bindings, work.n_others), ((N_PODS - WARM_UP) as f64, 0.0), "{work:?}");
    }
    #[cfg(target_os = "linux")]
    for (what, few, many) in [
        ("decisions", few.decisions, many.decisions),
        ("the scheduler's state", few.state, many.state),
        ("the API server", few.server, many.server),
    ] {
        assert!(few > 0.0 && many < TOLERATED * few, "{what}: {few} s on 2,000 nodes, {many} s on 20,000");
    }
}
