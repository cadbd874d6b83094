//! `berth-bench list`: reading many pods from the API server, page by page and at once.

use std::io::Read as _;
use std::time::Instant;

use berth_apiserver::{ApiServer, ServerOptions};
use berth_bench::count;
use berth_bench::dump::Dump;
use http::{Request, StatusCode, header};
use kube::Client;
use kube::client::Body;
use serde::Serialize;

use super::child::{own_cpu_since, own_cpu_time};
use crate::error::BenchError;

const JSON: &str = "application/json";
/// What kubectl asks for.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
/// Objects that are stored at a time.
const BATCH: usize = 5_000;

/// Parameters of the benchmark.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct ListBench {
    /// Number of pods
    #[arg(long, value_name = "N", default_value_t = 150_000, value_parser = count(1..=9_999_999))]
    pub pods: usize,
    /// Number of pods on a page
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = count(1..=4_294_967_295))]
    pub page: usize,
    /// Seed for the pods
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

#[derive(Debug, Serialize)]
pub struct ListReport {
    pub pods: usize,
    pub page: usize,
    pub ways: Vec<Way>,
}

/// One way to read all pods.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Way {
    pub what: &'static str,
    pub requests: usize,
    /// Bytes of the answers, as they were sent.
    pub bytes: usize,
    /// Elapsed time of all requests.
    pub seconds: f64,
    /// CPU time of server and client per pod.
    pub cpu_us_per_pod: Option<f64>,
    /// Latency of the first request.
    pub first_ms: f64,
    /// Median latency of the requests.
    pub p50_ms: f64,
    /// Latency of the last request.
    pub last_ms: f64,
}

/// Runs the benchmark.
///
/// # Errors
/// The server cannot be started, or an answer is not the expected one.
pub async fn run(bench: ListBench, progress: &dyn Fn(usize)) -> Result<ListReport, BenchError> {
    let other = |error: &dyn std::fmt::Display| BenchError::Other(error.to_string());
    let server = ApiServer::start(ServerOptions::default()).await.map_err(|error| other(&error))?;
    let mut pods =
        Dump { nodes: bench.pods.min(5_000), pods: bench.pods, seed: bench.seed, displaced: 0 }.all_pods();
    for n_stored in (0..bench.pods).step_by(BATCH) {
        let batch =
            pods.by_ref().take(BATCH).collect::<std::io::Result<_>>().map_err(|error| other(&error))?;
        server.import(batch).await.map_err(|error| other(&error))?;
        progress(n_stored + BATCH);
    }
    let client = berth_client::connect::client(server.admin_config())?;
    let mut ways = Vec::new();
    for (what, accept, gzip, paged) in [
        ("pages of JSON", JSON, false, true),
        ("pages of a table", TABLE, false, true),
        ("pages of a table, gzip", TABLE, true, true),
        ("one list of JSON", JSON, false, false),
        ("one list of JSON, gzip", JSON, true, false),
    ] {
        let limit = if paged { bench.page } else { 0 };
        ways.push(read_all(&client, bench.pods, what, accept, gzip, limit).await?);
    }
    server.shutdown().await;
    Ok(ListReport { pods: bench.pods, page: bench.page, ways })
}

async fn read_all(
    client: &Client,
    n_pods: usize,
    what: &'static str,
    accept: &str,
    gzip: bool,
    limit: usize,
) -> Result<Way, BenchError> {
    let (begin, cpu) = (Instant::now(), own_cpu_time());
    let (mut token, mut latencies, mut bytes) = (String::new(), Vec::new(), 0);
    loop {
        let sent = Instant::now();
        let request = Request::get(format!("/api/v1/pods?limit={limit}&continue={token}"))
            .header(header::ACCEPT, accept)
            .header(header::ACCEPT_ENCODING, if gzip { "gzip" } else { "identity" })
            .body(Body::empty())
            .map_err(|error| BenchError::Other(error.to_string()))?;
        let failed = |error: kube::Error| BenchError::Other(format!("{what}: {error}"));
        let response = client.send(request).await.map_err(failed)?;
        let (status, is_gzip) =
            (response.status(), response.headers().contains_key(header::CONTENT_ENCODING));
        let answer = response.into_body().collect_bytes().await.map_err(failed)?;
        latencies.push(sent.elapsed().as_secs_f64() * 1e3);
        bytes += answer.len();
        token = continue_token(&answer, is_gzip);
        if status != StatusCode::OK {
            return Err(BenchError::Other(format!("{what}: status {status}")));
        }
        if token.is_empty() {
            break;
        }
    }
    let cpu = own_cpu_since(cpu);
    let (first, last) = (latencies.first().copied(), latencies.last().copied());
    latencies.sort_unstable_by(f64::total_cmp);
    Ok(Way {
        what,
        requests: latencies.len(),
        bytes,
        seconds: begin.elapsed().as_secs_f64(),
        cpu_us_per_pod: cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / n_pods as f64),
        first_ms: first.unwrap_or_default(),
        p50_ms: latencies.get(latencies.len() / 2).copied().unwrap_or_default(),
        last_ms: last.unwrap_or_default(),
    })
}

/// The continue token at the beginning of a list; empty at its end.
fn continue_token(answer: &[u8], is_gzip: bool) -> String {
    const BEGINNING: u64 = 4096;
    let mut text = Vec::new();
    let read = if is_gzip {
        flate2::read::GzDecoder::new(answer).take(BEGINNING).read_to_end(&mut text)
    } else {
        answer.take(BEGINNING).read_to_end(&mut text)
    };
    if read.is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&text);
    let token = text.split_once(r#""continue":""#).and_then(|(_, rest)| rest.split_once('"'));
    token.map_or_else(String::new, |(token, _)| token.to_owned())
}
