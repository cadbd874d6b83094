//! The status that the scheduler shows, and the gauges that follow it.

use std::time::Duration;

use berth_mirror::Source;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Scheduler;
use crate::Status;

/// The shortest time between two statuses: a thousand per second would be of no use.
const REPORT_PERIOD: Duration = Duration::from_millis(10);

pub(super) struct Reporter {
    /// The current status. Counters are kept here.
    pub(super) current: Status,
    last: Status,
    sender: watch::Sender<Status>,
    not_before: Instant,
    is_due: bool,
}

impl Reporter {
    pub(super) fn new() -> (Reporter, watch::Receiver<Status>) {
        let pending = Source::ALL.iter().map(|source| source.name()).collect();
        let (sender, receiver) = watch::channel(Status { pending_sources: pending, ..Status::default() });
        let (current, last) = (Status::default(), Status::default());
        (Reporter { current, last, sender, not_before: Instant::now(), is_due: false }, receiver)
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.is_due.then_some(self.not_before)
    }
}

impl Scheduler {
    pub(super) fn report_if_due(&mut self, now: Instant) {
        self.reporter.is_due = now < self.reporter.not_before;
        if !self.reporter.is_due {
            self.report();
            self.reporter.not_before = now + REPORT_PERIOD;
        }
    }

    pub(super) fn report(&mut self) {
        let Reporter { current, last, sender, .. } = &mut self.reporter;
        current.pending_sources = self.mirror.pending();
        current.leads = self.leadership.leads();
        current.queue = self.queue.counts();
        current.n_nodes = self.mirror.n_nodes();
        current.n_pods = self.mirror.n_pods();
        current.n_events_dropped = self.events.n_dropped();
        if current != last {
            self.metrics.sizes(current.queue, current.n_nodes, current.n_pods, self.mirror.n_assumed());
            self.metrics.events_dropped.set(current.n_events_dropped as i64);
            self.metrics.leads.set(i64::from(current.leads));
            last.clone_from(current);
            sender.send_replace(current.clone());
        }
    }
}
