//! `berth-bench soak`: a cluster process under constant load for a long time, and what grows.

use std::path::Path;
use std::time::{Duration, Instant};

use berth_api::resource::{DEPLOYMENTS, NODES, PODS};
use berth_api::syntax::labels::HOSTNAME;
use berth_bench::count;
use berth_bench::measure::Samples;
use berth_bench::soak::{Sample, SoakReport};
use berth_client::call::{self, CallError};
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::child::{Server, temporary_dir};
use super::load::{TIMEOUT, post};
use crate::error::BenchError;

const NAMESPACE: &str = "default";
/// Pods of each Deployment, on average.
const REPLICAS: usize = 10;
/// Samples of a test; at least this many seconds apart.
const N_SAMPLES: u64 = 120;
const LEAST_INTERVAL: u64 = 5;

/// Parameters of the test.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Soak {
    /// Length of the test in minutes
    #[arg(long, value_name = "M", default_value_t = 60, value_parser = count(1..=100_000))]
    pub minutes: usize,
    /// Number of simulated nodes
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = count(1..=9_999))]
    pub nodes: usize,
    /// Number of Deployments, with ten pods each on average
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = count(1..=9_999))]
    pub deployments: usize,
    /// Actions per second
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = count(1..=1_000))]
    pub rate: usize,
}

impl Soak {
    /// How long the load lasts.
    pub fn seconds(&self) -> u64 {
        60 * self.minutes as u64
    }
}

/// Runs the test; `progress` is called with each sample.
///
/// # Errors
/// The cluster cannot be started or ends.
pub async fn run(soak: Soak, progress: &dyn Fn(&Sample)) -> Result<SoakReport, BenchError> {
    let directory = temporary_dir()?;
    let data = directory.path().join("data");
    let (nodes, data_dir) = (soak.nodes.to_string(), data.display().to_string());
    let duration = Duration::from_secs(soak.seconds());
    // Events live for a part of the test, so that their number is constant after the start-up.
    let event_ttl = format!("{}s", soak.seconds() / 10);
    let args = [
        "up",
        "--no-summary",
        "--nodes",
        &nodes,
        "--zones",
        "3",
        "--data-dir",
        &data_dir,
        "--event-ttl",
        &event_ttl,
    ];
    let (server, options) = Server::start(&args, &directory)?;
    let client = options.client().await?;
    for i in 0..soak.deployments {
        post(&client, &DEPLOYMENTS.path(NAMESPACE), &deployment(i)).await?;
    }
    let mut load = Load { client, soak, n_actions: 0, latencies: Samples::default(), n_failed: 0 };
    let mut ticks = tokio::time::interval(Duration::from_secs(1).div_f64(soak.rate as f64));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let interval = Duration::from_secs((soak.seconds() / N_SAMPLES).max(LEAST_INTERVAL));
    let (begin, mut samples, mut next) = (Instant::now(), Vec::new(), interval);
    while begin.elapsed() < duration {
        ticks.tick().await;
        load.act().await;
        if begin.elapsed() >= next {
            next += interval;
            let figures = std::mem::take(&mut load.latencies).figures();
            let sample = Sample {
                seconds: begin.elapsed().as_secs_f64(),
                rss_bytes: server.rss_bytes().unwrap_or(0),
                files: server.n_files().unwrap_or(0),
                disk_bytes: size_of(&data),
                requests: figures.decisions,
                failed: std::mem::take(&mut load.n_failed),
                p50_us: figures.p50_us,
                p99_us: figures.p99_us,
            };
            progress(&sample);
            samples.push(sample);
        }
    }
    Ok(SoakReport::new(soak.nodes, soak.deployments * REPLICAS, soak.rate, samples))
}

/// The bytes of the files in a directory.
fn size_of(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(|data| data.is_file())
        .map(|data| data.len())
        .sum()
}

/// Every second Deployment keeps its pods apart: no two on a node.
fn deployment(i: usize) -> Value {
    let app = format!("soak-{i}");
    let labels = json!({"app": app});
    let mut spec = json!({"containers": [{"name": "c", "image": "registry.example/soak:1",
        "resources": {"requests": {"cpu": "20m", "memory": "16Mi"}}}]});
    if i.is_multiple_of(2) {
        let term = json!({"weight": 1, "podAffinityTerm": {"labelSelector": {"matchLabels": labels},
            "topologyKey": HOSTNAME}});
        spec["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
            json!([term]);
    }
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app}, "spec": {
        "replicas": REPLICAS, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": spec}}})
}

struct Load {
    client: Client,
    soak: Soak,
    n_actions: usize,
    latencies: Samples,
    n_failed: usize,
}

impl Load {
    /// The next action: a rollout, a scaling, an eviction, a relabelled pod, a replaced node, in turn. A failure is counted.
    async fn act(&mut self) {
        let i = self.n_actions;
        self.n_actions += 1;
        let turn = i / 6;
        let deployment =
            DEPLOYMENTS.object_path(NAMESPACE, &format!("soak-{}", turn % self.soak.deployments.max(1)));
        let done = match i % 6 {
            0 => {
                let label =
                    json!({"spec": {"template": {"metadata": {"labels": {"version": turn.to_string()}}}}});
                self.send(Method::PATCH, &deployment, label).await
            }
            1 => {
                let replicas = if turn.is_multiple_of(2) { REPLICAS + 5 } else { REPLICAS - 5 };
                self.send(Method::PATCH, &deployment, json!({"spec": {"replicas": replicas}})).await
            }
            2 | 3 => match self.some_pod(turn).await {
                Ok(Some(name)) if i % 6 == 2 => {
                    let path = format!("{}/eviction", PODS.object_path(NAMESPACE, &name));
                    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
                        "metadata": {"name": name, "namespace": NAMESPACE}});
                    self.send(Method::POST, &path, eviction).await
                }
                Ok(Some(name)) => {
                    let label = json!({"metadata": {"labels": {"relabelled": turn.to_string()}}});
                    self.send(Method::PATCH, &PODS.object_path(NAMESPACE, &name), label).await
                }
                Ok(None) => Ok(Value::Null),
                Err(error) => Err(error),
            },
            4 => {
                let label = json!({"metadata": {"labels": {"soak": turn.to_string()}}});
                self.send(Method::PATCH, &NODES.object_path("", &self.node(turn)), label).await
            }
            // One of twenty turns replaces a node; its pods are deleted with it.
            _ if turn % 20 == 19 => self.replace_node(&self.node(turn)).await,
            _ => self.send(Method::GET, &deployment, Value::Null).await,
        };
        self.n_failed += usize::from(done.is_err_and(|error| !error.is_not_found() && !error.is_conflict()));
    }

    /// The name that `berth up` gives a node.
    fn node(&self, turn: usize) -> String {
        let width = self.soak.nodes.to_string().len();
        format!("node-{:0width$}", turn % self.soak.nodes.max(1) + 1)
    }

    async fn replace_node(&mut self, name: &str) -> Result<Value, CallError> {
        let path = NODES.object_path("", name);
        let mut node = self.send(Method::GET, &path, Value::Null).await?;
        self.send(Method::DELETE, &path, Value::Null).await?;
        node["metadata"] = json!({"name": name, "labels": node["metadata"]["labels"]});
        self.send(Method::POST, &NODES.path(""), node).await
    }

    async fn some_pod(&mut self, turn: usize) -> Result<Option<String>, CallError> {
        let path = format!(
            "{}?labelSelector=app%3Dsoak-{}&limit=1",
            PODS.path(NAMESPACE),
            turn % self.soak.deployments.max(1)
        );
        let list = self.send(Method::GET, &path, Value::Null).await?;
        Ok(list["items"][0]["metadata"]["name"].as_str().map(str::to_owned))
    }

    async fn send(&mut self, method: Method, path: &str, body: Value) -> Result<Value, CallError> {
        let content_type =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let begin = Instant::now();
        let answer =
            call::json(&self.client, call::with_body(method, path, content_type, body), TIMEOUT).await;
        self.latencies.add(begin.elapsed());
        answer
    }
}
