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
use super::clients::{Clients, Probe};
use super::loaded::Loaded;
use super::{Bind, Memory, placed};
use crate::error::BenchError;

/// How often the scheduler's metrics are read.
const PERIOD: Duration = Duration::from_millis(20);
/// The run ends when no pod has been bound for so long; the first list of a million pods takes minutes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(900);
/// After it was killed, the requests of a scheduler have ended.
const SETTLED: Duration = Duration::from_secs(1);
/// With a lease that is short enough for a failover in 10 s.
const ELECT: [&str; 4] = [
    "--leader-elect",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=1s",
];
/// One of this many bindings is not measured: the connections, and the first decision for each template.
pub const WARM_UP: usize = 10;

/// The run, from the start of the scheduler.
pub struct Run {
    pub first_binding: Duration,
    pub last_binding: Duration,
    pub rates: Rates,
    pub scheduler: Scheduler,
    pub clients: Vec<Probe>,
    /// How long no pod was bound after the first scheduler was killed, in seconds.
    pub failover: Option<f64>,
    pub memory: Memory,
}

/// A scheduler process.
pub struct Scheduler {
    pub process: Server,
    metrics: Client,
}

impl Scheduler {
    /// Starts one.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(bind: &Bind, kubeconfig: &Path, options: &[&str]) -> Result<Scheduler, BenchError> {
        // The port is free again when the listener is dropped.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let recordings = kubeconfig.with_file_name("recordings").display().to_string();
        let kubeconfig = kubeconfig.display().to_string();
        let concurrency = bind.bind_concurrency.map(|n| n.to_string());
        let mut args =
            vec!["scheduler", "--kubeconfig", &kubeconfig, "--listen", &address, "--cache-limit", "64Gi"];
        args.extend(options);
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
///
/// # Errors
/// A process cannot be started, or a request of the other clients fails.
pub async fn run(bind: &Bind, cluster: &Loaded, progress: &dyn Fn(usize)) -> Result<Run, BenchError> {
    let elect: &[&str] = if bind.failover { &ELECT } else { &[] };
    let mut observed = Observed::new(Scheduler::start(bind, &cluster.kubeconfig(), elect)?);
    let mut standby = None;
    let mut clients = bind.clients.then(|| Clients::new(cluster));
    let mut warm = None;
    while observed.n_bound < cluster.n_pods && observed.last_progress.elapsed() < PATIENCE {
        tokio::time::sleep(PERIOD).await;
        observed.look().await;
        let n_bound = observed.n_bound;
        progress(n_bound);
        if warm.is_none() && n_bound >= cluster.n_pods / WARM_UP {
            warm = Some(sample(cluster, &observed.scheduler).await);
            standby =
                bind.failover.then(|| Scheduler::start(bind, &cluster.kubeconfig(), elect)).transpose()?;
        }
        if let Some(clients) = clients.as_mut().filter(|_| warm.is_some()) {
            clients.observe(n_bound);
        }
        if n_bound >= cluster.n_pods / 2
            && let Some(next) = standby.take()
        {
            observed.replace(next);
            // The requests that it had sent are carried out or lost by then, and the lease has not expired.
            tokio::time::sleep(SETTLED).await;
            observed.n_before =
                placed::read(bind.seed, &cluster.client, &cluster.templates, cluster.n_pods).await?.len();
            observed.n_bound = observed.n_before;
        }
    }
    let mut end = sample(cluster, &observed.scheduler).await;
    end.at = observed.last_progress;
    // Only the second of two schedulers can still be asked.
    let rates = warm.filter(|_| !bind.failover).map_or_else(Rates::default, |warm| warm.until(&end));
    let n_bound = observed.n_bound;
    let clients = match clients {
        Some(clients) => clients.finish(n_bound).await?,
        None => Vec::new(),
    };
    Ok(observed.into_run(rates, clients))
}

/// What is known of a run.
struct Observed {
    begin: Instant,
    scheduler: Scheduler,
    n_bound: usize,
    /// Those of an earlier scheduler.
    n_before: usize,
    first_binding: Option<Duration>,
    last_progress: Instant,
    killed_at: Option<Instant>,
    failover: Option<f64>,
    memory: Memory,
}

impl Observed {
    fn new(scheduler: Scheduler) -> Observed {
        let begin = Instant::now();
        Observed {
            begin,
            scheduler,
            n_bound: 0,
            n_before: 0,
            first_binding: None,
            last_progress: begin,
            killed_at: None,
            failover: None,
            memory: Memory::default(),
        }
    }

    /// Asks the scheduler how far it is.
    async fn look(&mut self) {
        let n_bound = self.n_before + self.scheduler.n_bound().await;
        if n_bound <= self.n_bound {
            return;
        }
        self.n_bound = n_bound;
        self.last_progress = Instant::now();
        if self.first_binding.is_none() {
            self.first_binding = Some(self.begin.elapsed());
            self.memory.scheduler_bytes = self.scheduler.process.rss_bytes();
            self.memory.scheduler_list_peak_bytes = self.scheduler.process.peak_rss_bytes();
        }
        if let Some(killed_at) = self.killed_at.take() {
            self.failover = Some(killed_at.elapsed().as_secs_f64());
        }
    }

    /// Kills the scheduler; another takes over.
    fn replace(&mut self, next: Scheduler) {
        self.scheduler = next;
        self.killed_at = Some(Instant::now());
    }

    fn into_run(mut self, rates: Rates, clients: Vec<Probe>) -> Run {
        self.memory.scheduler_peak_bytes = self.scheduler.process.peak_rss_bytes();
        Run {
            first_binding: self.first_binding.unwrap_or_default(),
            last_binding: self.last_progress - self.begin,
            rates,
            scheduler: self.scheduler,
            clients,
            failover: self.failover,
            memory: self.memory,
        }
    }
}
