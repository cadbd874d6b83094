//! The enforcer: evicts running pods that violate rules required during execution.
//!
//! The engine reports violations, selects the pods to be evicted, and checks that a feasible node exists. This crate adds
//! what takes time: grace periods (`grace_timers`), limits of evictions (`limiter`), and the Eviction API (`evict`). Like
//! in the scheduler, one task owns the state; watch events and results of requests reach it through channels; requests
//! run in tasks of their own, a bounded number at a time.
//!
//! An eviction takes several steps, and each evaluates the current state again: a rule is violated for its grace period;
//! the engine selects a pod whose eviction fixes the rule, and a node where that pod fits with all its rules; the limits
//! allow the eviction; the enforcer records it in the `ledger`; the engine selects the pod once more, and the request is
//! sent. This crate never selects victims itself.

mod enforcer;
mod evict;
mod forecast;
mod grace_timers;
mod ledger;
mod limiter;
mod message;
mod metrics;
mod options;
mod pods;

use std::collections::BTreeMap;

use berth_client::connect::Connection;
use tokio_util::sync::CancellationToken;

pub use evict::CONDITION_REASON;
pub use forecast::{LimitsInUse, delayed_evictions, grace_period, limits_in_use};
pub use limiter::{LEAST_CLUSTER_LIMIT, LimitInUse};
pub use options::{EnforcerError, EnforcerOptions, GRACE_ANNOTATION, Graces, LimitOptions};

/// The state of an enforcer at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Sources whose list is not complete; the enforcer evicts nothing until all are.
    pub pending_sources: Vec<&'static str>,
    /// Whether this process leads, and evicts.
    pub leads: bool,
    /// Nodes in the state.
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
    /// Pods evicted so far.
    pub n_evicted: u64,
    /// Evictions rejected so far: by a PodDisruptionBudget, or because the server was overloaded.
    pub n_refused: u64,
    /// Evictions that failed for other reasons, so far.
    pub n_failed: u64,
    /// Pods that would have been evicted so far without `dry_run`.
    pub n_would_evict: u64,
    /// Due pods or rules without an eviction now, by reason.
    pub held: BTreeMap<&'static str, usize>,
    /// Whether the cluster limit stops all evictions.
    pub is_stopped: bool,
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
}

impl berth_serve::health::Readiness for Status {
    fn waits_for(&self) -> &[&'static str] {
        &self.pending_sources
    }
}

/// The handle of a running enforcer.
pub type Handle = berth_client::component::ComponentHandle<Status>;

/// Starts an enforcer. It runs until `stop`, then waits for evictions in flight and releases its lease.
///
/// # Errors
/// `connection` is not valid for a client, or the address to listen on cannot be used. A server that does not answer is no
/// error: the enforcer retries until it does.
pub async fn start(
    connection: impl Into<Connection>,
    options: EnforcerOptions,
    stop: CancellationToken,
) -> Result<Handle, EnforcerError> {
    enforcer::start(connection.into(), options, stop).await
}

/// As [`start`], and waits until the enforcer has stopped.
///
/// # Errors
/// As [`start`], or the enforcer panicked.
pub async fn run(
    connection: impl Into<Connection>,
    options: EnforcerOptions,
    stop: CancellationToken,
) -> Result<(), EnforcerError> {
    Ok(start(connection, options, stop).await?.stopped().await?)
}
