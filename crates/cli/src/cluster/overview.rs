//! Follows nodes and pods, shows how they are doing, and tells when the cluster has come to rest.

use std::future::Future;
use std::time::{Duration, Instant};

use berth_client::call::{self, CallError};
use berth_client::watch::{WatchOptions, WatchStream, watch};
use http::Method;
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::observed::{Node, Observed, Pod};
use super::settled::{COLLECTIONS, Workload, restless_pods, restless_workload};
use crate::render::live::{Enforced, Live};

/// Events taken at a time.
const MAX_EVENTS: usize = 4096;
/// Between two questions whether the cluster is at rest.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The rate of bindings is that of the last this long.
const RATE_OVER: Duration = Duration::from_secs(1);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_LIST_BYTES: usize = 1 << 30;

/// What is seen of a cluster.
pub struct Overview {
    client: Client,
    nodes: WatchStream<Node>,
    pods: WatchStream<Pod>,
    observed: Observed,
    live: Live,
    rate: Rate,
    enforcer: Option<watch::Receiver<berth_enforcer::Snapshot>>,
}

/// What [`Overview::until_settled`] waits for.
pub struct Rest<I> {
    /// Nodes that have to be ready.
    pub n_nodes: usize,
    /// Whether the scheduler has nothing to do: no pod waits for its turn, and none for another try.
    pub is_scheduler_idle: I,
    /// How long to wait.
    pub timeout: Option<Duration>,
}

/// How waiting ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Waited {
    /// The cluster is at rest.
    Settled,
    /// It was not in time; this was going on.
    TimedOut(String),
}

impl Overview {
    /// Begins to follow. Where there is an enforcer, what it does is shown as well.
    pub fn start(
        client: Client,
        live: Live,
        enforcer: Option<watch::Receiver<berth_enforcer::Snapshot>>,
    ) -> Overview {
        Overview {
            nodes: watch(client.clone(), WatchOptions::new("/api/v1/nodes")),
            pods: watch(client.clone(), WatchOptions::new("/api/v1/pods")),
            client,
            observed: Observed::default(),
            live,
            rate: Rate::default(),
            enforcer,
        }
    }

    /// What was seen so far.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Lets something else be written to standard error, past the summary.
    pub fn aside(&self, write: impl FnOnce()) {
        self.live.aside(write);
    }

    /// Takes the summary off the screen.
    pub fn clear(&mut self) {
        self.live.clear();
    }

    /// Takes in events until `end` does.
    pub async fn until<T>(&mut self, end: impl Future<Output = T>) -> T {
        let mut show = ticks(self.live.every());
        tokio::pin!(end);
        loop {
            tokio::select! {
                value = &mut end => return value,
                () = self.events() => {}
                _ = show.tick() => self.show(),
            }
        }
    }

    /// Takes in events until the cluster is at rest: all pods are placed, and started where their node is ready, or
    /// known to fit nowhere; and no controller is about to change any.
    ///
    /// # Errors
    /// The workloads cannot be listed.
    pub async fn until_settled<F>(&mut self, rest: Rest<impl Fn() -> F>) -> Result<Waited, CallError>
    where
        F: Future<Output = bool>,
    {
        let begin = Instant::now();
        let mut show = ticks(self.live.every());
        let mut look = ticks(LOOK_EVERY);
        // Seen at rest, at this version. Only when nothing changed until the next look, it is.
        let mut seen_at_rest = None;
        loop {
            tokio::select! {
                () = self.events() => {}
                _ = show.tick() => self.show(),
                _ = look.tick() => {
                    let version = self.observed.version;
                    let Some(why) = self.why_restless(&rest).await? else {
                        if seen_at_rest == Some(version) {
                            return Ok(Waited::Settled);
                        }
                        seen_at_rest = Some(version);
                        continue;
                    };
                    seen_at_rest = None;
                    tracing::debug!("not at rest: {why}");
                    if rest.timeout.is_some_and(|timeout| begin.elapsed() > timeout) {
                        return Ok(Waited::TimedOut(why));
                    }
                }
            }
        }
    }

    async fn why_restless<F>(&self, rest: &Rest<impl Fn() -> F>) -> Result<Option<String>, CallError>
    where
        F: Future<Output = bool>,
    {
        if let Some(why) = restless_pods(&self.observed, rest.n_nodes) {
            return Ok(Some(why));
        }
        if !(rest.is_scheduler_idle)().await {
            return Ok(Some("the scheduler has pods to look at".to_owned()));
        }
        let workloads = workloads(&self.client).await?;
        Ok(restless_workload(&workloads, &self.observed))
    }

    /// Takes in what has come, after waiting for something to come.
    async fn events(&mut self) {
        let (mut nodes, mut pods) = (Vec::new(), Vec::new());
        let n_taken = tokio::select! {
            n = self.nodes.next_many(&mut nodes, MAX_EVENTS) => n,
            n = self.pods.next_many(&mut pods, MAX_EVENTS) => n,
        };
        if n_taken == 0 {
            // The runtime shuts down: nothing comes any more.
            std::future::pending::<()>().await;
        }
        nodes.into_iter().for_each(|event| self.observed.node_event(event));
        pods.into_iter().for_each(|event| self.observed.pod_event(event));
    }

    fn show(&mut self) {
        let rate = self.rate.per_second(self.observed.n_bound);
        if self.observed.is_complete() {
            let enforced = self.enforcer.as_ref().map(|enforcer| Enforced::of(&enforcer.borrow()));
            self.live.show(&self.observed.tally(), rate, &enforced.unwrap_or_default());
        }
    }
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

#[derive(Deserialize)]
struct List<T> {
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

/// All objects of a collection, at once.
///
/// # Errors
/// They cannot be listed.
pub async fn list<T: DeserializeOwned>(client: &Client, path: &str) -> Result<Vec<T>, CallError> {
    let bytes = call::send(client, call::get(path), REQUEST_TIMEOUT, MAX_LIST_BYTES).await?;
    let list: List<T> = serde_json::from_slice(&bytes).map_err(|error| CallError::Answer {
        method: Method::GET,
        path: path.to_owned(),
        message: error.to_string(),
    })?;
    Ok(list.items)
}

/// All workloads.
///
/// # Errors
/// They cannot be listed.
pub async fn workloads(client: &Client) -> Result<Vec<Workload>, CallError> {
    let mut workloads = Vec::new();
    for (kind, path) in COLLECTIONS {
        let items: Vec<Workload> = list(client, path).await?;
        workloads.extend(items.into_iter().map(|w| Workload { kind, ..w }));
    }
    Ok(workloads)
}

/// A count that grows, as a rate.
#[derive(Default)]
struct Rate {
    since: Option<(Instant, u64)>,
    per_second: f64,
}

impl Rate {
    fn per_second(&mut self, count: u64) -> f64 {
        let now = Instant::now();
        let Some((begin, before)) = self.since else {
            self.since = Some((now, count));
            return 0.0;
        };
        let elapsed = now.duration_since(begin);
        if elapsed >= RATE_OVER {
            self.per_second = count.saturating_sub(before) as f64 / elapsed.as_secs_f64();
            self.since = Some((now, count));
        }
        self.per_second
    }
}
