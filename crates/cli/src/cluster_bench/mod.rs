//! Benchmarks of whole clusters. The API server is a process of its own, as on a machine that is somebody else's.

pub mod bind;
mod child;
mod load;
pub mod settle;
pub mod webhook;

use berth_client::call::CallError;
use berth_client::connect::ConnectError;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum ClusterBenchError {
    /// A process cannot be started, or did not get ready.
    #[error("berth {command}: {reason}")]
    Child {
        /// What was started.
        command: String,
        /// What is wrong.
        reason: String,
    },
    /// There is no client.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The scheduler cannot go on.
    #[error(transparent)]
    Scheduler(#[from] berth_scheduler::SchedulerError),
    /// A request failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// What was waited for did not happen.
    #[error("not within {seconds} s: {what}")]
    TooLate {
        /// What was waited for.
        what: String,
        /// How long.
        seconds: u64,
    },
    /// More was asked for than there is room.
    #[error("{0}")]
    Size(String),
}
