//! An eviction: the request, and its result.
//!
//! The request names the pod's uid, so that it never evicts another pod of the same name, and uses the Eviction API, which
//! checks PodDisruptionBudgets. If the response is neither a success nor a rejection, the pod is looked up before anything
//! else is done. The caller decides about retries.

use std::sync::Arc;
use std::time::Duration;

use berth_api::object::Pod;
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

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// Attempts to write the condition of an evicted pod.
const CONDITION_ATTEMPTS: usize = 2;

/// The result of an eviction.
#[derive(Debug)]
pub(crate) enum EvictionOutcome {
    /// The pod is evicted.
    Evicted,
    /// The pod was deleted for another reason.
    Deleted,
    /// Nothing was sent: this process lost the leadership.
    NotSent,
    /// A PodDisruptionBudget does not allow it now, or the server is overloaded.
    Refused(CallError),
    /// The pod is not evicted. If that is not certain, the request may still be carried out.
    Failed { error: CallError, is_certain: bool },
    /// The server did not answer before lookups were abandoned.
    Unknown(CallError),
}

/// A pod to be evicted.
#[derive(Clone, Debug)]
pub(crate) struct Eviction {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Message of the pod's condition.
    pub(crate) message: String,
}

/// Evicts pods.
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
        let error = match self.send(eviction).await {
            Ok(()) => {
                self.write_condition(eviction).await;
                return EvictionOutcome::Evicted;
            }
            Err(error) if error.code() == Some(429) => return EvictionOutcome::Refused(error),
            Err(error) => error,
        };
        let is_certain = error.is_refusal();
        match self.look_up(eviction).await {
            Found::Deleted if is_certain => EvictionOutcome::Deleted,
            Found::Deleted => EvictionOutcome::Evicted,
            Found::Exists => EvictionOutcome::Failed { error, is_certain },
            Found::Unknown => EvictionOutcome::Unknown(error),
        }
    }

    async fn send(&self, eviction: &Eviction) -> Result<(), CallError> {
        let Eviction { namespace, name, uid, .. } = eviction;
        berth_client::eviction::evict(&self.client, namespace, name, uid, self.timeout).await
    }

    /// Writes the reason into the pod's status, after the API server accepted the eviction: a pod with a rejected eviction
    /// must not have the condition.
    async fn write_condition(&self, eviction: &Eviction) {
        let path = format!("{}/status", eviction.path());
        let body = condition(eviction, jiff::Timestamp::now()).to_string().into_bytes();
        let content_type = "application/strategic-merge-patch+json";
        for _ in 0..CONDITION_ATTEMPTS {
            if !self.leadership.leads() {
                return;
            }
            let request = call::with_body(Method::PATCH, &path, content_type, body.clone());
            let sent = call::send(&self.client, request, self.timeout, call::MAX_OBJECT_BYTES).await;
            let Err(error) = sent else { return };
            if error.is_not_found() || error.is_conflict() {
                return;
            }
            tracing::debug!("the condition of an evicted pod is not written: {error}");
        }
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

fn condition(eviction: &Eviction, now: jiff::Timestamp) -> Value {
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": CONDITION_REASON,
        "message": eviction.message,
        "lastTransitionTime": rfc3339(now),
    });
    json!({"metadata": {"uid": eviction.uid}, "status": {"conditions": [condition]}})
}
