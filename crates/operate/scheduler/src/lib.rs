//! The scheduler: it takes pending pods from a queue, asks the engine for a decision, and binds them.
//!
//! One task owns the engine's state and the queue. Watch events and results of requests reach it through channels;
//! requests run in tasks of their own, a bounded number of each kind. There are no locks, and no decision is made on a
//! state that another task is changing.
//!
//! A decision is *assumed* at once, so that the next one takes it into account, while the binding is sent. `bind` makes
//! sure that no pod is bound twice or forgotten, `queue` orders pods and holds back those that are unschedulable, `status`
//! writes the status of pods. This crate never decides about placement: it asks the engine.

mod bind;
mod metrics;
mod observer;
mod options;
mod queue;
mod recorder;
mod scheduler;
mod serving;
mod status;
mod volume_writes;

use berth_client::connect::Connection;
use tokio_util::sync::CancellationToken;

pub use observer::observe;
pub use options::{SCHEDULER_NAME, SchedulerError, SchedulerOptions};
pub use queue::QueueCounts;
pub use recorder::{RecordError, RecordOptions, Recorder};

/// The state of a scheduler at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Sources whose list is not complete; the scheduler decides nothing until all are.
    pub pending_sources: Vec<&'static str>,
    /// Whether this process leads.
    pub leads: bool,
    /// Number of pods by queue.
    pub queue: QueueCounts,
    /// Nodes in the state.
    pub n_nodes: usize,
    /// Pods on nodes in the state, assumed ones included.
    pub n_pods: usize,
    /// Pods bound so far.
    pub n_bound: u64,
    /// Attempts that found no node, so far.
    pub n_unschedulable: u64,
    /// Attempts that failed otherwise, so far.
    pub n_errors: u64,
    /// Preemption victims evicted so far.
    pub n_preempted: u64,
    /// Differences between the state and full lists that were repaired, so far.
    pub n_drifted: u64,
    /// Events dropped so far, because there were too many.
    pub n_events_dropped: u64,
}

impl Status {
    /// Whether all sources are listed.
    pub fn is_ready(&self) -> bool {
        self.pending_sources.is_empty()
    }

    /// Pods that are not bound yet, gated ones included.
    pub fn n_queued(&self) -> usize {
        let QueueCounts { active, backoff, unschedulable, gated, in_flight } = self.queue;
        active + backoff + unschedulable + gated + in_flight
    }
}

impl berth_serve::health::Readiness for Status {
    fn waits_for(&self) -> &[&'static str] {
        &self.pending_sources
    }
}

/// The handle of a running scheduler.
pub type Handle = berth_client::component::ComponentHandle<Status>;

/// Starts a scheduler. It runs until `stop`, then waits for bindings in flight and releases its lease.
///
/// # Errors
/// The options contradict each other, or `connection` is not valid for a client. A server that does not answer is no error: the
/// scheduler retries until it does.
pub async fn start(
    connection: impl Into<Connection>,
    options: SchedulerOptions,
    stop: CancellationToken,
) -> Result<Handle, SchedulerError> {
    scheduler::start(connection.into(), options, stop).await
}

/// As [`start`], and waits until the scheduler has stopped.
///
/// # Errors
/// As [`start`], or the scheduler panicked.
pub async fn run(
    connection: impl Into<Connection>,
    options: SchedulerOptions,
    stop: CancellationToken,
) -> Result<(), SchedulerError> {
    Ok(start(connection, options, stop).await?.stopped().await?)
}
