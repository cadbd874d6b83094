//! `berth-bench console`: pages of a large cluster, their times and memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::object::{Node, Pod};
use berth_bench::count;
use berth_bench::dump;
use berth_bench::measure::rss_bytes;
use berth_client::call;
use berth_console::{Request as Page, State, Update, reads_objects};
use berth_console_server::{AccessToken, Authenticator, Console, EvictionRetries, ServerOptions, start};
use berth_engine::{Cluster, Settings};
use berth_simulate::SimulationOptions;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::Client;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::child::{own_cpu_since, own_cpu_time};
use crate::error::BenchError;

/// Unschedulable pods.
const N_PENDING: usize = 200;
const TIMEOUT: Duration = Duration::from_secs(120);
/// Between two changes.
const INTERVAL: Duration = Duration::from_secs(1);

/// Parameters of the benchmark.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct ConsoleBench {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = count(1..=9_999_999))]
    pub nodes: usize,
    /// Number of pods
    #[arg(long, value_name = "N", default_value_t = 150_000, value_parser = count(1..=9_999_999))]
    pub pods: usize,
    /// Number of open pages
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = count(1..=200))]
    pub open: usize,
    /// Number of changes while the pages are open
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = count(1..=65_535))]
    pub changes: usize,
    /// Seed for nodes and pods
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// The results.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleReport {
    pub nodes: usize,
    pub pods: usize,
    /// Memory of the engine's state alone.
    pub engine_bytes: Option<u64>,
    /// What the console needs above that, before the first page.
    pub console_bytes: Option<u64>,
    /// Each page, requested twice.
    pub pages: Vec<PageTimes>,
    /// Open pages that follow changes.
    pub open: OpenPages,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PageTimes {
    /// Path and query.
    pub path: String,
    /// The HTTP status code.
    pub status: u16,
    /// Bytes of the page.
    pub bytes: usize,
    /// The first request.
    pub first_ms: f64,
    /// The second request.
    pub again_ms: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenPages {
    /// Their number.
    pub pages: usize,
    pub changes: usize,
    /// From a change until a page shows it.
    pub p50_ms: f64,
    /// The longest of these times.
    pub max_ms: f64,
    /// CPU time of server and clients per time.
    pub cpu_cores: Option<f64>,
    /// Memory at the end, above that before the first page.
    pub bytes: Option<u64>,
}

fn other(error: impl std::fmt::Display) -> BenchError {
    BenchError::Other(error.to_string())
}

fn typed<T: DeserializeOwned>(value: std::io::Result<Value>) -> Result<T, BenchError> {
    serde_json::from_value(value.map_err(other)?).map_err(other)
}

impl ConsoleBench {
    fn nodes(&self) -> impl Iterator<Item = Result<Node, BenchError>> {
        dump::nodes(self.nodes, self.seed).map(typed)
    }

    fn pods(&self) -> impl Iterator<Item = Result<Pod, BenchError>> {
        dump::pods(self.nodes, self.pods, self.seed).map(typed)
    }

    /// The nodes that a scheduler selects for the pods. An unschedulable pod gets the node of the dump, against its rules.
    fn schedule(&self) -> Result<Vec<String>, BenchError> {
        let mut cluster = Cluster::new(Settings::default());
        for node in self.nodes() {
            cluster.set_node(&node?);
        }
        let mut select = |mut pod: Pod| {
            let dumped = std::mem::take(&mut pod.spec.node_name);
            let prepared = cluster.prepare(&pod);
            if let Some(node) = cluster.place(&prepared).node() {
                return node.to_owned();
            }
            pod.spec.node_name.clone_from(&dumped);
            cluster.set_pod(&pod);
            dumped
        };
        self.pods().map(|pod| pod.map(&mut select)).collect()
    }

    /// The pods on these nodes.
    fn scheduled(&self, nodes: &[String]) -> impl Iterator<Item = Result<Pod, BenchError>> {
        self.pods().zip(nodes).map(|(pod, node)| {
            let mut pod = pod?;
            pod.spec.node_name.clone_from(node);
            Ok(pod)
        })
    }

    /// An unschedulable pod, such as those that users look at.
    fn pending(&self, i: usize, cpu: usize) -> Pod {
        let pod = json!({"metadata": {"name": format!("pending-{i}"), "namespace": "default", "creationTimestamp":
            "2026-01-01T00:00:00Z"}, "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests":
            {"cpu": cpu.to_string()}}}]}, "status": {"phase": "Pending"}});
        serde_json::from_value(pod).unwrap_or_default()
    }

    fn engine(&self, nodes: &[String]) -> Result<Cluster, BenchError> {
        let mut cluster = Cluster::new(Settings::default());
        for node in self.nodes() {
            cluster.set_node(&node?);
        }
        for pod in self.scheduled(nodes) {
            cluster.set_pod(&pod?);
        }
        Ok(cluster)
    }

    fn state(&self, nodes: &[String]) -> Result<State, BenchError> {
        let mut state = State::live("bench", SimulationOptions::default()).map_err(other)?;
        let mut apply = |update| _ = state.apply([update], |_| ());
        for node in self.nodes() {
            apply(Update::node(node?));
        }
        for pod in self.scheduled(nodes) {
            apply(Update::pod(pod?));
        }
        (0..N_PENDING).for_each(|i| apply(Update::pod(self.pending(i, 1000))));
        Ok(state)
    }

    fn paths(&self) -> Result<Vec<String>, BenchError> {
        let mut paths: Vec<String> = [
            "/",
            "/topology",
            "/topology?color=workload",
            "/topology?color=rule",
            "/pending",
            "/workloads",
            "/nodes",
            "/rules",
            "/enforcer",
            "/lint",
            "/timeline",
            "/events",
            "/sets",
            "/what-if",
            "/search?q=web",
            "/pods/default/pending-0",
        ]
        .map(str::to_owned)
        .to_vec();
        let node = self.nodes().next().transpose()?.map(|node| node.metadata.name).unwrap_or_default();
        paths.push(format!("/nodes/{node}"));
        if let Some(pod) = self.pods().next().transpose()? {
            paths.push(format!("/pods/{}/{}", pod.metadata.namespace, pod.metadata.name));
        }
        paths.push(format!("/what-if?remove-node={node}"));
        Ok(paths)
    }
}

/// The memory of this process above another one.
fn above(before: Option<u64>) -> Option<u64> {
    Some(rss_bytes()?.saturating_sub(before?))
}

/// Runs the benchmark; the server ends with `stop`. `progress` gets what has been measured.
///
/// # Errors
/// The console cannot be served, or a page is not the expected one.
pub async fn run(
    bench: ConsoleBench,
    stop: CancellationToken,
    progress: &dyn Fn(&str),
) -> Result<ConsoleReport, BenchError> {
    let stop = stop.child_token();
    let _guard = stop.clone().drop_guard();
    let nodes = bench.schedule()?;
    progress("the pods are placed");
    let empty = rss_bytes();
    let engine = bench.engine(&nodes)?;
    let engine_bytes = above(empty);
    let before = rss_bytes();
    let state = bench.state(&nodes)?;
    let state_bytes = above(before);
    drop(engine);
    progress("the state is built");
    let started = rss_bytes();
    let console = Console::new(state);
    let token = AccessToken::random().map_err(other)?;
    let options = ServerOptions {
        address: ([127, 0, 0, 1], 0).into(),
        certificate: None,
        hosts: Vec::new(),
        authenticator: Authenticator::Token(token.clone()),
        is_live: true,
        write: None,
        retries: EvictionRetries::default(),
    };
    let address = start(console.clone(), options, stop).await.map_err(other)?;
    let mut config = kube::Config::new(format!("http://{address}").parse().map_err(other)?);
    config.auth_info.token = Some(token.secret().to_owned().into());
    let client = berth_client::connect::client(config)?;
    let paths = bench.paths()?;
    let mut pages = Vec::new();
    for path in &paths {
        let (status, bytes, first_ms) = get(&client, path).await?;
        let (_, _, again_ms) = get(&client, path).await?;
        progress(&format!("{path}: {first_ms:.0} ms"));
        pages.push(PageTimes { path: path.clone(), status, bytes, first_ms, again_ms });
    }
    let open = follow(&bench, &console, &client, &paths, started).await?;
    let console_bytes = state_bytes.zip(engine_bytes).map(|(state, engine)| state.saturating_sub(engine));
    Ok(ConsoleReport {
        nodes: bench.nodes,
        pods: bench.pods + N_PENDING,
        engine_bytes,
        console_bytes,
        pages,
        open,
    })
}

async fn get(client: &Client, path: &str) -> Result<(u16, usize, f64), BenchError> {
    let begin = Instant::now();
    let (status, bytes, _) = fetch(client, path, None).await?;
    Ok((status, bytes, begin.elapsed().as_secs_f64() * 1e3))
}

/// The status of a page, its length and its entity tag. With a tag, only another page is sent, as to the script of open pages.
async fn fetch(
    client: &Client,
    path: &str,
    tag: Option<HeaderValue>,
) -> Result<(u16, usize, Option<HeaderValue>), BenchError> {
    let mut request = call::get(path);
    request.headers_mut().extend(tag.map(|tag| (header::IF_NONE_MATCH, tag)));
    match call::open(client, request, TIMEOUT).await {
        Ok(page) => {
            let tag = page.headers().get(header::ETAG).cloned();
            let body = page.into_body().collect().await.map_err(other)?;
            Ok((200, body.to_bytes().len(), tag))
        }
        Err(error) => Ok((error.code().ok_or(error)?, 0, None)),
    }
}

/// Changes two pods once a second while pages are open.
async fn follow(
    bench: &ConsoleBench,
    console: &Arc<Console>,
    client: &Client,
    paths: &[String],
    started: Option<u64>,
) -> Result<OpenPages, BenchError> {
    let (changed, changes) = watch::channel(Instant::now());
    // Pages that read all objects again are not those that people leave open.
    let is_light = |path: &&String| {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        !reads_objects(&Page { path, query, form: None })
    };
    let paths: Vec<&String> = paths.iter().filter(is_light).collect();
    let viewers = (0..bench.open).map(|i| {
        tokio::spawn(view(client.clone(), paths[i % paths.len()].clone(), bench.changes, changes.clone()))
    });
    let viewers: Vec<_> = viewers.collect();
    let nodes: Result<Vec<Node>, _> = bench.nodes().take(2).collect();
    let nodes = nodes?;
    let (begin, cpu) = (Instant::now(), own_cpu_time());
    for i in 0..bench.changes {
        tokio::time::sleep(INTERVAL).await;
        // What many pages show: a pending pod, and the room and the rules of a node.
        let mut pods = [bench.pending(0, 1001 + i), bench.pending(N_PENDING, 0)];
        pods[1].spec.node_name.clone_from(&nodes[i % nodes.len()].metadata.name);
        changed.send_replace(Instant::now());
        console.update(move |state| state.apply(pods.map(Update::pod), |_| ())).await;
    }
    let mut times = Vec::new();
    for viewer in viewers {
        times.extend(viewer.await.map_err(other)??);
    }
    let cpu = own_cpu_since(cpu);
    times.sort_unstable_by(f64::total_cmp);
    Ok(OpenPages {
        pages: bench.open,
        changes: bench.changes,
        p50_ms: times.get(times.len() / 2).copied().unwrap_or_default(),
        max_ms: times.last().copied().unwrap_or_default(),
        cpu_cores: cpu.map(|cpu| cpu.as_secs_f64() / begin.elapsed().as_secs_f64()),
        bytes: above(started),
    })
}

/// Follows one page: the times from changes until it has it again.
async fn view(
    client: Client,
    path: String,
    n_changes: usize,
    changes: watch::Receiver<Instant>,
) -> Result<Vec<f64>, BenchError> {
    let request = Request::get("/events").header(header::ACCEPT, "text/event-stream").body(Vec::new());
    let mut events = call::open(&client, request.map_err(other)?, TIMEOUT).await?.into_body();
    let (mut times, mut version, mut tag) = (Vec::new(), 0, None);
    // The first event has the current version; a slow page misses some versions.
    while version < 1 + n_changes as u64 {
        let Some(frame) = events.frame().await else { break };
        let data = frame.map_err(other)?.into_data().unwrap_or_default();
        let text = String::from_utf8_lossy(&data).into_owned();
        let Some(told) = text.lines().rev().find_map(|line| line.strip_prefix("data: ")?.parse().ok()) else {
            continue;
        };
        let changed = *changes.borrow();
        let (status, _, fresh) = fetch(&client, &path, tag.clone()).await?;
        if status != StatusCode::NOT_MODIFIED.as_u16() {
            tag = fresh;
        }
        if version > 0 {
            times.push(changed.elapsed().as_secs_f64() * 1e3);
        }
        version = told;
    }
    Ok(times)
}
