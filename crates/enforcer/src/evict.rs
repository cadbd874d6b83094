//! An eviction: asking the API server to let a pod go, and finding out whether it took notice.
//!
//! The request names the pod's uid, so that no pod of the same name goes in its place, and goes through the Eviction
//! API, so that PodDisruptionBudgets hold. One request is sent; when it is answered with anything but success or
//! "not now", the pod is looked up before anything else is done. Whoever asked decides whether to ask again.

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
use std::sync::Arc;

/// `reason` of the condition `DisruptionTarget` of pods that are evicted for a rule required during execution.
pub const CONDITION_REASON: &str = "AffinityBroken";

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// What is said to the pod once it goes is said once more if that fails, and no more.
const CONDITION_ATTEMPTS: usize = 2;

/// How an eviction ended.
#[derive(Debug)]
pub(crate) enum EvictionOutcome {
    /// The pod goes, or has gone.
    Evicted,
    /// The pod went, or goes, for another reason; nothing was carried out.
    Gone,
    /// Nothing was sent: this process does not lead any more.
    NotSent,
    /// A PodDisruptionBudget does not allow it now, or the server has too much to do.
    Refused(CallError),
    /// The pod stays. If it is not certain, the request may still be carried out.
    Failed { error: CallError, is_certain: bool },
    /// The server did not say, and nobody waits for it any more.
    Unknown(CallError),
}

/// A pod to be evicted.
#[derive(Clone, Debug)]
pub(crate) struct Eviction {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// What the pod's condition says.
    pub(crate) message: String,
}

/// Evicts pods.
#[derive(Clone)]
pub(crate) struct Evictor {
    pub(crate) client: kube::Client,
    pub(crate) leadership: Leadership,
    pub(crate) timeout: Duration,
    pub(crate) metrics: Arc<Metrics>,
    /// Ends waiting for a server that does not answer.
    pub(crate) stop: CancellationToken,
}

/// What a looked up pod turns out to be.
enum Seen {
    /// It is gone, another one has its name, or it is being deleted.
    Going,
    Stays,
    /// The server did not say.
    Unknown,
}

impl Evictor {
    pub(crate) async fn evict(&self, eviction: &Eviction) -> EvictionOutcome {
        // The last moment: a leader whose lease may have been taken must not send anything.
        if !self.leadership.leads() {
            return EvictionOutcome::NotSent;
        }
        let error = match self.send(eviction).await {
            Ok(()) => {
                self.tell_pod(eviction).await;
                return EvictionOutcome::Evicted;
            }
            Err(error) if error.code() == Some(429) => return EvictionOutcome::Refused(error),
            Err(error) => error,
        };
        let is_certain = error.is_refusal();
        match self.look_up(eviction).await {
            Seen::Going if is_certain => EvictionOutcome::Gone,
            Seen::Going => EvictionOutcome::Evicted,
            Seen::Stays => EvictionOutcome::Failed { error, is_certain },
            Seen::Unknown => EvictionOutcome::Unknown(error),
        }
    }

    async fn send(&self, eviction: &Eviction) -> Result<(), CallError> {
        let Eviction { namespace, name, uid, .. } = eviction;
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {
                "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid},
            },
        });
        let path = format!("{}/eviction", eviction.path());
        let request = call::with_body(Method::POST, &path, "application/json", body.to_string().into_bytes());
        call::send(&self.client, request, self.timeout, call::MAX_OBJECT_BYTES).await.map(|_| ())
    }

    /// Says in the pod's status why it goes. Only now, when it does: the server says so itself while it evicts, in
    /// general words, and a pod whose eviction was refused is no target of anything. A pod that is gone already is
    /// not told.
    async fn tell_pod(&self, eviction: &Eviction) {
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

    /// Asks until there is an answer, or nobody waits for one any more.
    async fn look_up(&self, eviction: &Eviction) -> Seen {
        let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        loop {
            self.metrics.lookups.inc();
            let request = call::get(&eviction.path());
            let error = match call::json::<Pod>(&self.client, request, self.timeout).await {
                Ok(pod) if pod.metadata.uid != eviction.uid => return Seen::Going,
                Ok(pod) if pod.metadata.deletion_timestamp.is_some() => return Seen::Going,
                Ok(_) => return Seen::Stays,
                Err(error) if error.is_not_found() => return Seen::Going,
                Err(error) => error,
            };
            tracing::debug!(pod = eviction.path(), "looking up a pod: {error}");
            let wait = backoff.failed(fastrand::f64());
            tokio::select! {
                () = self.stop.cancelled() => return Seen::Unknown,
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
