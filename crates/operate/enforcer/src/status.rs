//! What an enforcer publishes of itself.

use std::collections::BTreeMap;

/// The state of an enforcer at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Sources whose list is not complete; the enforcer evicts nothing until all are.
    pub pending_sources: Vec<&'static str>,
    /// Whether this process leads, and evicts.
    pub leads: bool,
    pub n_nodes: usize,
    /// Assigned pods in the state.
    pub n_pods: usize,
    /// Rules required during execution that are violated now.
    pub n_violated: usize,
    /// Of these, the ones whose grace period is over.
    pub n_due: usize,
    /// Violations that began, so far.
    pub n_began: u64,
    /// Violations that ended, so far: the rule holds again, or its pod was deleted.
    pub n_ended: u64,
    /// Pods that are evicted and not deleted yet.
    pub n_evicting: usize,
    pub n_evicted: u64,
    /// Evictions rejected so far: by a PodDisruptionBudget, or because the server was overloaded.
    pub n_refused: u64,
    /// Evictions that failed for other reasons, so far.
    pub n_failed: u64,
    /// Pods that would have been evicted so far without `dry_run`.
    pub n_would_evict: u64,
    /// Due pods or rules without an eviction now, by reason.
    pub held: BTreeMap<&'static str, usize>,
    /// Moves that ended with the replacement ready on its target, so far.
    pub n_moved: u64,
    pub n_plans: u64,
    /// Moves of the plan that are left.
    pub n_moves_left: usize,
    /// Whether the cluster limit stops all evictions.
    pub is_stopped: bool,
    /// Differences between the state and full lists that were repaired, so far.
    pub n_drifted: u64,
    /// Events dropped so far, because there were too many.
    pub n_events_dropped: u64,
}

impl Status {
    pub fn is_ready(&self) -> bool {
        self.pending_sources.is_empty()
    }
}

impl berth_serve::health::Readiness for Status {
    fn waits_for(&self) -> &[&'static str] {
        &self.pending_sources
    }
}

pub type Handle = berth_client::component::ComponentHandle<Status>;
