//! Requests of other clients while pods are bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use berth_api::resource::{NODES, PODS};
use berth_bench::measure::Samples;
use berth_bench::scale::nodes;
use berth_bench::scale::templates::namespaces;
use berth_client::call::{self, CallError};
use http::Method;
use http_body_util::BodyExt as _;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::super::load::{TIMEOUT, each};
use super::loaded::{BALLAST, Loaded, N_BALLAST, ballast_name};
use crate::error::BenchError;

/// Rows on a page, as kubectl requests.
const PAGE: usize = 500;
const N_RELABELLED: usize = 1_000;
const N_WORKERS: usize = 4;
/// The slow client waits this long after each piece of its watch.
const PAUSE: Duration = Duration::from_millis(500);
const PATCH: &str = "application/merge-patch+json";

/// Requests of one kind.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// The kind.
    pub what: &'static str,
    pub requests: usize,
    /// Median latency, in milliseconds.
    pub p50_ms: f64,
    /// The longest latency, in milliseconds.
    pub max_ms: f64,
    /// Bindings per second meanwhile.
    pub per_second: f64,
}

/// The other clients, which send one kind of requests after the other.
pub struct Clients {
    client: Client,
    n_nodes: usize,
    n_bound: Arc<AtomicUsize>,
    task: Option<JoinHandle<Result<Vec<Probe>, CallError>>>,
    stop: CancellationToken,
}

impl Clients {
    pub fn new(cluster: &Loaded) -> Clients {
        Clients {
            client: cluster.client.clone(),
            n_nodes: cluster.n_nodes,
            n_bound: Arc::default(),
            task: None,
            stop: CancellationToken::new(),
        }
    }

    /// So many pods are bound. The first call starts the requests.
    pub fn observe(&mut self, n_bound: usize) {
        self.n_bound.store(n_bound, Ordering::Relaxed);
        if self.task.is_none() {
            let requests = Requests {
                client: self.client.clone(),
                n_nodes: self.n_nodes,
                n_bound: self.n_bound.clone(),
            };
            tokio::spawn(read_slowly(self.client.clone(), self.stop.clone()));
            self.task = Some(tokio::spawn(requests.run()));
        }
    }

    /// Waits for the last answer.
    ///
    /// # Errors
    /// A request failed.
    pub async fn finish(self, n_bound: usize) -> Result<Vec<Probe>, BenchError> {
        self.n_bound.store(n_bound, Ordering::Relaxed);
        self.stop.cancel();
        match self.task {
            // A panic is already printed.
            Some(task) => Ok(task.await.unwrap_or_else(|_| Ok(Vec::new()))?),
            None => Ok(Vec::new()),
        }
    }
}

/// Watches all pods, and reads a piece of the answer now and then. When the server ends the watch, it begins again.
async fn read_slowly(client: Client, stop: CancellationToken) {
    let watch = async {
        loop {
            let request = call::get(&format!("{}?watch=true&resourceVersion=0", PODS.path("")));
            if let Ok(answer) = call::open(&client, request, TIMEOUT).await {
                let mut body = answer.into_body();
                while body.frame().await.is_some() {
                    tokio::time::sleep(PAUSE).await;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    stop.run_until_cancelled(watch).await;
}

struct Requests {
    client: Client,
    n_nodes: usize,
    n_bound: Arc<AtomicUsize>,
}

impl Requests {
    async fn run(self) -> Result<Vec<Probe>, CallError> {
        let namespace = namespaces().swap_remove(0).metadata.name;
        let n_relabelled = N_RELABELLED.min(self.n_nodes);
        let relabel = |i: usize| {
            let patch = json!({"metadata": {"labels": {"example.com/pool": "b"}}});
            let path = NODES.object_path("", &nodes::node_name(i));
            call::with_body(Method::PATCH, &path, PATCH, patch.to_string().into_bytes())
        };
        let delete = |i: usize| {
            let path = format!("{}?gracePeriodSeconds=0", PODS.object_path(BALLAST, &ballast_name(i)));
            call::with_body(Method::DELETE, &path, "", Vec::new())
        };
        let mut probes = Vec::new();
        probes.push(self.timed("list all nodes", self.list(NODES.path(""))).await?);
        probes.push(self.timed("list pods of a namespace", self.list(PODS.path(&namespace))).await?);
        probes.push(self.timed("change labels of nodes", self.all(n_relabelled, relabel)).await?);
        probes.push(self.timed("delete pods", self.all(N_BALLAST, delete)).await?);
        Ok(probes)
    }

    /// Measures requests, and the bindings meanwhile.
    async fn timed(
        &self,
        what: &'static str,
        requests: impl Future<Output = Result<Samples, CallError>>,
    ) -> Result<Probe, CallError> {
        let (begin, n_before) = (Instant::now(), self.n_bound.load(Ordering::Relaxed));
        let figures = requests.await?.figures();
        let n_bound = self.n_bound.load(Ordering::Relaxed) - n_before;
        Ok(Probe {
            what,
            requests: figures.decisions,
            p50_ms: figures.p50_us / 1000.0,
            max_ms: figures.max_us / 1000.0,
            per_second: n_bound as f64 / begin.elapsed().as_secs_f64(),
        })
    }

    /// Reads a list in pages.
    async fn list(&self, path: String) -> Result<Samples, CallError> {
        #[derive(Deserialize)]
        struct Page {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            #[serde(default, rename = "continue")]
            token: String,
        }
        let (mut samples, mut token) = (Samples::default(), String::new());
        loop {
            let (begin, request) = (Instant::now(), call::get(&format!("{path}?limit={PAGE}{token}")));
            let page: Result<Page, _> = call::json(&self.client, request, TIMEOUT).await;
            samples.add(begin.elapsed());
            token = match page {
                Ok(page) if page.metadata.token.is_empty() => return Ok(samples),
                Ok(page) => format!("&continue={}", page.metadata.token),
                // The version of the list is no longer in the history: kubectl ends here as well.
                Err(error) if error.code() == Some(410) => return Ok(samples),
                Err(error) => return Err(error),
            };
        }
    }

    async fn all(
        &self,
        n: usize,
        request: impl Fn(usize) -> http::Request<Vec<u8>> + Clone + Send + Sync + 'static,
    ) -> Result<Samples, CallError> {
        let client = self.client.clone();
        each((0..n).collect(), N_WORKERS, move |_, numbers: Arc<[usize]>, i| {
            let (client, request) = (client.clone(), request(numbers[i]));
            async move { call::send(&client, request, TIMEOUT, call::MAX_OBJECT_BYTES).await.map(drop) }
        })
        .await
    }
}
