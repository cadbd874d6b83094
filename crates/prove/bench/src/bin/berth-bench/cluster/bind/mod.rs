//! `berth-bench bind`: pods bound by the scheduler, through an API server that stores every binding durably.
//!
//! API server and scheduler are processes. Nodes and pending pods are loaded first; then the scheduler starts. There are no
//! other watches: the scheduler's metrics show how far it is, and its placements are read and checked at the end.

mod failures;
mod given;
mod loaded;
mod observed;
mod placed;

use std::path::PathBuf;

use berth_bench::bind::Rates;
use berth_bench::count;
use berth_testkit::check::Findings;
use serde::Serialize;

use self::failures::Failures;
use self::loaded::Loaded;
use self::observed::Run;
use super::child;
use crate::error::BenchError;

/// Without `--pods`, a small cluster gets more pods than nodes: its run would be too short.
const LEAST_PODS: usize = 20_000;

/// Parameters of the benchmark.
#[derive(Clone, Debug, clap::Args)]
pub struct Bind {
    /// Number of nodes; several numbers, separated by commas, are measured in turn, each in a new cluster
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [5_000], value_parser = count(1..=1_000_000))]
    pub nodes: Vec<usize>,
    /// Number of pods [default: as many as nodes, but at least 20,000]
    #[arg(long, value_name = "N", value_parser = count(2..=9_999_999))]
    pub pods: Option<usize>,
    /// Limit of concurrent bind requests [default: that of the scheduler]
    #[arg(long, value_name = "N", value_parser = count(1..=1_000))]
    pub bind_concurrency: Option<usize>,
    /// Record the scheduler's decisions meanwhile
    #[arg(long)]
    pub record: bool,
    /// Kill and restart the API server and the scheduler at the end
    #[arg(long)]
    pub restart: bool,
    /// Measure on the API server of this kubeconfig, which must have neither nodes nor pods
    ///
    /// Namespaces, nodes and pods are created by requests. Nodes and pods are deleted at the end, but not after Ctrl-C.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "restart"])]
    pub kubeconfig: Option<PathBuf>,
    /// Measure the scheduler with this name instead of berth scheduler; it must be started when the pods are created
    #[arg(long, value_name = "NAME", requires = "kubeconfig", conflicts_with = "bind_concurrency")]
    pub scheduler_name: Option<String>,
    /// Seed for node sizes, labels and taints
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl Bind {
    /// Number of pods with this many nodes.
    fn pods_on(&self, n_nodes: usize) -> usize {
        self.pods.unwrap_or(n_nodes.max(LEAST_PODS))
    }

    /// Steps of all sizes: loaded nodes and pods, and bindings.
    pub fn n_steps(&self) -> usize {
        self.nodes.iter().map(|nodes| nodes + 2 * self.pods_on(*nodes)).sum()
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BindReport {
    /// In the order of `--nodes`.
    pub sizes: Vec<BindSize>,
}

impl BindReport {
    /// Whether all pods are bound, and no rule is violated.
    pub fn is_good(&self) -> bool {
        self.sizes.iter().all(|size| size.unbound == 0 && size.check.n_violations == 0)
    }
}

/// The results with one number of nodes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BindSize {
    pub nodes: usize,
    pub pods: usize,
    /// Creating nodes and pods.
    pub load_seconds: f64,
    /// From the start of the API server with them until it served; none with `--kubeconfig`.
    pub start_seconds: Option<f64>,
    /// From the start of the scheduler to its first binding.
    pub first_binding_seconds: f64,
    /// From the start of the scheduler to the last binding.
    pub seconds: f64,
    /// Pods that are not bound.
    pub unbound: usize,
    #[serde(flatten)]
    pub rates: Rates,
    pub memory: Memory,
    pub failures: Failures,
    /// What the independent check found.
    pub check: Findings,
}

/// Resident memory in bytes; on Linux only.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// Of the API server before the scheduler starts.
    pub server_bytes: Option<u64>,
    pub server_peak_bytes: Option<u64>,
    /// Of the scheduler at its first binding.
    pub scheduler_bytes: Option<u64>,
    /// Its peak until then.
    pub scheduler_list_peak_bytes: Option<u64>,
    pub scheduler_peak_bytes: Option<u64>,
}

/// Runs the benchmark; calls `progress` with the number of steps.
///
/// # Errors
/// A process cannot be started or does not respond, or the API server rejects a request.
pub async fn run(bind: Bind, progress: &dyn Fn(usize)) -> Result<BindReport, BenchError> {
    // Filling a store takes long.
    if bind.scheduler_name.is_none() {
        child::program()?;
    }
    let mut sizes = Vec::new();
    let mut n_before = 0;
    for n_nodes in bind.nodes.iter().copied() {
        let n_pods = bind.pods_on(n_nodes);
        let progress = |n| progress(n_before + n);
        sizes.push(match &bind.kubeconfig {
            Some(kubeconfig) => given::size(&bind, kubeconfig, n_nodes, n_pods, &progress).await?,
            None => size(&bind, n_nodes, n_pods, &progress).await?,
        });
        n_before += n_nodes + 2 * n_pods;
    }
    Ok(BindReport { sizes })
}

async fn size(
    bind: &Bind,
    n_nodes: usize,
    n_pods: usize,
    progress: &dyn Fn(usize),
) -> Result<BindSize, BenchError> {
    let mut cluster = Loaded::load(bind, n_nodes, n_pods, progress).await?;
    let Run { first_binding, last_binding, rates, scheduler, mut memory } =
        observed::run(bind, &cluster, &|n_bound| progress(n_nodes + n_pods + n_bound)).await?;
    memory.server_bytes = cluster.rss_bytes;
    memory.server_peak_bytes = cluster.server.peak_rss_bytes();
    let placed = placed::read(bind.seed, &cluster.client, &cluster.templates, n_pods).await?;
    let unbound = n_pods.saturating_sub(placed.len());
    let check = placed::check(bind.seed, &cluster.templates, n_nodes, &placed);
    let mut failures = Failures::default();
    if bind.restart {
        failures.restart(bind, &mut cluster, scheduler).await?;
    }
    Ok(BindSize {
        nodes: n_nodes,
        pods: n_pods,
        load_seconds: cluster.load_seconds,
        start_seconds: Some(cluster.start_seconds),
        first_binding_seconds: first_binding.as_secs_f64(),
        seconds: last_binding.as_secs_f64(),
        unbound,
        rates,
        memory,
        failures,
        check,
    })
}
