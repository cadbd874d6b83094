//! Watches nodes and pods, shows the live summary, and detects when the cluster has settled.

use std::collections::HashMap;
use std::future::Future;
use std::time::{Duration, Instant};

use berth_api::object::ObjectMeta;
use berth_api::resource::EVENTS;
use berth_client::watch::{ListError, WatchOptions, list};
use berth_input::inventory::Inventory;
use berth_simulate::{Simulation, SimulationOptions, Unadmitted, UnadmittedState};
use indicatif::ProgressBar;
use kube::Client;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::observed::Observed;
use super::settled::{unsettled_pods, unsettled_workload};
use super::status_line::{EnforcerStatus, StatusLine};
use super::workload::{WORKLOADS, Workload};
use crate::live;

/// Interval between two checks whether the cluster has settled.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Interval between two checks whether there are failures to report.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// Length of the period over which the rate of bindings is measured.
const RATE_PERIOD: Duration = Duration::from_secs(1);

/// A watched cluster with its live summary.
pub struct Overview {
    client: Client,
    observed: Observed,
    status_line: StatusLine,
    rate: Rate,
    enforcer: Option<watch::Receiver<berth_enforcer::Status>>,
    /// The versions of the last check, and of the last look at what starting pods wait for.
    checked_at: Option<u64>,
    looked_at: Option<u64>,
    /// As listed last.
    workloads: Vec<Workload>,
}

/// When [`Overview::until_settled`] considers the cluster settled.
pub struct SettleCriteria<I> {
    /// Minimum number of ready nodes.
    pub n_nodes: usize,
    /// Whether the scheduler is idle: no pod is queued for an attempt.
    pub is_scheduler_idle: I,
    pub timeout: Option<Duration>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum SettleResult {
    Settled,
    /// The timeout passed; the reason why the cluster had not settled.
    TimedOut(String),
}

impl Overview {
    /// Starts to watch. The summary includes the enforcer, if there is one.
    pub fn start(
        client: Client,
        status_line: StatusLine,
        enforcer: Option<watch::Receiver<berth_enforcer::Status>>,
    ) -> Overview {
        Overview {
            observed: Observed::start(&client),
            client,
            status_line,
            rate: Rate::default(),
            enforcer,
            checked_at: None,
            looked_at: None,
            workloads: Vec::new(),
        }
    }

    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Runs `write`, which writes to standard error, without disturbing the summary.
    pub fn suspend(&self, write: impl FnOnce()) {
        self.status_line.suspend(write);
    }

    pub fn clear(&mut self) {
        self.status_line.clear();
    }

    /// Shows the summary until `end` completes.
    pub async fn until<T>(&mut self, end: impl Future<Output = T>) -> T {
        let mut show = ticks(self.status_line.interval());
        tokio::pin!(end);
        loop {
            tokio::select! {
                value = &mut end => return value,
                _ = show.tick() => self.show(),
            }
        }
    }

    /// Waits until there is something to report that this version had not: pods that are unschedulable or were preempted.
    pub async fn until_failures(&mut self, known: u64) {
        let mut show = ticks(self.status_line.interval());
        let mut check = ticks(REPORT_INTERVAL);
        loop {
            tokio::select! {
                _ = show.tick() => self.show(),
                _ = check.tick() => {
                    if self.observed.history().version != known && self.observed.has_failures() {
                        return;
                    }
                }
            }
        }
    }

    /// The workloads when it was last looked whether the cluster has settled.
    pub fn workloads(&self) -> &[Workload] {
        &self.workloads
    }

    /// Waits until the cluster has settled: each pod runs, has ended, is unschedulable, or is on a node that is
    /// not ready; and no controller has pending work. The observed pods and the workloads are then those that were judged.
    pub async fn until_settled<F>(
        &mut self,
        criteria: SettleCriteria<impl Fn() -> F>,
    ) -> Result<SettleResult, ListError>
    where
        F: Future<Output = bool>,
    {
        let begin = Instant::now();
        let mut show = ticks(self.status_line.interval());
        let mut check = ticks(CHECK_INTERVAL);
        // The version at which the last check succeeded. A second check at the same version confirms it.
        let mut settled_at = None;
        loop {
            tokio::select! {
                _ = show.tick() => self.show(),
                _ = check.tick() => {
                    let version = self.observed.history().version;
                    let Some(why) = self.unsettled_reason(&criteria).await? else {
                        if settled_at == Some(version) && self.observed.history().version == version {
                            return Ok(SettleResult::Settled);
                        }
                        settled_at = Some(version);
                        continue;
                    };
                    settled_at = None;
                    tracing::debug!("not settled: {why}");
                    if criteria.timeout.is_some_and(|timeout| begin.elapsed() > timeout) {
                        self.workloads = workloads(&self.client).await?;
                        return Ok(SettleResult::TimedOut(why));
                    }
                }
            }
        }
    }

    async fn unsettled_reason<F>(
        &mut self,
        criteria: &SettleCriteria<impl Fn() -> F>,
    ) -> Result<Option<String>, ListError>
    where
        F: Future<Output = bool>,
    {
        let version = self.observed.history().version;
        let is_quiet = self.checked_at.replace(version) == Some(version);
        let mut why = unsettled_pods(&self.observed, criteria.n_nodes);
        // Pods that start may wait for volumes for ever.
        if why.is_some() && is_quiet && self.looked_at != Some(version) {
            self.looked_at = Some(version);
            self.observed.set_unmounted(unmounted_pods(&self.client).await);
            why = unsettled_pods(&self.observed, criteria.n_nodes);
        }
        if why.is_some() {
            return Ok(why);
        }
        if !(criteria.is_scheduler_idle)().await {
            return Ok(Some("the scheduler has queued pods".to_owned()));
        }
        self.workloads = workloads(&self.client).await?;
        Ok(unsettled_workload(&self.workloads, &self.observed))
    }

    fn show(&mut self) {
        let rate = self.rate.per_second(self.observed.history().n_bound);
        if self.observed.is_complete() {
            let status = self.enforcer.as_ref().map(|enforcer| EnforcerStatus::new(&enforcer.borrow()));
            self.status_line.show(&self.observed.tally(), rate, &status.unwrap_or_default());
        }
    }
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

async fn workloads(client: &Client) -> Result<Vec<Workload>, ListError> {
    let mut workloads = Vec::new();
    for resource in WORKLOADS {
        let items: Vec<Workload> = list(client, &WatchOptions::new(resource.path(""))).await?;
        workloads.extend(items.into_iter().map(|w| Workload { kind: resource.kind, ..w }));
    }
    if workloads.iter().any(Workload::lacks_pods) {
        let mut failed: HashMap<String, String> = HashMap::new();
        for event in list::<Event>(client, &WatchOptions::of(&EVENTS)).await? {
            if event.reason == "FailedCreate" {
                failed.insert(event.involved_object.uid, event.message);
            }
        }
        for workload in workloads.iter_mut().filter(|workload| workload.lacks_pods()) {
            workload.failed_create = failed.remove(&workload.metadata.uid);
        }
    }
    Ok(workloads)
}

/// What is read of an event.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    reason: String,
    message: String,
    involved_object: ObjectMeta,
}

/// The pods that wait for volumes that their nodes cannot mount, as `namespace/name`; none if the cluster cannot be read.
async fn unmounted_pods(client: &Client) -> HashMap<String, Unadmitted> {
    let mut inventory = Inventory::default();
    if live::read(client, "the cluster", &mut inventory, &ProgressBar::hidden()).await.is_err() {
        return HashMap::new();
    }
    let Ok((simulation, _)) = Simulation::of_valid(inventory, SimulationOptions::default()) else {
        return HashMap::new();
    };
    let waiting =
        simulation.not_running().into_iter().filter(|group| group.why.state == UnadmittedState::Unbound);
    waiting.flat_map(|group| group.pods.into_iter().map(move |pod| (pod, group.why.clone()))).collect()
}

/// The rate of an increasing count.
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
        if elapsed >= RATE_PERIOD {
            self.per_second = count.saturating_sub(before) as f64 / elapsed.as_secs_f64();
            self.since = Some((now, count));
        }
        self.per_second
    }
}
