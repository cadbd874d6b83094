//! Heartbeats: Leases often, the nodes' status rarely.

use std::time::Duration;

use tokio::time::Instant;

use super::nodes::Answer;
use super::request_queue::{Job, RequestKind};
use super::state::{Agent, Timer};
use super::store::{NodeId, NodeState};
use crate::node::NodeView;

/// Shortest interval between corrections of a status that another client changes.
const STATUS_PAUSE: Duration = Duration::from_secs(1);

impl Agent {
    /// Spreads the nodes evenly over the interval for any number of nodes, by multiples of the golden ratio.
    pub(super) fn begin_heartbeats(&mut self, id: NodeId) {
        const GOLDEN_RATIO: f64 = 0.618_033_988_749_895;
        let part = (f64::from(id.0) * GOLDEN_RATIO).fract();
        let heartbeat = self.options.heartbeat;
        let entry = self.nodes.get_mut(id);
        entry.timer_epoch += 1;
        let epoch = entry.timer_epoch;
        let start = Instant::now();
        let first_lease = self.batch_time(start + heartbeat.lease_interval.mul_f64(part));
        self.timers.add(first_lease, Timer::Lease(id, epoch));
        let first_status = heartbeat.status_interval.mul_f64(part.max(0.1));
        self.timers.add(start + first_status, Timer::NodeStatus(id, epoch));
    }

    /// Leases are renewed in fifty batches per interval: batched requests cost a quarter of the wake-ups, here and at the
    /// server.
    fn batch_time(&self, due: Instant) -> Instant {
        let batch = (self.options.heartbeat.lease_interval / 50).as_micros().max(1) as u64;
        let since = due.saturating_duration_since(self.started).as_micros() as u64;
        self.started + Duration::from_micros(since - since % batch)
    }

    pub(super) fn lease_due(&mut self, id: NodeId, epoch: u32) {
        if self.nodes.get(id).timer_epoch != epoch {
            return;
        }
        let next = self.batch_time(Instant::now() + self.options.heartbeat.lease_interval);
        self.timers.add(next, Timer::Lease(id, epoch));
        self.renew_lease(id);
    }

    pub(super) fn renew_lease(&mut self, id: NodeId) {
        let entry = self.nodes.get_mut(id);
        if entry.state == NodeState::Running && !entry.lease_busy {
            entry.lease_busy = true;
            self.push(Job::Lease(id));
        }
    }

    pub(super) fn status_due(&mut self, id: NodeId, epoch: u32) {
        if self.nodes.get(id).timer_epoch != epoch {
            return;
        }
        let next = Instant::now() + self.options.heartbeat.status_interval;
        self.timers.add(next, Timer::NodeStatus(id, epoch));
        self.report_status(id, Duration::ZERO);
    }

    /// Another client has overwritten the node's status.
    pub(super) fn correct_status(&mut self, id: NodeId) {
        self.report_status(id, STATUS_PAUSE);
    }

    pub(super) fn report_status(&mut self, id: NodeId, after: Duration) {
        let entry = self.nodes.get_mut(id);
        if entry.state != NodeState::Running || entry.status_busy {
            return;
        }
        entry.status_busy = true;
        match after {
            Duration::ZERO => self.push(Job::NodeStatus(id)),
            after => self.retry(Job::NodeStatus(id), after),
        }
    }

    pub(super) fn lease_written(&mut self, id: NodeId, kind: RequestKind, result: Answer) {
        let entry = self.nodes.get_mut(id);
        entry.lease_busy = false;
        match result {
            Ok(_) => entry.lease_exists = true,
            // The next renewal comes early enough, so there is no retry. Only the knowledge whether the Lease exists is
            // corrected at once.
            Err(error) if kind == RequestKind::NewLease && error.is_conflict() => {
                entry.lease_exists = true;
                self.renew_lease(id);
            }
            Err(error) if kind == RequestKind::Plain && error.is_not_found() => {
                entry.lease_exists = false;
                self.renew_lease(id);
            }
            Err(error) => {
                self.failure_log
                    .record(|| format!("the Lease of node {} was not renewed: {error}", entry.name));
            }
        }
    }

    pub(super) fn status_written(&mut self, id: NodeId, result: Answer) {
        match result {
            Ok(answer) => {
                let entry = self.nodes.get_mut(id);
                entry.status_busy = false;
                entry.failures = 0;
                let view = answer.first().and_then(|bytes| serde_json::from_slice::<NodeView>(bytes).ok());
                if entry.state == NodeState::Running
                    && let Some(view) = view.filter(|v| v.metadata.uid == entry.uid())
                {
                    // The watch reports it later; until then the next status must be based on this one.
                    if entry.view.as_ref().is_none_or(|before| before.to_node() != view.to_node()) {
                        self.admission.set_node(&view.to_node());
                    }
                    self.nodes.get_mut(id).view = Some(view);
                }
            }
            Err(error) if error.is_not_found() => self.nodes.get_mut(id).status_busy = false,
            Err(error) => self.node_request_failed(Job::NodeStatus(id), id, "write the status of", &error),
        }
    }
}
