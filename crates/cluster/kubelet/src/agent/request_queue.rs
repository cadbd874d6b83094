//! Queues of requests with bounded concurrency.

use std::collections::VecDeque;
use std::time::Duration;

use berth_client::call::CallError;
use bytes::Bytes;
use tokio::task::JoinSet;

use super::store::{NodeId, PodId};

/// A request to the API server. It is built when it starts, from the state at that time. Each job is queued at most
/// once: nodes and pods have flags for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Job {
    Register(NodeId),
    NodeStatus(NodeId),
    /// Set missing kubelet labels on an adopted node.
    NodeLabels(NodeId),
    CsiNode(NodeId),
    /// Renew the node's Lease, or create it.
    Lease(NodeId),
    /// List the pods of a node that was adopted or started after the pod watch.
    ListPods(NodeId),
    /// Write the pod's status, or remove the pod.
    Pod(PodId),
    /// Read the node and namespaces that the rejection of the pod depends on.
    Recheck(PodId),
}

pub(super) struct Completion {
    pub(super) job: Job,
    pub(super) kind: RequestKind,
    pub(super) result: Result<Vec<Bytes>, CallError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// The only variant of the job.
    Plain,
    /// Creates the Lease instead of renewing it.
    NewLease,
    /// Writes the pod's status of this version.
    PodStatus(u32),
    PodRemoval,
}

/// A queue of jobs and the requests under way.
pub(super) struct RequestQueue {
    waiting: VecDeque<Job>,
    running: JoinSet<Completion>,
    limit: usize,
}

impl RequestQueue {
    pub(super) fn new(limit: usize) -> RequestQueue {
        RequestQueue { waiting: VecDeque::new(), running: JoinSet::new(), limit: limit.max(1) }
    }

    pub(super) fn push(&mut self, job: Job) {
        self.waiting.push_back(job);
    }

    /// The next job, if the limit allows one more request.
    pub(super) fn next(&mut self) -> Option<Job> {
        if self.running.len() < self.limit { self.waiting.pop_front() } else { None }
    }

    pub(super) fn start(&mut self, request: impl Future<Output = Completion> + Send + 'static) {
        self.running.spawn(request);
    }

    /// Waits for the next completed request; forever if none is under way. Safe to cancel.
    pub(super) async fn done(&mut self) -> Completion {
        loop {
            match self.running.join_next().await {
                Some(Ok(done)) => return done,
                // The queue never aborts requests, and they do not panic.
                Some(Err(error)) => tracing::error!("a request task failed: {error}"),
                None => std::future::pending().await,
            }
        }
    }

    /// The next request that has already completed.
    pub(super) fn try_done(&mut self) -> Option<Completion> {
        self.running.try_join_next()?.ok()
    }
}

/// Wait before a retry after this number of consecutive failures. `draw` is a random number from 0 to 1.
pub(super) fn retry_after(failures: u32, error: &CallError, draw: f64) -> Duration {
    const FIRST: Duration = Duration::from_millis(200);
    const LONGEST: Duration = Duration::from_secs(20);
    // A rejected request needs a change by the user, such as a permission: it is retried more slowly.
    let first = match error.code() {
        Some(400 | 401 | 403 | 405 | 413 | 415 | 422) => FIRST * 10,
        _ => FIRST,
    };
    let nominal = first.saturating_mul(1 << failures.min(10)).min(LONGEST).mul_f64(0.5 + draw / 2.0);
    error.retry_after().map_or(nominal, |requested| requested.max(nominal))
}
