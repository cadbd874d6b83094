//! What a scheduler publishes of itself.

use crate::queue::QueueCounts;

/// The state of a scheduler at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Sources whose list is not complete; the scheduler decides nothing until all are.
    pub pending_sources: Vec<&'static str>,
    pub leads: bool,
    pub queue: QueueCounts,
    pub n_nodes: usize,
    /// Pods on nodes in the state, assumed ones included.
    pub n_pods: usize,
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

pub type Handle = berth_client::component::ComponentHandle<Status>;
