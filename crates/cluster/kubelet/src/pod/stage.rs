//! Stages of a pod, and the runs of its containers.

use std::time::Duration;

use jiff::Timestamp;

use super::rejection::Rejection;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Accepted; no container runs.
    Creating,
    /// The last container of `init_runs` that is not a sidecar runs.
    Initializing,
    /// Containers run and are not ready.
    Started,
    Ready,
    /// Containers have ended and will be restarted.
    BackOff,
    /// Containers received SIGTERM.
    Stopping {
        after: Duration,
        exit_code: i32,
    },
    /// No container runs, and none will.
    Ended(Outcome),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Succeeded,
    Failed,
    /// `activeDeadlineSeconds` passed.
    DeadlineExceeded,
    Rejected(Rejection),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InitRun {
    pub(super) began: Timestamp,
    /// None while it runs; sidecars run until the pod ends.
    pub(super) ended: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CompletedRun {
    pub(super) exit_code: i32,
    pub(super) began: Timestamp,
    pub(super) ended: Timestamp,
}
