//! The published status, and the gauges that follow it.

use std::sync::Arc;

use berth_mirror::Source;
use tokio::sync::watch;

use crate::metrics::Metrics;
use crate::status::Status;

pub(crate) struct Reporter {
    /// The current status. Counters are kept here.
    pub(crate) current: Status,
    last: Status,
    sender: watch::Sender<Status>,
    metrics: Arc<Metrics>,
}

impl Reporter {
    pub(crate) fn new(metrics: Arc<Metrics>) -> (Reporter, watch::Receiver<Status>) {
        let pending = Source::PLACEMENT.iter().map(|source| source.name()).collect();
        let (sender, receiver) = watch::channel(Status { pending_sources: pending, ..Status::default() });
        (Reporter { current: Status::default(), last: Status::default(), sender, metrics }, receiver)
    }

    /// Publishes the status, if it has changed.
    pub(crate) fn report(&mut self) {
        let Reporter { current, last, sender, metrics } = self;
        if current != last {
            metrics.update(&last.held, current);
            last.clone_from(current);
            sender.send_replace(current.clone());
        }
    }
}
