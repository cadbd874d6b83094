//! An eviction: the request, and its result.
//!
//! The request names the pod's uid, so that it never evicts another pod of the same name, and uses the Eviction API, which
//! checks PodDisruptionBudgets. If the response is neither a success nor a rejection, the pod is looked up before anything
//! else is done. The caller decides about retries.

use std::sync::Arc;
use std::time::Duration;

use berth_api::object::Pod;
use berth_api::object::placement::MOVE_CONDITION;
use berth_api::object::time::rfc3339;
use berth_api::resource::PODS;
use berth_client::Backoff;
use berth_client::call::{self, CallError};
use berth_client::lease::Leadership;
use http::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// `reason` of the condition `DisruptionTarget` of pods that are evicted for a rule required during execution.
pub const CONDITION_REASON: &str = "AffinityBroken";
/// The same of pods that are moved.
const MOVED_REASON: &str = "Rebalanced";

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// Attempts to write the condition of an evicted pod.
const CONDITION_ATTEMPTS: usize = 2;

#[derive(Debug)]
pub(crate) enum EvictionOutcome {
    Evicted,
    /// The pod was deleted for another reason.
    Deleted,
    /// Nothing was sent: this process lost the leadership.
    NotSent,
    /// A PodDisruptionBudget does not allow it now, or the server is overloaded.
    Refused(CallError),
    /// The pod is not evicted. If that is not certain, the request may still be carried out.
    Failed {
        error: CallError,
        is_certain: bool,
    },
    /// The server did not answer before lookups were abandoned.
    Unknown(CallError),
}

#[derive(Clone, Debug)]
pub(crate) struct Eviction {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Message of the pod's condition.
    pub(crate) message: String,
    /// The node that the scheduler is asked to put the replacement on.
    pub(crate) moves_to: Option<String>,
    /// Whether it is a step of a plan.
    pub(crate) is_move: bool,
}

#[derive(Clone)]
pub(crate) struct Evictor {
    pub(crate) client: kube::Client,
    pub(crate) leadership: Leadership,
    pub(crate) timeout: Duration,
    pub(crate) metrics: Arc<Metrics>,
    /// Stops lookups on a server that does not answer.
    pub(crate) stop: CancellationToken,
}

/// A pod read from the API.
enum Found {
    /// Deleted, being deleted, or replaced by another pod of its name.
    Deleted,
    Exists,
    /// The server did not answer.
    Unknown,
}

impl Evictor {
    pub(crate) async fn evict(&self, eviction: &Eviction) -> EvictionOutcome {
        // Checked right before sending: a leader whose lease may have been taken must not send.
        if !self.leadership.leads() {
            return EvictionOutcome::NotSent;
        }
        if let Some(node) = &eviction.moves_to
            && let Err(error) = self.patch(eviction, &move_condition(eviction, "True", node)).await
        {
            return EvictionOutcome::Failed { error, is_certain: true };
        }
        let error = match self.send(eviction).await {
            Ok(()) => {
                self.write_condition(eviction).await;
                return EvictionOutcome::Evicted;
            }
            Err(error) => error,
        };
        if eviction.is_move && error.is_refusal() {
            self.unmark(eviction).await;
        }
        if error.code() == Some(429) {
            return EvictionOutcome::Refused(error);
        }
        let is_certain = error.is_refusal();
        match self.look_up(eviction).await {
            Found::Deleted if is_certain => EvictionOutcome::Deleted,
            Found::Deleted => EvictionOutcome::Evicted,
            Found::Exists => EvictionOutcome::Failed { error, is_certain },
            Found::Unknown => EvictionOutcome::Unknown(error),
        }
    }

    /// Writes to the condition of a pod that its move is checked, and returns what it says then, which is another text each time.
    pub(crate) async fn mark(&self, eviction: &Eviction) -> Result<String, CallError> {
        let mark = format!("The move is checked ({:08x})", fastrand::u32(..));
        self.patch(eviction, &move_condition(eviction, "Unknown", &mark)).await.map(|()| mark)
    }

    /// Writes to the condition of a pod that it is not evicted.
    pub(crate) async fn unmark(&self, eviction: &Eviction) {
        let not_evicted = move_condition(eviction, "False", "The pod is not evicted");
        if let Err(error) = self.patch(eviction, &not_evicted).await {
            tracing::debug!("the condition of a pod that stays is not written: {error}");
        }
    }

    async fn send(&self, eviction: &Eviction) -> Result<(), CallError> {
        let Eviction { namespace, name, uid, .. } = eviction;
        berth_client::eviction::evict(&self.client, namespace, name, uid, self.timeout).await
    }

    /// Writes the reason into the pod's status, after the API server accepted the eviction: a pod with a rejected eviction
    /// must not have the condition.
    async fn write_condition(&self, eviction: &Eviction) {
        let reason = if eviction.is_move { MOVED_REASON } else { CONDITION_REASON };
        let body = condition(eviction, "DisruptionTarget", "True", reason, &eviction.message);
        for _ in 0..CONDITION_ATTEMPTS {
            if !self.leadership.leads() {
                return;
            }
            let Err(error) = self.patch(eviction, &body).await else { return };
            if error.is_not_found() || error.is_conflict() {
                return;
            }
            tracing::debug!("the condition of an evicted pod is not written: {error}");
        }
    }

    async fn patch(&self, eviction: &Eviction, status: &Value) -> Result<(), CallError> {
        let path = format!("{}/status", eviction.path());
        let content_type = "application/strategic-merge-patch+json";
        let request = call::with_body(Method::PATCH, &path, content_type, status.to_string().into_bytes());
        call::send(&self.client, request, self.timeout, call::MAX_OBJECT_BYTES).await.map(|_| ())
    }

    /// Retries until there is an answer, or lookups are abandoned.
    async fn look_up(&self, eviction: &Eviction) -> Found {
        let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        loop {
            self.metrics.lookups.inc();
            let request = call::get(&eviction.path());
            let error = match call::json::<Pod>(&self.client, request, self.timeout).await {
                Ok(pod) if pod.metadata.uid != eviction.uid => return Found::Deleted,
                Ok(pod) if pod.metadata.deletion_timestamp.is_some() => return Found::Deleted,
                Ok(_) => return Found::Exists,
                Err(error) if error.is_not_found() => return Found::Deleted,
                Err(error) => error,
            };
            tracing::debug!(pod = eviction.path(), "looking up a pod: {error}");
            let wait = backoff.failed(fastrand::f64());
            tokio::select! {
                () = self.stop.cancelled() => return Found::Unknown,
                () = tokio::time::sleep(error.retry_after().unwrap_or(wait)) => {}
            }
        }
    }
}

impl Eviction {
    fn path(&self) -> String {
        PODS.object_path(&self.namespace, &self.name)
    }
}

fn move_condition(eviction: &Eviction, status: &str, message: &str) -> Value {
    condition(eviction, MOVE_CONDITION, status, MOVED_REASON, message)
}

fn condition(eviction: &Eviction, condition_type: &str, status: &str, reason: &str, message: &str) -> Value {
    let condition = json!({
        "type": condition_type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(jiff::Timestamp::now()),
    });
    json!({"metadata": {"uid": eviction.uid}, "status": {"conditions": [condition]}})
}
