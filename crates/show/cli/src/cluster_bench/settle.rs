//! `berth bench up`: how long a `berth up` cluster takes to run Deployments with all kinds of rules.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::time::{Duration, Instant};

use berth_api::resource::DEPLOYMENTS;
use berth_apiserver::TemporaryDir;
use berth_bench::measure::{Figures, Samples};
use berth_bench::scale::templates::templates;
use berth_client::call;
use berth_client::connect::Options;
use kube::Client;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::ClusterBenchError;
use super::child::{Server, own_cpu_time};
use super::load::{TIMEOUT, create, deployment_object, namespace_objects};
use crate::cluster::observed::{Observed, Stage};
use crate::cluster::overview::{Overview, SettleCriteria, SettleResult};
use crate::render::status_line::StatusLine;

const SETTLE_TIMEOUT: Duration = Duration::from_secs(1_800);
/// Interval between two requests that measure the latency.
const PROBE_INTERVAL: Duration = Duration::from_millis(50);

/// Parameters of the benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Settle {
    /// Simulated nodes.
    pub n_nodes: usize,
    /// Pods of all Deployments.
    pub n_pods: usize,
    /// Whether to show the live summary.
    pub show_summary: bool,
}

/// The results.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Nodes.
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

/// Latency of requests of one verb, as upper bounds of the server's histogram buckets in seconds; none above the largest bucket.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Verb.
    pub verb: String,
    /// Requests.
    pub requests: u64,
    /// Upper bound of the median.
    pub p50_seconds: Option<f64>,
    /// Upper bound of the 99th percentile.
    pub p99_seconds: Option<f64>,
}

/// Runs the benchmark.
///
/// # Errors
/// The cluster cannot be started, rejects a request, or does not settle.
pub async fn run(settle: Settle) -> Result<Report, ClusterBenchError> {
    let directory = TemporaryDir::new()
        .map_err(|e| ClusterBenchError::Other(format!("cannot create a temporary directory: {e}")))?;
    let kubeconfig = directory.path().join("kubeconfig");
    let n_nodes = settle.n_nodes.to_string();
    let zones = settle.n_nodes.min(10).to_string();
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
    let server = Server::start(&args, &kubeconfig)?;
    let client = Options { kubeconfig: Some(kubeconfig), ..Options::default() }.client().await?;
    let ready = started.elapsed();

    let mut overview = Overview::start(client.clone(), StatusLine::new(settle.show_summary), None);
    let idle = || async { true };
    let rest = |n_nodes| SettleCriteria { n_nodes, is_scheduler_idle: idle, timeout: Some(SETTLE_TIMEOUT) };
    wait(&mut overview, rest(settle.n_nodes), "all nodes are ready").await?;
    let nodes_ready = started.elapsed();

    create(&client, namespace_objects(), 1).await?;
    let (cpu, own_cpu, begin) = (server.cpu_time(), own_cpu_time(), Instant::now());
    let templates = templates(false);
    let replicas =
        |i: usize| settle.n_pods / templates.len() + usize::from(i < settle.n_pods % templates.len());
    let deployments = templates.iter().enumerate().map(|(i, template)| {
        let path = DEPLOYMENTS.path(&template.pod.metadata.namespace);
        (path, deployment_object(template, replicas(i)))
    });
    create(&client, deployments.collect(), 4).await?;
    let stop = CancellationToken::new();
    let probing = tokio::spawn(probe(client.clone(), stop.clone()));
    wait(&mut overview, rest(settle.n_nodes), "all pods are placed and running").await?;
    let settled = begin.elapsed();
    stop.cancel();
    let probed = probing.await.unwrap_or_default();
    overview.clear();

    let cores = |before: Option<Duration>, after: Option<Duration>| {
        let used = after.zip(before).map(|(after, before)| after.saturating_sub(before));
        used.map_or(0.0, |used| used.as_secs_f64() / settled.as_secs_f64())
    };
    let observed = overview.observed();
    let count = |stage| observed.tally().stages.get(&stage).copied().unwrap_or(0);
    let metrics = call::send(&client, call::get("/metrics"), TIMEOUT, 64 << 20).await?;
    Ok(Report {
        nodes: observed.nodes.len(),
        pods: observed.pods.len(),
        running: count(Stage::Running),
        unplaced: n_without_node(observed),
        ready_seconds: ready.as_secs_f64(),
        nodes_ready_seconds: nodes_ready.as_secs_f64(),
        settled_seconds: settled.as_secs_f64(),
        pods_per_second: observed.pods.len() as f64 / settled.as_secs_f64(),
        peak_rss_bytes: server.peak_rss_bytes(),
        cores: cores(cpu, server.cpu_time()),
        own_cores: cores(own_cpu, own_cpu_time()),
        probe: probed.figures(),
        latencies: latencies(&String::from_utf8_lossy(&metrics)),
    })
}

async fn wait<F: Future<Output = bool>>(
    overview: &mut Overview,
    rest: SettleCriteria<impl Fn() -> F>,
    what: &str,
) -> Result<(), ClusterBenchError> {
    match overview.until_settled(rest).await? {
        SettleResult::Settled => Ok(()),
        SettleResult::TimedOut(why) => Err(ClusterBenchError::Timeout {
            what: format!("{what} ({why})"),
            seconds: SETTLE_TIMEOUT.as_secs(),
        }),
    }
}

fn n_without_node(observed: &Observed) -> usize {
    observed.pods.values().filter(|pod| pod.node().is_none()).count()
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

/// Reads `apiserver_request_duration_seconds` from the metrics, without the long-running watches.
fn latencies(metrics: &str) -> Vec<Latency> {
    let mut buckets: BTreeMap<String, HashMap<String, u64>> = BTreeMap::new();
    for line in metrics.lines() {
        let Some(rest) = line.strip_prefix("apiserver_request_duration_seconds_bucket{") else { continue };
        let Some((labels, value)) = rest.rsplit_once("} ") else { continue };
        let label = |name: &str| {
            let text = labels.split(',').find_map(|l| l.strip_prefix(name)?.strip_prefix("=\""))?;
            Some(text.trim_end_matches('"').to_owned())
        };
        let count = value.split(' ').next().and_then(|v| v.parse::<f64>().ok());
        if let (Some(verb), Some(bound), Some(count)) = (label("verb"), label("le"), count)
            && verb != "WATCH"
        {
            *buckets.entry(verb).or_default().entry(bound).or_default() += count as u64;
        }
    }
    buckets.into_iter().map(|(verb, buckets)| latency(verb, buckets)).collect()
}

fn latency(verb: String, buckets: HashMap<String, u64>) -> Latency {
    let mut buckets: Vec<(f64, u64)> = buckets
        .into_iter()
        .filter_map(|(bound, n)| Some((bound.replace("+Inf", "inf").parse().ok()?, n)))
        .collect();
    buckets.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let requests = buckets.last().map_or(0, |(_, n)| *n);
    let quantile = |percent: u64| {
        let bound = buckets.iter().find(|(_, n)| n * 100 >= requests * percent).map(|(bound, _)| *bound);
        bound.filter(|bound| bound.is_finite())
    };
    Latency { verb, requests, p50_seconds: quantile(50), p99_seconds: quantile(99) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_bounds_of_buckets_over_all_resources() {
        let metrics = "# HELP x\n\
            apiserver_request_duration_seconds_bucket{verb=\"GET\",resource=\"pods\",le=\"0.1\"} 98\n\
            apiserver_request_duration_seconds_bucket{verb=\"GET\",resource=\"pods\",le=\"0.5\"} 99\n\
            apiserver_request_duration_seconds_bucket{verb=\"GET\",resource=\"pods\",le=\"+Inf\"} 99\n\
            apiserver_request_duration_seconds_bucket{verb=\"GET\",resource=\"nodes\",le=\"0.1\"} 0\n\
            apiserver_request_duration_seconds_bucket{verb=\"GET\",resource=\"nodes\",le=\"0.5\"} 0\n\
            apiserver_request_duration_seconds_bucket{verb=\"GET\",resource=\"nodes\",le=\"+Inf\"} 1\n\
            apiserver_request_duration_seconds_bucket{verb=\"WATCH\",le=\"+Inf\"} 7\n";
        let expected =
            Latency { verb: "GET".to_owned(), requests: 100, p50_seconds: Some(0.1), p99_seconds: Some(0.5) };
        assert_eq!(latencies(metrics), [expected]);
    }
}
