//! The scheduler: it takes pending pods from a queue, asks the engine for a decision, and binds them.
//!
//! One task (`task`) owns the parts of the scheduler. Watch events and results of requests reach it through channels;
//! requests run in separate tasks, a bounded number of each kind. No decision is made on a state that another task is
//! changing.
//!
//! A decision is *assumed* at once, so that the next one takes it into account, while the binding is sent. `binding` makes
//! sure that no pod is bound twice or forgotten, `queue` orders pods and holds back those that are unschedulable,
//! `pending` keeps what is written and reported of them. This crate never decides about placement: it asks the engine.

mod binding;
mod completion;
mod context;
mod device_turns;
mod instruments;
mod metrics;
mod moves;
mod observer;
mod options;
mod pending;
mod pod_groups;
mod pod_status;
mod preemption;
mod queue;
mod recorder;
mod relaxation;
mod reporter;
mod resizes;
mod serving;
mod state;
mod status;
mod task;
mod wake;

use berth_client::connect::Connection;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

pub use observer::observe;
pub use options::{SCHEDULER_NAME, SchedulerError, SchedulerOptions};
pub use queue::QueueCounts;
pub use recorder::{RecordError, RecordOptions, Recorder};
pub use status::{Handle, Status};

/// Starts a scheduler. It runs until `stop`, then waits for bindings in flight and releases its lease.
///
/// # Errors
/// The options contradict each other, or `connection` is not valid for a client. A server that does not answer is no error: the
/// scheduler retries until it does.
pub fn start(
    connection: impl Into<Connection>,
    options: SchedulerOptions,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<Handle, SchedulerError>> {
    task::start(connection.into(), options, stop)
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
