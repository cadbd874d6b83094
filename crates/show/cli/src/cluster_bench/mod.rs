//! Benchmarks of whole clusters, with the API server as a separate process.

pub mod bind;
mod child;
pub mod churn;
pub mod console;
pub mod list;
mod load;
pub mod settle;
pub mod soak;
pub mod webhook;

use berth_client::call::CallError;
use berth_client::connect::ConnectError;

/// Why a benchmark failed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterBenchError {
    /// A process cannot be started, or did not become ready.
    #[error("berth {command}: {reason}")]
    Child {
        /// Its arguments.
        command: String,
        /// The error.
        reason: String,
    },
    /// The client cannot be created.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The scheduler failed.
    #[error(transparent)]
    Scheduler(#[from] berth_scheduler::SchedulerError),
    /// A request failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A condition was not met in time.
    #[error("timed out after {seconds} s waiting until {what}")]
    Timeout {
        /// The condition.
        what: String,
        /// The timeout.
        seconds: u64,
    },
    /// Any other error.
    #[error("{0}")]
    Other(String),
}
