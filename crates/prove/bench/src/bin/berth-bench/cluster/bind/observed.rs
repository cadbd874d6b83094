//! The run of the scheduler, as its metrics and those of the API server show it.

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use berth_bench::bind::{self, Rates, Sample};
use berth_client::call;
use berth_client::connect;
use kube::Client;

use super::super::child::Server;
use super::super::load::TIMEOUT;
use super::loaded::Loaded;
use super::{Bind, Memory};
use crate::error::BenchError;

/// How often the scheduler's metrics are read.
const PERIOD: Duration = Duration::from_millis(20);
/// The run ends when no pod has been bound for so long; the first list of a million pods takes minutes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(900);
/// One of this many bindings is not measured: the connections, and the first decision for each template.
pub const WARM_UP: usize = 10;

/// The run, from the start of the scheduler.
pub struct Run {
    pub first_binding: Duration,
    pub last_binding: Duration,
    pub rates: Rates,
    pub scheduler: Scheduler,
    pub memory: Memory,
}

pub struct Scheduler {
    pub process: Server,
    metrics: Client,
}

impl Scheduler {
    pub fn start(bind: &Bind, kubeconfig: &Path) -> Result<Scheduler, BenchError> {
        // The port is free again when the listener is dropped.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let recordings = kubeconfig.with_file_name("recordings").display().to_string();
        let kubeconfig = kubeconfig.display().to_string();
        let concurrency = bind.bind_concurrency.map(|n| n.to_string());
        let mut args =
            vec!["scheduler", "--kubeconfig", &kubeconfig, "--listen", &address, "--cache-limit", "64Gi"];
        if let Some(n) = &concurrency {
            args.extend(["--bind-concurrency", n]);
        }
        if bind.record {
            args.extend(["--record", &recordings]);
        }
        let uri = format!("http://{address}").parse().unwrap_or_default();
        Ok(Scheduler { process: Server::spawn(&args)?, metrics: connect::client(kube::Config::new(uri))? })
    }

    /// Its metrics; empty while it does not serve them.
    async fn metrics(&self) -> String {
        metrics(&self.metrics).await.unwrap_or_default()
    }

    /// How many pods it has bound.
    pub async fn n_bound(&self) -> usize {
        bind::n_bound(&self.metrics().await)
    }
}

async fn metrics(client: &Client) -> Option<String> {
    let text = call::send(client, call::get("/metrics"), TIMEOUT, call::MAX_OBJECT_BYTES).await.ok()?;
    String::from_utf8(text.to_vec()).ok()
}

async fn sample(cluster: &Loaded, scheduler: &Scheduler) -> Sample {
    let of_server = metrics(&cluster.client).await.unwrap_or_default();
    let of_scheduler = scheduler.metrics().await;
    let cpu = [cluster.server.cpu_time(), scheduler.process.cpu_time()];
    Sample::new(Instant::now(), cpu, [&of_server, &of_scheduler])
}

/// Runs the scheduler until it has bound all pods, or makes no more progress.
pub async fn run(bind: &Bind, cluster: &Loaded, progress: &dyn Fn(usize)) -> Result<Run, BenchError> {
    let scheduler = Scheduler::start(bind, &cluster.kubeconfig())?;
    let begin = Instant::now();
    let (mut n_bound, mut first_binding, mut last_progress) = (0, None, begin);
    let (mut warm, mut memory) = (None, Memory::default());
    while n_bound < cluster.n_pods && last_progress.elapsed() < PATIENCE {
        tokio::time::sleep(PERIOD).await;
        let n_seen = scheduler.n_bound().await;
        if n_seen > n_bound {
            (n_bound, last_progress) = (n_seen, Instant::now());
        }
        if n_bound > 0 && first_binding.is_none() {
            first_binding = Some(begin.elapsed());
            memory.scheduler_bytes = scheduler.process.rss_bytes();
            memory.scheduler_list_peak_bytes = scheduler.process.peak_rss_bytes();
        }
        progress(n_bound);
        if warm.is_none() && n_bound >= cluster.n_pods / WARM_UP {
            warm = Some(sample(cluster, &scheduler).await);
        }
    }
    let mut end = sample(cluster, &scheduler).await;
    end.at = last_progress;
    memory.scheduler_peak_bytes = scheduler.process.peak_rss_bytes();
    Ok(Run {
        first_binding: first_binding.unwrap_or_default(),
        last_binding: last_progress - begin,
        rates: warm.map_or_else(Rates::default, |warm| warm.until(&end)),
        scheduler,
        memory,
    })
}
