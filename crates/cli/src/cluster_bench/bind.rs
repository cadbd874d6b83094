//! `berth bench bind`: how fast the scheduler binds, by how fast pods can be bound at all.
//!
//! The same pods are bound to the same API server in turn by a bare client, which knows their nodes beforehand and
//! does nothing but bind, and by the scheduler. Both have the same number of connections, and both are timed by the
//! same observer: from the first binding it is told of to the last.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use berth_bench::check::{self, Findings, Placed};
use berth_bench::measure::Figures;
use berth_bench::scale::classes::{Class, Kind, namespaces};
use berth_bench::scale::{Made, make, nodes, pod_name};
use berth_scheduler::SchedulerOptions;
use berth_watch::call;
use berth_watch::connect::{self, Options};
use berth_watch::follow::{FollowOptions, Following, follow};
use http::Method;
use kube::Client;
use serde::Serialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::ClusterBenchError;
use super::child::{Room, Server, own_cpu_time};
use super::load::{create, each, namespace_objects, node_objects, pod_object, post};
use crate::cluster::observed::{Observed, Pod};

/// Connections that nodes and pods are created with.
const N_CREATORS: usize = 8;
/// A round may take this long.
const ROUND_TIMEOUT: Duration = Duration::from_secs(600);
/// The name of a scheduler that there is not.
const NOBODY: &str = "nobody";

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Bind {
    /// Nodes.
    pub n_nodes: usize,
    /// Pods of a round.
    pub n_pods: usize,
    /// Connections that bind at a time.
    pub n_connections: usize,
    /// Rounds of either.
    pub n_rounds: usize,
    /// Settles the nodes' sizes, labels and taints.
    pub seed: u64,
}

/// Who binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// Knows where, and only binds.
    BareClient,
    /// Finds out where.
    Scheduler,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Nodes.
    pub nodes: usize,
    /// Pods of a round.
    pub pods: usize,
    /// Connections that bind at a time.
    pub connections: usize,
    /// In the order they were run.
    pub rounds: Vec<Round>,
    /// Median of the bare client's rates, in pods a second.
    pub bare_client_per_second: f64,
    /// Median of the scheduler's.
    pub scheduler_per_second: f64,
    /// The latter by the former.
    pub ratio: f64,
    /// Peak memory of the API server.
    pub server_peak_rss_bytes: Option<u64>,
    /// What the independent check found in the scheduler's placements.
    pub check: Findings,
}

/// One round.
#[derive(Debug, Serialize)]
pub struct Round {
    /// Who bound.
    pub who: Who,
    /// Pods a second, from the first binding to the last.
    pub per_second: f64,
    /// How long a request to bind took the bare client.
    pub requests: Option<Figures>,
    /// Processor time of the API server, by the time that passed.
    pub server_cores: f64,
    /// Processor time of who bound and of the observer, by the time that passed.
    pub own_cores: f64,
}

/// A pod to be bound.
struct Task {
    class: usize,
    name: String,
    node: String,
}

/// Measures; `progress` is told of bound pods out of all.
///
/// # Errors
/// The API server cannot be started or refuses something; pods are not bound in time.
pub async fn run(bind: Bind, progress: &dyn Fn(usize, usize)) -> Result<Report, ClusterBenchError> {
    let room = Room::new().map_err(|e| ClusterBenchError::Size(format!("no room for files: {e}")))?;
    let kubeconfig = room.file("kubeconfig");
    // Without controllers nobody else has work to do, and nobody misses the nodes' heartbeats.
    let server = Server::start(&["apiserver", "--controllers=false"], &kubeconfig)?;
    let options = Options { kubeconfig: Some(kubeconfig), ..Options::default() };
    let client = options.client().await?;
    create(&client, namespace_objects(), 1).await?;
    create(&client, node_objects(bind.seed, bind.n_nodes), N_CREATORS).await?;

    let Made { mut cluster, classes, prepared } = make(bind.n_nodes, bind.seed);
    let concerned: Vec<usize> = (0..classes.len()).filter(|i| has_rules(&classes[*i])).collect();
    let mut tasks = Vec::with_capacity(bind.n_pods);
    for i in 0..bind.n_pods {
        let class = concerned[i % concerned.len()];
        let name = pod_name(&classes[class].template.metadata.name, i);
        let outcome = cluster.place_prepared(&prepared[class].named(&name));
        let node = outcome.node().map(str::to_owned).ok_or_else(|| {
            ClusterBenchError::Size(format!(
                "pod {i} fits on none of {} nodes: ask for fewer pods",
                bind.n_nodes
            ))
        })?;
        tasks.push(Task { class, name, node });
    }
    drop(cluster);

    let mut bench = Bench { bind, options, client, server, classes, tasks, findings: Findings::default() };
    let mut rounds = Vec::new();
    let n_all = 2 * bind.n_rounds * bind.n_pods;
    for i in 0..2 * bind.n_rounds {
        let who = if i % 2 == 0 { Who::BareClient } else { Who::Scheduler };
        rounds.push(bench.round(who, &|n_bound| progress(i * bind.n_pods + n_bound, n_all)).await?);
    }
    let rate = |who| median(rounds.iter().filter(|r| r.who == who).map(|r| r.per_second));
    let (bare, scheduler) = (rate(Who::BareClient), rate(Who::Scheduler));
    Ok(Report {
        nodes: bind.n_nodes,
        pods: bind.n_pods,
        connections: bind.n_connections,
        bare_client_per_second: bare,
        scheduler_per_second: scheduler,
        ratio: if bare > 0.0 { scheduler / bare } else { 0.0 },
        server_peak_rss_bytes: bench.server.peak_rss_bytes(),
        check: bench.findings,
        rounds,
    })
}

/// Pods with affinity or anti-affinity to pods. Those that need pods of a class without such rules would wait for ever.
fn has_rules(class: &Class) -> bool {
    class.kind.is_inter_pod() && class.kind != Kind::ZoneAffinityToOther
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
    options: Options,
    client: Client,
    server: Server,
    classes: Vec<Class>,
    tasks: Vec<Task>,
    findings: Findings,
}

impl Bench {
    async fn round(&mut self, who: Who, progress: &dyn Fn(usize)) -> Result<Round, ClusterBenchError> {
        let scheduler_name = if who == Who::Scheduler { "berth" } else { NOBODY };
        let pod = |task: &Task| {
            let class = &self.classes[task.class];
            let path = format!("/api/v1/namespaces/{}/pods", class.template.metadata.namespace);
            (path, pod_object(class, &task.name, scheduler_name))
        };
        create(&self.client, self.tasks.iter().map(pod).collect(), N_CREATORS).await?;
        let mut observer = Observer::start(self.client.clone());
        observer.until(|o| o.observed.pods.len() >= self.tasks.len(), "all pods are there", progress).await?;

        let (cpu, own_cpu, begin) = (self.server.cpu_time(), own_cpu_time(), Instant::now());
        let config = self.options.config().await?;
        let stop = CancellationToken::new();
        let n_tasks = self.tasks.len();
        let all_bound = observer.until(|o| o.bound.len() >= n_tasks, "all pods are bound", progress);
        let requests = match who {
            Who::BareClient => {
                let (requests, bound) = tokio::join!(self.bind_all(&config), all_bound);
                bound?;
                Some(requests?)
            }
            Who::Scheduler => {
                let options = SchedulerOptions {
                    bind_concurrency: self.bind.n_connections,
                    ..SchedulerOptions::default()
                };
                let scheduler = berth_scheduler::start(config, options, stop.clone()).await?;
                all_bound.await?;
                stop.cancel();
                scheduler.stopped().await?;
                None
            }
        };
        let elapsed = begin.elapsed().as_secs_f64();
        let cores = |before: Option<Duration>, after: Option<Duration>| {
            after
                .zip(before)
                .map_or(0.0, |(after, before)| after.saturating_sub(before).as_secs_f64() / elapsed)
        };
        let server_cores = cores(cpu, self.server.cpu_time());
        let own_cores = cores(own_cpu, own_cpu_time());
        if who == Who::Scheduler {
            self.check(&observer);
        }
        self.clear(&mut observer, progress).await?;
        Ok(Round { who, per_second: observer.per_second(), requests, server_cores, own_cores })
    }

    /// As a client that has nothing else to do: one connection to a worker, one request at a time.
    async fn bind_all(&self, config: &kube::Config) -> Result<Figures, ClusterBenchError> {
        let clients: Result<Vec<_>, _> =
            (0..self.bind.n_connections).map(|_| connect::client(config.clone())).collect();
        let clients = std::sync::Arc::new(clients?);
        let binding = |task: &Task| {
            let namespace = &self.classes[task.class].template.metadata.namespace;
            let path = format!("/api/v1/namespaces/{namespace}/pods/{}/binding", task.name);
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

    /// Looks at the placement with code that is not the engine's.
    fn check(&mut self, observer: &Observer) {
        let class_of = |name: &str| {
            let (app, _) = name.rsplit_once('-')?;
            self.classes.iter().position(|c| c.template.metadata.name == app)
        };
        let placed: Vec<Placed> = observer
            .bound
            .iter()
            .filter_map(|(name, node)| {
                let template = u32::try_from(class_of(name)?).ok()?;
                Some(Placed { template, node: u32::try_from(nodes::node_index(node)?).ok()? })
            })
            .collect();
        let templates: Vec<_> = self.classes.iter().map(|c| c.template.clone()).collect();
        let made = (0..self.bind.n_nodes).map(|i| nodes::node(self.bind.seed, i));
        let findings = check::check(made, &namespaces(), &templates, &placed);
        self.findings.pods += findings.pods;
        self.findings.n_violations += findings.n_violations;
        self.findings.violations.extend(findings.violations);
    }

    async fn clear(
        &self,
        observer: &mut Observer,
        progress: &dyn Fn(usize),
    ) -> Result<(), ClusterBenchError> {
        for namespace in namespaces() {
            let path = format!("/api/v1/namespaces/{}/pods?gracePeriodSeconds=0", namespace.metadata.name);
            let request = call::with_body(Method::DELETE, &path, "", Vec::new());
            call::send(&self.client, request, ROUND_TIMEOUT, usize::MAX).await?;
        }
        observer.until(|o| o.observed.pods.is_empty(), "all pods are deleted", progress).await
    }
}

/// Watches pods being bound.
struct Observer {
    pods: Following<Pod>,
    observed: Observed,
    seen: HashSet<String>,
    /// Names of pods and their nodes, in the order they were told of.
    bound: Vec<(String, String)>,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Observer {
    fn start(client: Client) -> Observer {
        Observer {
            pods: follow(client, FollowOptions::new("/api/v1/pods")),
            observed: Observed::default(),
            seen: HashSet::new(),
            bound: Vec::new(),
            first: None,
            last: None,
        }
    }

    async fn until(
        &mut self,
        is_done: impl Fn(&Observer) -> bool,
        what: &str,
        progress: &dyn Fn(usize),
    ) -> Result<(), ClusterBenchError> {
        let watched = async {
            let mut events = Vec::new();
            while !is_done(self) {
                self.pods.next_many(&mut events, 4096).await;
                for event in events.drain(..) {
                    self.take(event);
                }
                progress(self.bound.len());
            }
        };
        let late = |_| ClusterBenchError::TooLate { what: what.to_owned(), seconds: ROUND_TIMEOUT.as_secs() };
        tokio::time::timeout(ROUND_TIMEOUT, watched).await.map_err(late)
    }

    fn take(&mut self, event: berth_watch::follow::Event<Pod>) {
        if let berth_watch::follow::Event::Applied(pod) = &event
            && let Some(node) = pod.node()
            && self.seen.insert(pod.metadata.name.clone())
        {
            let now = Instant::now();
            self.first.get_or_insert(now);
            self.last = Some(now);
            self.bound.push((pod.metadata.name.clone(), node.to_owned()));
        }
        self.observed.pod_event(event);
    }

    /// The first binding begins the time, and is not counted.
    fn per_second(&self) -> f64 {
        match self.first.zip(self.last) {
            Some((first, last)) if last > first => {
                (self.bound.len() - 1) as f64 / last.duration_since(first).as_secs_f64()
            }
            _ => 0.0,
        }
    }
}
