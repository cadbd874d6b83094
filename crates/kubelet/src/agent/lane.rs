//! A bounded number of requests at a time, the rest waiting in order.

use std::collections::VecDeque;
use std::time::Duration;

use berth_client::call::CallError;
use bytes::Bytes;
use tokio::task::JoinSet;

use super::store::{NodeId, PodId};

/// A thing to ask of the API server. What exactly is asked is made up when its turn comes, from what is known then;
/// nodes and pods see to it that each waits here at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Job {
    /// Create the node.
    Register(NodeId),
    /// Write the node's status.
    NodeStatus(NodeId),
    /// Give a node that was taken over the labels each kubelet gives its node.
    NodeLabels(NodeId),
    /// Renew the node's Lease, or create it.
    Lease(NodeId),
    /// Read the pods of a node that became ours late.
    ListPods(NodeId),
    /// Write what is to be written of the pod.
    Pod(PodId),
    /// Read what the pod's refusal depends on.
    SecondLook(PodId),
}

/// What a request came to.
pub(super) struct Done {
    pub(super) job: Job,
    pub(super) sent: Sent,
    pub(super) result: Result<Vec<Bytes>, CallError>,
}

/// What was asked in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The job says it all.
    Plain,
    /// The Lease was created, not renewed.
    NewLease,
    /// The pod's status of this version.
    PodStatus(u32),
    /// The pod's removal.
    PodRemoval,
}

/// Jobs of a kind.
pub(super) struct Lane {
    waiting: VecDeque<Job>,
    running: JoinSet<Done>,
    limit: usize,
}

impl Lane {
    pub(super) fn new(limit: usize) -> Lane {
        Lane { waiting: VecDeque::new(), running: JoinSet::new(), limit: limit.max(1) }
    }

    pub(super) fn push(&mut self, job: Job) {
        self.waiting.push_back(job);
    }

    /// The next job, if there is room for one more.
    pub(super) fn next(&mut self) -> Option<Job> {
        if self.running.len() < self.limit { self.waiting.pop_front() } else { None }
    }

    pub(super) fn start(&mut self, request: impl Future<Output = Done> + Send + 'static) {
        self.running.spawn(request);
    }

    /// Waits for a request to be answered; forever if none is under way. Safe to cancel.
    pub(super) async fn done(&mut self) -> Done {
        loop {
            match self.running.join_next().await {
                Some(Ok(done)) => return done,
                // Requests are never aborted while the lane is there, and do not panic.
                Some(Err(error)) => tracing::error!("a request ended without an answer: {error}"),
                None => std::future::pending().await,
            }
        }
    }

    /// An answer that is there already.
    pub(super) fn try_done(&mut self) -> Option<Done> {
        self.running.try_join_next()?.ok()
    }
}

/// How long after so many failures in a row something is tried again. `draw` is from 0 to 1.
pub(super) fn retry_after(failures: u32, error: &CallError, draw: f64) -> Duration {
    const FIRST: Duration = Duration::from_millis(200);
    const LONGEST: Duration = Duration::from_secs(20);
    // Refusals do not go away by themselves, so there is no hurry; but somebody may grant what is missing.
    let first = match error.code() {
        Some(400 | 401 | 403 | 405 | 413 | 415 | 422) => FIRST * 10,
        _ => FIRST,
    };
    let nominal = first.saturating_mul(1 << failures.min(10)).min(LONGEST).mul_f64(0.5 + draw / 2.0);
    error.retry_after().map_or(nominal, |asked| asked.max(nominal))
}
