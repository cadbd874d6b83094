//! The published status, and the gauges that follow it.

use std::sync::Arc;
use std::time::Duration;

use berth_mirror::Source;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::context::Context;
use crate::metrics::Metrics;
use crate::state::State;
use crate::status::Status;

/// The shortest time between two statuses: a thousand per second would be of no use.
const REPORT_PERIOD: Duration = Duration::from_millis(10);

pub(crate) struct Reporter {
    /// The current status. Counters are kept here.
    pub(crate) current: Status,
    last: Status,
    sender: watch::Sender<Status>,
    not_before: Instant,
    is_due: bool,
    metrics: Arc<Metrics>,
}

impl Reporter {
    pub(crate) fn new(metrics: Arc<Metrics>) -> (Reporter, watch::Receiver<Status>) {
        let pending = Source::ALL.iter().map(|source| source.name()).collect();
        let (sender, receiver) = watch::channel(Status { pending_sources: pending, ..Status::default() });
        let (current, last) = (Status::default(), Status::default());
        (Reporter { current, last, sender, not_before: Instant::now(), is_due: false, metrics }, receiver)
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.is_due.then_some(self.not_before)
    }

    /// Publishes the status, but not too often.
    pub(crate) fn report_if_due(&mut self, context: &Context, leads: bool, now: Instant) {
        self.is_due = now < self.not_before;
        if !self.is_due {
            self.report(context, leads);
            self.not_before = now + REPORT_PERIOD;
        }
    }

    /// Publishes the status, if it has changed.
    pub(crate) fn report(&mut self, context: &Context, leads: bool) {
        let Reporter { current, last, sender, metrics, .. } = self;
        let Context { state: State { mirror, .. }, pending } = context;
        current.pending_sources = mirror.pending();
        current.leads = leads;
        current.queue = pending.queue.counts();
        current.n_nodes = mirror.n_nodes();
        current.n_pods = mirror.n_pods();
        current.n_events_dropped = pending.events.n_dropped();
        if current != last {
            metrics.sizes(current.queue, current.n_nodes, current.n_pods, mirror.n_assumed());
            metrics.events_dropped.set(current.n_events_dropped as i64);
            metrics.leads.set(i64::from(current.leads));
            last.clone_from(current);
            sender.send_replace(current.clone());
        }
    }
}
