//! `berth-bench bind`: the binding rate of the scheduler, relative to that of a bare client.
//!
//! A bare client, which only sends bindings for predetermined nodes, and the scheduler bind the same pods at the same API
//! server in turn. Both use the same number of connections, and the same observer, which watches the pods, measures both.
//! Between them comes a client that also watches the pods: the difference to the scheduler is what deciding costs.
//! The first tenth of the bindings of a round is not measured: it includes the setup of connections and the scheduler's first
//! decision for each pod template.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use berth_api::resource::PODS;
use berth_apiserver::TemporaryDir;
use berth_bench::check::{self, Findings, Placed};
use berth_bench::count;
use berth_bench::measure::Figures;
use berth_bench::scale::templates::{Kind, PodTemplate, namespaces};
use berth_bench::scale::{GeneratedCluster, generate, nodes, pod_name};
use berth_client::ObservedObject;
use berth_client::call;
use berth_client::connect::{self, Options};
use berth_client::watch::{KubeObject, WatchOptions, watch};
use berth_scheduler::{RecordOptions, SchedulerOptions};
use http::Method;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::child::{Server, own_cpu_time, temporary_dir};
use super::load::{create, each, namespace_objects, node_objects, pod_object, post};
use super::watched::{Watched, within};
use crate::error::BenchError;

/// Connections that create nodes and pods.
const N_CREATORS: usize = 8;
/// Maximum duration of a phase of a round.
const ROUND_TIMEOUT: Duration = Duration::from_secs(600);
/// One of this many bindings is not measured.
const WARM_UP: usize = 10;
/// Limit of the recordings.
const RECORDINGS: u64 = 1 << 30;
/// A scheduler name that no scheduler serves.
const NO_SCHEDULER: &str = "no-scheduler";

/// Parameters of the benchmark.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Bind {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = count(1..=99_999))]
    pub nodes: usize,
    /// Number of pods in each round
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = count(2..=999_999))]
    pub pods: usize,
    /// Number of concurrent connections
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = count(1..=1_000))]
    pub connections: usize,
    /// Number of rounds of each side
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = count(1..=65_535))]
    pub rounds: usize,
    /// Also measure the scheduler while it records its decisions
    #[arg(long)]
    pub record: bool,
    /// Seed for node sizes, labels and taints
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// The client that binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Binder {
    /// Sends bindings for predetermined nodes.
    BareClient,
    /// The same, and reads the names and versions of all pod events, as the least that a scheduler has to.
    WatchingClient,
    /// Selects the nodes and binds.
    Scheduler,
    /// A scheduler that records its decisions.
    Recording,
}

/// The results.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BindReport {
    pub nodes: usize,
    /// Pods per round.
    pub pods: usize,
    /// Concurrent connections.
    pub connections: usize,
    /// In the order they were run.
    pub rounds: Vec<BindRound>,
    /// Median rate of the bare client, in pods per second.
    pub bare_client_per_second: f64,
    /// Median rate of the scheduler.
    pub scheduler_per_second: f64,
    /// The scheduler's rate divided by the bare client's.
    pub ratio: f64,
    /// Median CPU time per pod with the bare client, of the API server and the client together.
    pub bare_client_cpu_us: Option<f64>,
    /// The same with the client that watches the pods.
    pub watching_client_cpu_us: Option<f64>,
    /// Median CPU time per pod with the scheduler.
    pub scheduler_cpu_us: Option<f64>,
    /// The bare client's CPU time divided by the scheduler's: equals `ratio` on an otherwise idle machine.
    pub cpu_ratio: Option<f64>,
    /// What recording adds to the CPU time of the process of the scheduler, as a part of it; none without `--record`.
    pub recording_cost: Option<f64>,
    /// Peak memory of the API server.
    pub server_peak_rss_bytes: Option<u64>,
    /// Findings of the independent check of the scheduler's placements.
    pub check: Findings,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BindRound {
    /// The client.
    #[serde(rename = "who")]
    pub binder: Binder,
    /// Pods per second, over the measured bindings.
    pub per_second: f64,
    /// Latency of the bare client's requests.
    pub requests: Option<Figures>,
    /// CPU time of the API server per measured pod; Linux only, like the next field.
    pub server_cpu_us: Option<f64>,
    /// CPU time of this process, the binder and the observer, per measured pod.
    pub own_cpu_us: Option<f64>,
    /// Cores used by both processes.
    pub cores: Option<f64>,
}

impl BindRound {
    fn cpu_us(&self) -> Option<f64> {
        Some(self.server_cpu_us? + self.own_cpu_us?)
    }
}

/// What the watching client reads of a pod.
#[derive(Deserialize)]
struct Identity {
    metadata: IdentityMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IdentityMeta {
    name: String,
    namespace: String,
    resource_version: String,
}

impl KubeObject for Identity {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn key(&self) -> (&str, &str) {
        (&self.metadata.namespace, &self.metadata.name)
    }
}

/// A pod to be bound.
struct Task {
    template: usize,
    name: String,
    node: String,
}

impl Bind {
    fn binders(&self) -> &'static [Binder] {
        let binders = &[Binder::BareClient, Binder::WatchingClient, Binder::Scheduler, Binder::Recording];
        &binders[..if self.record { 4 } else { 3 }]
    }

    /// Bindings of all rounds.
    pub fn n_bindings(&self) -> usize {
        self.binders().len() * self.rounds * self.pods
    }
}

/// Runs the benchmark; calls `progress` with the number of bound pods.
///
/// # Errors
/// The API server cannot be started or rejects a request, or pods are not bound in time.
pub async fn run(bind: Bind, progress: &dyn Fn(usize)) -> Result<BindReport, BenchError> {
    let directory = temporary_dir()?;
    // Without controllers, no other component uses the API server, and nodes need no heartbeats.
    let (server, options) = Server::start(&["apiserver", "--controllers=false"], &directory)?;
    let client = options.client().await?;
    create(&client, namespace_objects(), 1).await?;
    create(&client, node_objects(bind.seed, bind.nodes), N_CREATORS).await?;

    let GeneratedCluster { mut cluster, templates, prepared } = generate(bind.nodes, bind.seed, false);
    let with_rules: Vec<usize> = (0..templates.len()).filter(|i| has_rules(&templates[*i])).collect();
    let mut tasks = Vec::with_capacity(bind.pods);
    for i in 0..bind.pods {
        let template = with_rules[i % with_rules.len()];
        let name = pod_name(&templates[template].pod.metadata.name, i);
        let outcome = cluster.place(&prepared[template].named(&name));
        let node = outcome.node().map(str::to_owned).ok_or_else(|| {
            BenchError::Other(format!("pod {i} fits on none of the {} nodes: use fewer pods", bind.nodes))
        })?;
        tasks.push(Task { template, name, node });
    }
    drop(cluster);

    let findings = Findings::default();
    let mut bench = Bench { bind, directory, options, client, server, templates, tasks, findings };
    let mut rounds = Vec::new();
    for (i, binder) in std::iter::repeat_n(bind.binders(), bind.rounds).flatten().copied().enumerate() {
        rounds.push(bench.round(binder, &|n_bound| progress(i * bind.pods + n_bound)).await?);
    }
    let rate = |binder| median(rounds.iter().filter(|r| r.binder == binder).map(|r| r.per_second));
    let (bare, scheduler) = (rate(Binder::BareClient), rate(Binder::Scheduler));
    let cpu = |binder, of: fn(&BindRound) -> Option<f64>| {
        let of_round: Option<Vec<f64>> = rounds.iter().filter(|r| r.binder == binder).map(of).collect();
        of_round.filter(|us| !us.is_empty()).map(|us| median(us.into_iter()))
    };
    let (bare_cpu, scheduler_cpu) =
        (cpu(Binder::BareClient, BindRound::cpu_us), cpu(Binder::Scheduler, BindRound::cpu_us));
    let own = |binder| cpu(binder, |round| round.own_cpu_us);
    let recording = own(Binder::Recording).zip(own(Binder::Scheduler));
    Ok(BindReport {
        nodes: bind.nodes,
        pods: bind.pods,
        connections: bind.connections,
        bare_client_per_second: bare,
        scheduler_per_second: scheduler,
        ratio: if bare > 0.0 { scheduler / bare } else { 0.0 },
        bare_client_cpu_us: bare_cpu,
        watching_client_cpu_us: cpu(Binder::WatchingClient, BindRound::cpu_us),
        scheduler_cpu_us: scheduler_cpu,
        cpu_ratio: bare_cpu.zip(scheduler_cpu).map(|(bare, scheduler)| bare / scheduler),
        recording_cost: recording.map(|(recording, plain)| recording / plain - 1.0),
        server_peak_rss_bytes: bench.server.peak_rss_bytes(),
        check: bench.findings,
        rounds,
    })
}

/// Whether the pods have inter-pod rules that pods of the same benchmark can fulfil.
fn has_rules(template: &PodTemplate) -> bool {
    template.kind.is_inter_pod() && template.kind != Kind::ZoneAffinityToOther
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

struct Bench {
    bind: Bind,
    directory: TemporaryDir,
    options: Options,
    client: Client,
    server: Server,
    templates: Vec<PodTemplate>,
    tasks: Vec<Task>,
    findings: Findings,
}

impl Bench {
    async fn round(&mut self, binder: Binder, progress: &dyn Fn(usize)) -> Result<BindRound, BenchError> {
        let is_scheduler = matches!(binder, Binder::Scheduler | Binder::Recording);
        let scheduler_name = if is_scheduler { "berth" } else { NO_SCHEDULER };
        let pod = |task: &Task| {
            let template = &self.templates[task.template];
            let path = PODS.path(&template.pod.metadata.namespace);
            (path, pod_object(&template.pod, &task.name, scheduler_name))
        };
        create(&self.client, self.tasks.iter().map(pod).collect(), N_CREATORS).await?;
        let mut observer = Observer::start(&self.client, &self.server, self.tasks.len());
        observer.until(|o| o.pods.len() >= self.tasks.len(), "all pods exist", progress).await?;

        let config = self.options.config().await?;
        let stop = CancellationToken::new();
        let n_tasks = self.tasks.len();
        let all_bound = observer.until(|o| o.bindings.bound.len() >= n_tasks, "all pods are bound", progress);
        let requests = match binder {
            Binder::BareClient | Binder::WatchingClient => {
                let mut watching = JoinSet::new();
                if binder == Binder::WatchingClient {
                    let client = connect::client(config.clone())?;
                    let mut pods = watch::<Identity>(client, WatchOptions::new(PODS.path("")));
                    // The list.
                    pods.next().await;
                    watching.spawn(async move { while pods.next().await.is_some() {} });
                }
                let (requests, bound) = tokio::join!(self.bind_all(&config), all_bound);
                bound?;
                Some(requests?)
            }
            Binder::Scheduler | Binder::Recording => {
                let directory = self.directory.path().join("recordings");
                let record = RecordOptions { directory, max_bytes: RECORDINGS };
                let options = SchedulerOptions {
                    bind_concurrency: self.bind.connections,
                    record: Some(record).filter(|_| binder == Binder::Recording),
                    ..SchedulerOptions::default()
                };
                let scheduler = berth_scheduler::start(config, options, stop.clone()).await?;
                all_bound.await?;
                stop.cancel();
                scheduler.stopped().await.map_err(berth_scheduler::SchedulerError::from)?;
                None
            }
        };
        self.clear(&mut observer, progress).await?;
        let (round, bound) = (observer.bindings.round(binder, requests), observer.bindings.bound);
        if is_scheduler {
            self.check(&bound);
        }
        Ok(round)
    }

    /// Binds with one connection per worker and one request at a time.
    async fn bind_all(&self, config: &kube::Config) -> Result<Figures, BenchError> {
        let clients: Result<Vec<_>, _> =
            (0..self.bind.connections).map(|_| connect::client(config.clone())).collect();
        let clients = std::sync::Arc::new(clients?);
        let binding = |task: &Task| {
            let namespace = &self.templates[task.template].pod.metadata.namespace;
            let path = format!("{}/binding", PODS.object_path(namespace, &task.name));
            let object = json!({
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": task.name, "namespace": namespace},
                "target": {"apiVersion": "v1", "kind": "Node", "name": task.node},
            });
            (path, object)
        };
        let bindings: Vec<_> = self.tasks.iter().map(binding).collect();
        let samples = each(bindings, clients.len(), move |worker, bindings, i| {
            let clients = clients.clone();
            async move {
                let (path, object) = &bindings[i];
                post(&clients[worker], path, object).await
            }
        });
        Ok(samples.await?.figures())
    }

    /// Checks the placement with code that is independent of the engine.
    fn check(&mut self, bound: &[(String, String)]) {
        let template_of = |name: &str| {
            let (app, _) = name.rsplit_once('-')?;
            self.templates.iter().position(|t| t.pod.metadata.name == app)
        };
        let placed: Vec<Placed> = bound
            .iter()
            .filter_map(|(name, node)| {
                let template = u32::try_from(template_of(name)?).ok()?;
                Some(Placed { template, node: u32::try_from(nodes::node_index(node)?).ok()? })
            })
            .collect();
        let templates: Vec<_> = self.templates.iter().map(|t| t.pod.clone()).collect();
        let made = (0..self.bind.nodes).map(|i| nodes::node(self.bind.seed, i));
        let findings = check::check(made, &namespaces(), &templates, &placed);
        self.findings.pods += findings.pods;
        self.findings.n_violations += findings.n_violations;
        self.findings.violations.extend(findings.violations);
    }

    async fn clear(&self, observer: &mut Observer<'_>, progress: &dyn Fn(usize)) -> Result<(), BenchError> {
        for namespace in namespaces() {
            let path = format!("{}?gracePeriodSeconds=0", PODS.path(&namespace.metadata.name));
            let request = call::with_body(Method::DELETE, &path, "", Vec::new());
            call::send(&self.client, request, ROUND_TIMEOUT, usize::MAX).await?;
        }
        observer.until(|o| o.pods.len() == 0, "all pods are deleted", progress).await
    }
}

/// A point in time with the CPU times until then.
#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    server_cpu: Option<Duration>,
    own_cpu: Option<Duration>,
}

/// Watches bindings.
struct Observer<'a> {
    pods: Watched,
    bindings: Bindings<'a>,
}

/// The bindings that were seen.
struct Bindings<'a> {
    seen: HashSet<String>,
    /// Names of pods and their nodes, in the order of the events.
    bound: Vec<(String, String)>,
    server: &'a Server,
    n_pods: usize,
    /// After the last binding of the warm-up, and after the last binding.
    begin: Option<Sample>,
    end: Option<Sample>,
}

impl Observer<'_> {
    fn start<'a>(client: &Client, server: &'a Server, n_pods: usize) -> Observer<'a> {
        let bindings =
            Bindings { seen: HashSet::new(), bound: Vec::new(), server, n_pods, begin: None, end: None };
        Observer { pods: Watched::start(client, &PODS), bindings }
    }

    async fn until(
        &mut self,
        is_done: impl Fn(&Observer<'_>) -> bool,
        what: &str,
        progress: &dyn Fn(usize),
    ) -> Result<(), BenchError> {
        let watched = async {
            while !is_done(self) {
                self.pods.next(|pod| self.bindings.add(pod)).await;
                progress(self.bindings.bound.len());
            }
        };
        within(ROUND_TIMEOUT, what, watched).await
    }
}

impl Bindings<'_> {
    /// Number of bindings before the measurement.
    fn n_warm_up(&self) -> usize {
        (self.n_pods / WARM_UP).max(1)
    }

    fn now(&self) -> Sample {
        Sample { at: Instant::now(), server_cpu: self.server.cpu_time(), own_cpu: own_cpu_time() }
    }

    fn add(&mut self, pod: &ObservedObject) {
        let Some(node) = pod.node() else { return };
        if self.seen.insert(pod.metadata.name.clone()) {
            self.bound.push((pod.metadata.name.clone(), node.to_owned()));
            if self.bound.len() == self.n_warm_up() {
                self.begin = Some(self.now());
            } else if self.bound.len() == self.n_pods {
                self.end = Some(self.now());
            }
        }
    }

    fn round(&self, binder: Binder, requests: Option<Figures>) -> BindRound {
        let (Some(begin), Some(end)) = (self.begin, self.end) else {
            return BindRound {
                binder,
                per_second: 0.0,
                requests,
                server_cpu_us: None,
                own_cpu_us: None,
                cores: None,
            };
        };
        let seconds = end.at.duration_since(begin.at).as_secs_f64();
        let n_timed = self.n_pods.saturating_sub(self.n_warm_up()) as f64;
        let used = |begin: Option<Duration>, end: Option<Duration>| Some((end? - begin?).as_secs_f64());
        let server_cpu = used(begin.server_cpu, end.server_cpu);
        let own_cpu = used(begin.own_cpu, end.own_cpu);
        BindRound {
            binder,
            per_second: n_timed / seconds,
            requests,
            server_cpu_us: server_cpu.map(|s| s * 1e6 / n_timed),
            own_cpu_us: own_cpu.map(|s| s * 1e6 / n_timed),
            cores: server_cpu.zip(own_cpu).map(|(server, own)| (server + own) / seconds),
        }
    }
}
