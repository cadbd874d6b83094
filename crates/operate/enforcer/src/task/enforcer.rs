//! The loop of the task: events, completions and timers, and then a turn.

use std::sync::Arc;
use std::time::Duration;

use berth_client::WatchFailure;
use berth_client::component::Sidecars;
use berth_client::lease::Leadership;
use berth_engine::{Cluster, RemedyOptions};
use berth_mirror::{Mirror, WatchEvent};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::rebalancer::Rebalancer;
use crate::completion::Completion;
use crate::evaluation_timer::EvaluationTimer;
use crate::event_reporter::EventReporter;
use crate::evictions::Evictions;
use crate::held_pods::HeldPods;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::options::EnforcerOptions;
use crate::pods::Pods;
use crate::reporter::Reporter;
use crate::violations::Violations;

/// Watch events applied before anything is evaluated again.
const EVENTS_AT_ONCE: usize = 512;
/// The loop turns at least so often.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The task, and the parts that it owns.
pub(super) struct Enforcer {
    pub(super) cluster: Cluster,
    pub(super) mirror: Mirror,
    pub(super) pods: Pods,
    /// Whether all sources were listed once. Before that, violations mean nothing.
    pub(super) is_complete: bool,
    pub(super) violations: Violations,
    pub(super) held: HeldPods,
    pub(super) limits: Limits,
    pub(super) evictions: Evictions,
    pub(super) rebalancer: Option<Rebalancer>,
    pub(super) events: EventReporter,
    pub(super) reporter: Reporter,
    pub(super) metrics: Arc<Metrics>,
    pub(super) timer: EvaluationTimer,
    pub(super) remedy_options: RemedyOptions,
    pub(super) leadership: Leadership,
    pub(super) led_before: bool,
    /// Whether the groups whose eviction an earlier process began were looked for in this leadership.
    pub(super) has_ended_groups: bool,
    pub(super) failure: Option<WatchFailure>,
    pub(super) options: EnforcerOptions,
}

impl Enforcer {
    pub(super) async fn run(
        mut self,
        mut watch_events: mpsc::Receiver<WatchEvent>,
        mut completions: mpsc::UnboundedReceiver<Completion>,
        stop: CancellationToken,
        sidecars: Sidecars,
    ) -> Result<(), WatchFailure> {
        let mut batch = Vec::with_capacity(EVENTS_AT_ONCE);
        // One for all turns: it remembers what it has seen of the lease.
        let mut leadership = self.leadership.clone();
        loop {
            let wake_at = self.next_wake(Instant::now());
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(completion) = completions.recv() => self.apply_completion(completion),
                n = watch_events.recv_many(&mut batch, EVENTS_AT_ONCE) => if n == 0 { break },
                () = leadership.changed() => {}
                () = tokio::time::sleep_until(wake_at) => {}
            }
            while let Ok(completion) = completions.try_recv() {
                self.apply_completion(completion);
            }
            // The branches are tried in order: watch events must not wait until there are no completions.
            while batch.len() < EVENTS_AT_ONCE
                && let Ok(event) = watch_events.try_recv()
            {
                batch.push(event);
            }
            for event in batch.drain(..) {
                self.apply(event);
            }
            if self.failure.is_some() {
                break;
            }
            self.turn();
        }
        self.stop(&mut completions).await;
        sidecars.stop().await;
        self.failure.map_or(Ok(()), Err)
    }

    /// One turn, after all events that have arrived are applied.
    fn turn(&mut self) {
        let now = Instant::now();
        self.observe_leadership();
        self.take_violations(now);
        if self.keeps_ledger() {
            self.limits.sync(now);
        }
        if self.may_evict() && !std::mem::replace(&mut self.has_ended_groups, true) {
            self.end_begun_groups();
        }
        if self.may_evict() && self.timer.begin(now) {
            self.select_victims(now);
            self.timer.end(now, Instant::now());
        }
        self.rebalance(now);
        self.mirror.read_node_attributes(&self.cluster, now);
        self.mirror.check_if_due(now);
        self.report();
    }

    /// When there is something to do although nothing happens.
    fn next_wake(&self, now: Instant) -> Instant {
        let evaluate_at = self.timer.next().filter(|_| self.may_evict());
        let ledger_at = self.limits.ledger.retry_at(self.keeps_ledger());
        let rebalance_at = self.rebalancer.as_ref().and_then(Rebalancer::next).filter(|_| self.may_evict());
        let times = [self.violations.next_due(), evaluate_at, ledger_at, rebalance_at];
        times.into_iter().flatten().min().map_or(now + LONGEST_PAUSE, |at| at.min(now + LONGEST_PAUSE))
    }

    /// Events of what another leader did a moment ago may not have arrived yet: pods are listed again, and the ledger is
    /// read, before the first decision as a leader.
    fn observe_leadership(&mut self) {
        let leads = self.leadership.leads();
        if leads && !self.led_before {
            self.mirror.relist_pods();
        }
        if !leads && self.led_before {
            self.limits.ledger.reset();
            self.has_ended_groups = false;
            self.rebalancer.iter_mut().for_each(Rebalancer::reset);
        }
        self.led_before = leads;
    }

    pub(super) fn may_evict(&self) -> bool {
        self.is_complete
            && self.mirror.is_complete()
            && (self.options.dry_run || (self.keeps_ledger() && self.limits.ledger.is_known()))
    }

    /// Whether this process evicts, and so keeps the ledger.
    pub(super) fn keeps_ledger(&self) -> bool {
        !self.options.dry_run && self.leadership.leads()
    }

    fn report(&mut self) {
        let leads = self.keeps_ledger();
        let current = &mut self.reporter.current;
        current.pending_sources = self.mirror.pending();
        current.leads = leads;
        current.n_nodes = self.mirror.n_nodes();
        current.n_pods = self.mirror.n_pods();
        current.n_violated = self.violations.len();
        current.n_due = self.violations.n_due();
        current.n_evicting = self.evictions.len();
        current.is_stopped = self.limits.limiter.is_stopped();
        current.n_events_dropped = self.events.n_dropped();
        self.reporter.report();
    }

    /// Waits for evictions in flight, within limits.
    async fn stop(&mut self, completions: &mut mpsc::UnboundedReceiver<Completion>) {
        let deadline = Instant::now() + self.options.stop_timeout;
        while self.evictions.n_in_flight() > 0 {
            match tokio::time::timeout_at(deadline, completions.recv()).await {
                Ok(Some(completion)) => self.apply_completion(completion),
                Ok(None) => break,
                Err(_) => {
                    tracing::warn!(n = self.evictions.n_in_flight(), "stopping with evictions in flight");
                    break;
                }
            }
        }
        self.evictions.abandon_lookups();
        self.report();
    }
}
