//! `berth-bench up`: how long a `berth up` cluster takes to run Deployments with all kinds of rules.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use berth_api::resource::{DEPLOYMENTS, NODES, PODS};
use berth_bench::count;
use berth_bench::latency::{Latency, latencies};
use berth_bench::measure::{Figures, Samples};
use berth_bench::scale::templates::templates;
use berth_client::call;
use kube::Client;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::child::{Server, own_cpu_time, temporary_dir};
use super::load::{TIMEOUT, create, deployment_object, namespace_objects};
use super::watched::{Watched, within};
use crate::error::BenchError;

const SETTLE_TIMEOUT: Duration = Duration::from_secs(1_800);
/// Interval between two requests that measure the latency.
const PROBE_INTERVAL: Duration = Duration::from_millis(50);

/// Parameters of the benchmark.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Settle {
    /// Number of simulated nodes
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = count(1..=99_999))]
    pub nodes: usize,
    /// Total number of pods of all Deployments
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = count(1..=999_999))]
    pub pods: usize,
}

/// The results.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettleReport {
    pub nodes: usize,
    /// Pods at the end.
    pub pods: usize,
    /// Running pods at the end.
    pub running: usize,
    /// Unplaced pods at the end.
    pub unplaced: usize,
    /// From the start of the process until the API server responds.
    pub ready_seconds: f64,
    /// From the start of the process until all nodes are ready.
    pub nodes_ready_seconds: f64,
    /// From the creation of the first Deployment until the cluster has settled.
    pub settled_seconds: f64,
    /// Pods divided by that time.
    pub pods_per_second: f64,
    /// Peak memory of the cluster process.
    pub peak_rss_bytes: Option<u64>,
    /// Its CPU time divided by the elapsed time.
    pub cores: f64,
    /// CPU time of this process, the observer, divided by the elapsed time.
    pub own_cores: f64,
    /// Latency of external GET requests meanwhile.
    pub probe: Figures,
    /// Latency of requests by verb, measured by the API server.
    pub latencies: Vec<Latency>,
}

/// Runs the benchmark; calls `progress` with the number of pods that run or are unschedulable.
///
/// # Errors
/// The cluster cannot be started, rejects a request, or does not settle.
pub async fn run(settle: Settle, progress: &dyn Fn(usize)) -> Result<SettleReport, BenchError> {
    let directory = temporary_dir()?;
    let n_nodes = settle.nodes.to_string();
    let zones = settle.nodes.min(10).to_string();
    let started = Instant::now();
    let args = [
        "up",
        "--no-summary",
        "--nodes",
        &n_nodes,
        "--zones",
        &zones,
        "--start-after",
        "0s",
        "--node-label",
        "example.com/disk=ssd",
    ];
    let (server, options) = Server::start(&args, &directory)?;
    let client = options.client().await?;
    let ready = started.elapsed();

    let mut nodes = Watched::start(&client, &NODES);
    let n_ready = |nodes: &Watched| nodes.objects().iter().filter(|node| node.is_ready()).count();
    nodes.until("all nodes are ready", SETTLE_TIMEOUT, |nodes| n_ready(nodes) >= settle.nodes).await?;
    let nodes_ready = started.elapsed();

    create(&client, namespace_objects(), 1).await?;
    let (cpu, own_cpu, begin) = (server.cpu_time(), own_cpu_time(), Instant::now());
    let templates = templates(false);
    let replicas = |i: usize| settle.pods / templates.len() + usize::from(i < settle.pods % templates.len());
    let deployments = templates.iter().enumerate().map(|(i, template)| {
        let path = DEPLOYMENTS.path(&template.pod.metadata.namespace);
        (path, deployment_object(template, replicas(i)))
    });
    create(&client, deployments.collect(), 4).await?;
    let stop = CancellationToken::new();
    let probing = tokio::spawn(probe(client.clone(), stop.clone()));
    let mut pods = Watched::start(&client, &PODS);
    let mut settled = HashSet::new();
    let settling = async {
        while settled.len() < settle.pods {
            pods.next(|pod| {
                let name = pod.metadata.namespaced_name();
                if pod.status.phase == "Running" || pod.unscheduled_condition().is_some() {
                    settled.insert(name);
                } else {
                    settled.remove(&name);
                }
            })
            .await;
            progress(settled.len());
        }
    };
    within(SETTLE_TIMEOUT, "all pods run or are unschedulable", settling).await?;
    let settled = begin.elapsed();
    stop.cancel();
    let probed = probing.await.unwrap_or_default();

    let cores = |before: Option<Duration>, after: Option<Duration>| {
        let used = after.zip(before).map(|(after, before)| after.saturating_sub(before));
        used.map_or(0.0, |used| used.as_secs_f64() / settled.as_secs_f64())
    };
    let metrics = call::send(&client, call::get("/metrics"), TIMEOUT, 64 << 20).await?;
    Ok(SettleReport {
        nodes: nodes.len(),
        pods: pods.len(),
        running: pods.objects().iter().filter(|pod| pod.status.phase == "Running").count(),
        unplaced: pods.objects().iter().filter(|pod| pod.node().is_none()).count(),
        ready_seconds: ready.as_secs_f64(),
        nodes_ready_seconds: nodes_ready.as_secs_f64(),
        settled_seconds: settled.as_secs_f64(),
        pods_per_second: pods.len() as f64 / settled.as_secs_f64(),
        peak_rss_bytes: server.peak_rss_bytes(),
        cores: cores(cpu, server.cpu_time()),
        own_cores: cores(own_cpu, own_cpu_time()),
        probe: probed.figures(),
        latencies: latencies(&String::from_utf8_lossy(&metrics)),
    })
}

/// Reads a small object repeatedly to measure the latency that an external client observes.
async fn probe(client: Client, stop: CancellationToken) -> Samples {
    let mut samples = Samples::default();
    loop {
        let begin = Instant::now();
        let path = "/api/v1/namespaces/default";
        if call::send(&client, call::get(path), TIMEOUT, call::MAX_OBJECT_BYTES).await.is_ok() {
            samples.add(begin.elapsed());
        }
        tokio::select! {
            () = stop.cancelled() => return samples,
            () = tokio::time::sleep(PROBE_INTERVAL) => {}
        }
    }
}
