//! The enforcer: evicts running pods that violate rules required during execution.
//!
//! The engine reports violations, selects the pods to be evicted, and checks that a feasible node exists. This crate adds
//! what takes time: grace periods (`violations`), how long pods without a feasible node are held (`held_pods`), limits of
//! evictions (`limits`), and the Eviction API (`evictions`). Like
//! in the scheduler, one task owns these parts; watch events and results of requests reach it through channels; requests
//! run in separate tasks, a bounded number at a time.
//!
//! An eviction takes several steps, and each evaluates the current state again: a rule is violated for its grace period;
//! the engine selects a pod whose eviction fixes the rule, and a node where that pod fits with all its rules; the limits
//! allow the eviction; the enforcer records it in the `ledger`; the engine selects the pod once more, and the request is
//! sent. This crate never selects victims itself.
//!
//! With a request to rebalance, plans of moves are made and carried out by the same means (`rebalance`).

mod blocked;
mod completion;
mod controllers;
mod evaluation_timer;
mod event_reporter;
mod evict;
mod evict_group;
mod evictions;
mod forecast;
mod grace_timers;
mod held_pods;
mod ledger_sync;
mod limiter;
mod limits;
mod message;
mod metrics;
mod options;
mod pods;
mod rebalance;
mod reporter;
mod status;
mod task;
mod time;
mod violations;

use berth_client::connect::Connection;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

pub use evict::CONDITION_REASON;
pub use forecast::{HoldForecast, LimitsInUse, PodHold, grace_period, limits_in_use};
pub use limiter::{LEAST_CLUSTER_LIMIT, LimitInUse};
pub use options::{
    EnforcerError, EnforcerOptions, Graces, HoldOptions, HoldPeriod, LimitOptions, RebalanceOptions,
};
pub use rebalance::{STATUS_KEY, STATUS_NAME};
pub use status::{Handle, Status};

/// Starts an enforcer. It runs until `stop`, then waits for evictions in flight and releases its lease.
///
/// # Errors
/// `connection` is not valid for a client, or the address to listen on cannot be used. A server that does not answer is no
/// error: the enforcer retries until it does.
pub fn start(
    connection: impl Into<Connection>,
    options: EnforcerOptions,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<Handle, EnforcerError>> {
    task::start(connection.into(), options, stop)
}
