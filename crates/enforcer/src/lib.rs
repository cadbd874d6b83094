//! The enforcer: rules required during execution go on being held after a pod was placed, by eviction.
//!
//! The engine says which running pods break such a rule, who would have to go so that it holds again, and where to;
//! this crate adds what takes time: `patience` before a rule counts as broken for good, `brakes` on how many go,
//! and the Eviction API (`evict`). Its shape is the scheduler's: one task owns everything that is known; what the
//! server tells and what became of requests reaches it through channels; requests run in tasks of their own, a bounded
//! number at a time.
//!
//! An eviction comes about in steps, and each is judged anew on the state as it is then: a rule is broken for its
//! grace; the engine names a pod whose going cures it, and a place where that pod fits with all its rules; the brakes
//! let it go; that is written down in the `ledger`; the pod is named once more, and the request is sent.

mod enforcer;
mod evict;
mod grace_timers;
mod ledger;
mod limiter;
mod message;
mod metrics;
mod options;
mod pods;

use std::collections::BTreeMap;

use tokio_util::sync::CancellationToken;

pub use evict::CONDITION_REASON;
pub use limiter::LEAST_CLUSTER_LIMIT;
pub use options::{BrakeOptions, EnforcerError, EnforcerOptions, GRACE_ANNOTATION, Graces};

/// What an enforcer looks like at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Sources whose list is not complete; the enforcer evicts nothing until all are.
    pub pending_sources: Vec<&'static str>,
    /// Whether this process leads, and evicts.
    pub leads: bool,
    /// Nodes in the state.
    pub n_nodes: usize,
    /// Assigned pods in the state.
    pub n_pods: usize,
    /// Rules required during execution that are broken now.
    pub n_broken: usize,
    /// Of these, the ones that have been for longer than their grace.
    pub n_due: usize,
    /// Rules that broke, so far.
    pub n_began: u64,
    /// Rules that hold again or whose pods went, so far.
    pub n_ended: u64,
    /// Pods that were told to go and have not gone yet.
    pub n_going: usize,
    /// Pods evicted so far.
    pub n_evicted: u64,
    /// Evictions refused so far: by a PodDisruptionBudget, or because the server had too much to do.
    pub n_refused: u64,
    /// Evictions that failed otherwise, so far.
    pub n_failed: u64,
    /// Pods that would have been evicted so far, if this were no dry run.
    pub n_would_evict: u64,
    /// Pods or rules for which nobody goes now, though they are due, by reason.
    pub held: BTreeMap<&'static str, usize>,
    /// Whether more of the cluster would go than may.
    pub is_brake_engaged: bool,
    /// Differences between the state and full lists that were repaired, so far.
    pub n_drifted: u64,
    /// Events dropped so far, because they were too many.
    pub n_events_dropped: u64,
}

impl Snapshot {
    /// Whether everything has been listed.
    pub fn is_ready(&self) -> bool {
        self.pending_sources.is_empty()
    }
}

impl berth_serve::health::Readiness for Snapshot {
    fn waits_for(&self) -> &[&'static str] {
        &self.pending_sources
    }
}

/// An enforcer that runs.
pub type Handle = berth_client::component::ComponentHandle<Snapshot>;

/// Starts an enforcer. It runs until `stop`, then waits for evictions under way and gives its lease back.
///
/// # Errors
/// There is no client to be made of `config`, or the address to listen on cannot be used. That the server does not
/// answer is no error: it is tried again until it does.
pub async fn start(
    config: kube::Config,
    options: EnforcerOptions,
    stop: CancellationToken,
) -> Result<Handle, EnforcerError> {
    enforcer::start(config, options, stop).await
}

/// As [`start`], and waits until it has stopped.
///
/// # Errors
/// As [`start`], or it broke down.
pub async fn run(
    config: kube::Config,
    options: EnforcerOptions,
    stop: CancellationToken,
) -> Result<(), EnforcerError> {
    Ok(start(config, options, stop).await?.stopped().await?)
}
