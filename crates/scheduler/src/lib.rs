//! The scheduler: pods that wait go through a queue to a decision of the engine and are bound.
//!
//! One task owns everything that is known: the engine's state and the queue. What the server tells and what became
//! of requests reaches it through channels; requests run in tasks of their own, a bounded number of each kind.
//! There are no locks, and nothing is decided on a state that somebody else is changing.
//!
//! A decision is *assumed* at once, so that the next one counts with it, and the binding is sent meanwhile. `bind`
//! makes sure that nothing is bound twice or forgotten, `queue` orders and parks pods, `status` is what pods are told.
//! The engine decides; this crate only carries questions to it and answers away.

mod bind;
mod metrics;
mod options;
mod pods;
mod queue;
mod scheduler;
mod status;

use tokio_util::sync::CancellationToken;

pub use options::{SCHEDULER_NAME, SchedulerError, SchedulerOptions};
pub use queue::QueueCounts;

/// What a scheduler looks like at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// What has not been listed yet; nothing is decided before all of it is.
    pub waits_for: Vec<&'static str>,
    /// Whether this process leads.
    pub leads: bool,
    /// Who waits, and for what.
    pub queue: QueueCounts,
    /// Nodes in the state.
    pub n_nodes: usize,
    /// Assigned pods in the state, those assumed to be included.
    pub n_pods: usize,
    /// Pods bound so far.
    pub n_bound: u64,
    /// Attempts that found no node, so far.
    pub n_unschedulable: u64,
    /// Attempts that failed otherwise, so far.
    pub n_errors: u64,
    /// Pods removed so far to make room for others.
    pub n_preempted: u64,
    /// Differences between the state and fresh lists that were found and mended, so far.
    pub n_differences: u64,
    /// Events dropped so far, because they were too many.
    pub n_events_dropped: u64,
}

impl Snapshot {
    /// Whether everything has been listed.
    pub fn is_ready(&self) -> bool {
        self.waits_for.is_empty()
    }

    /// Pods that have not been bound yet, gated ones included.
    pub fn n_waiting(&self) -> usize {
        let QueueCounts { active, backoff, unschedulable, gated, busy } = self.queue;
        active + backoff + unschedulable + gated + busy
    }
}

impl berth_serve::health::Readiness for Snapshot {
    fn waits_for(&self) -> &[&'static str] {
        &self.waits_for
    }
}

/// A scheduler that runs.
pub type Handle = berth_client::component::ComponentHandle<Snapshot>;

/// Starts a scheduler. It runs until `stop`, then waits for bindings under way and gives its lease back.
///
/// # Errors
/// The options contradict each other, or there is no client to be made of `config`. That the server does not answer is
/// no error: it is tried again until it does.
pub async fn start(
    config: kube::Config,
    options: SchedulerOptions,
    stop: CancellationToken,
) -> Result<Handle, SchedulerError> {
    scheduler::start(config, options, stop).await
}

/// As [`start`], and waits until it has stopped.
///
/// # Errors
/// As [`start`], or it broke down.
pub async fn run(
    config: kube::Config,
    options: SchedulerOptions,
    stop: CancellationToken,
) -> Result<(), SchedulerError> {
    Ok(start(config, options, stop).await?.stopped().await?)
}
