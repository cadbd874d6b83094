//! Binding: the request, and its result.
//!
//! A request to bind names the pod's uid, so that no other pod of the same name is bound. When a request does not succeed,
//! the worker looks the pod up before it does anything else: a binding that succeeded although its response was lost must
//! not be repeated. While an earlier request may still be carried out, only the same node is tried again.
//!
//! Workers send requests, one at a time each. [`BindConcurrency`] says how many of them do.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_api::object::Pod;
use berth_api::resource::PODS;
use berth_api::syntax::annotations::RELAXED_ANNOTATION;
use berth_client::Backoff;
use berth_client::call::{self, CallError};
use berth_client::lease::Leadership;
use berth_serve::Metered;
use http::Method;
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::concurrency::BindConcurrency;
use crate::completion::{BindResult, Binding, Completion, CompletionSender};
use crate::metrics::{Metrics, REQUESTS};

/// Maximum requests for one pod before it returns to the queue.
const MAX_ATTEMPTS: u32 = 5;
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// A pod read from the API.
enum Found {
    Deleted,
    Bound(Box<Pod>),
    Pending,
    /// The server did not answer.
    Unknown,
}

/// A `Binding`, as it is sent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: BodyMetadata<'a>,
    target: Target<'a>,
}

#[derive(Serialize)]
struct BodyMetadata<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<BTreeMap<&'static str, &'a str>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Target<'a> {
    api_version: &'static str,
    kind: &'static str,
    name: &'a str,
}

/// Bindings that no worker has taken yet.
#[derive(Debug)]
struct BindQueue {
    bindings: Mutex<VecDeque<Binding>>,
    /// One permit for each.
    n_queued: Semaphore,
}

impl BindQueue {
    /// The next one; none when the queue is closed.
    async fn next(&self) -> Option<Binding> {
        self.n_queued.acquire().await.ok()?.forget();
        self.bindings.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// The workers, and the bindings that are to be sent.
pub(crate) struct BindWorkers {
    queue: Arc<BindQueue>,
    /// Queued bindings and bindings in flight.
    n_in_flight: usize,
    concurrency: BindConcurrency,
    /// How many workers may take bindings.
    allowed: watch::Sender<usize>,
    binder: Binder,
    completed: CompletionSender,
    /// They end with the scheduler.
    tasks: JoinSet<()>,
}

impl BindWorkers {
    /// Starts workers, of which at most `limit` send requests at a time; they end when the queue is closed.
    pub(crate) fn start(limit: usize, binder: Binder, completed: &CompletionSender) -> BindWorkers {
        let mut workers = BindWorkers {
            queue: Arc::new(BindQueue { bindings: Mutex::default(), n_queued: Semaphore::new(0) }),
            n_in_flight: 0,
            concurrency: BindConcurrency::new(limit),
            allowed: watch::Sender::new(0),
            binder,
            completed: completed.clone(),
            tasks: JoinSet::new(),
        };
        workers.apply_concurrency();
        workers
    }

    /// As many workers as are allowed take bindings.
    fn apply_concurrency(&mut self) {
        let allowed = self.concurrency.allowed();
        self.binder.metrics.bind_concurrency.set(allowed as i64);
        self.allowed.send_replace(allowed);
        for number in self.tasks.len()..allowed {
            let (binder, queue, completed) =
                (self.binder.clone(), self.queue.clone(), self.completed.clone());
            let mut allowed = self.allowed.subscribe();
            self.tasks.spawn(async move {
                while allowed.wait_for(|allowed| number < *allowed).await.is_ok()
                    && let Some(binding) = queue.next().await
                {
                    let began = Instant::now();
                    let result = Metered::new(pin!(binder.bind(&binding)), &REQUESTS).await;
                    // The receiver is gone when the scheduler has ended.
                    let _ = completed.send(Completion::Binding { binding, result, took: began.elapsed() });
                }
            });
        }
    }

    /// Whether pods are to be decided: while one binding is in flight, the next is ready.
    pub(crate) fn has_room(&self) -> bool {
        self.n_in_flight < 2 * self.concurrency.allowed()
    }

    /// Bindings that are to be sent, or whose result has not been handled.
    pub(crate) fn n_in_flight(&self) -> usize {
        self.n_in_flight
    }

    pub(crate) fn push(&mut self, binding: Binding) {
        self.n_in_flight += 1;
        self.queue.bindings.lock().unwrap_or_else(PoisonError::into_inner).push_back(binding);
        self.queue.n_queued.add_permits(1);
    }

    /// The result of a binding, whose requests took so long, is being handled.
    pub(crate) fn completed(&mut self, took: Duration, now: Instant) {
        self.n_in_flight -= 1;
        let before = self.concurrency.allowed();
        match self.binder.n_refused.swap(0, Ordering::Relaxed) {
            0 => self.concurrency.answered(took, self.n_in_flight >= before, now),
            _ => self.concurrency.refused(now),
        }
        if self.concurrency.allowed() != before {
            self.apply_concurrency();
        }
    }

    /// Workers take no more bindings. Returns those that are left.
    pub(crate) fn close(&self) -> VecDeque<Binding> {
        self.queue.n_queued.close();
        std::mem::take(&mut self.queue.bindings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stops looking up pods on a server that does not answer.
    pub(crate) fn abandon_lookups(&self) {
        self.binder.stop.cancel();
    }
}

/// Binds pods, one at a time.
#[derive(Clone)]
pub(crate) struct Binder {
    pub(crate) client: kube::Client,
    pub(crate) leadership: Leadership,
    pub(crate) timeout: Duration,
    pub(crate) metrics: Arc<Metrics>,
    /// Requests that the server refused because it has too many (429), until they are counted.
    pub(crate) n_refused: Arc<AtomicUsize>,
    /// Stops lookups on a server that does not answer.
    pub(crate) stop: CancellationToken,
}

impl Binder {
    async fn bind(&self, binding: &Binding) -> BindResult {
        let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        let mut is_sent = false;
        loop {
            // Checked right before sending: a leader whose lease may have been taken must not send.
            if !self.leadership.leads() || (!is_sent && binding.abandoned.load(Ordering::Relaxed)) {
                return self.give_up(binding, is_sent).await;
            }
            let Err(error) = self.send(binding).await else { return BindResult::Bound };
            is_sent = true;
            if error.code() == Some(429) {
                self.n_refused.fetch_add(1, Ordering::Relaxed);
            } else {
                match self.look_up(binding).await {
                    Found::Deleted => return BindResult::Deleted,
                    Found::Bound(pod) if *pod.spec.node_name == *binding.node => return BindResult::Bound,
                    Found::Bound(pod) => return BindResult::Elsewhere(pod),
                    Found::Unknown => return BindResult::Failed(error),
                    Found::Pending if error.is_refusal() => return BindResult::Failed(error),
                    Found::Pending if binding.abandoned.load(Ordering::Relaxed) => {
                        return BindResult::Failed(error);
                    }
                    Found::Pending => {}
                }
            }
            let wait = backoff.failed(fastrand::f64());
            if backoff.failures() >= MAX_ATTEMPTS {
                return BindResult::Failed(error);
            }
            self.metrics.bind_retries.inc();
            tracing::debug!(pod = binding.pod.key(), node = %binding.node, "binding is tried again: {error}");
            tokio::time::sleep(error.retry_after().unwrap_or(wait)).await;
        }
    }

    /// Nothing may be sent any more; an earlier request may have succeeded.
    async fn give_up(&self, binding: &Binding, is_sent: bool) -> BindResult {
        if !is_sent {
            return BindResult::NotSent;
        }
        match self.look_up(binding).await {
            Found::Deleted => BindResult::Deleted,
            Found::Bound(pod) if *pod.spec.node_name == *binding.node => BindResult::Bound,
            Found::Bound(pod) => BindResult::Elsewhere(pod),
            Found::Pending | Found::Unknown => BindResult::NotSent,
        }
    }

    async fn send(&self, binding: &Binding) -> Result<(), CallError> {
        let metadata = &binding.pod.metadata;
        let body = Body {
            api_version: "v1",
            kind: "Binding",
            metadata: BodyMetadata {
                name: &metadata.name,
                namespace: &metadata.namespace,
                uid: &metadata.uid,
                annotations: binding
                    .relaxed
                    .as_deref()
                    .map(|paths| BTreeMap::from([(RELAXED_ANNOTATION, paths)])),
            },
            target: Target { api_version: "v1", kind: "Node", name: &binding.node },
        };
        // A struct of strings always serializes.
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let path = format!("{}/binding", pod_path(&binding.pod));
        let request = call::with_body(Method::POST, &path, "application/json", body);
        call::send(&self.client, request, self.timeout, call::MAX_OBJECT_BYTES).await.map(|_| ())
    }

    /// Retries until there is an answer, or lookups are abandoned.
    async fn look_up(&self, binding: &Binding) -> Found {
        let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        loop {
            self.metrics.bind_lookups.inc();
            let request = call::get(&pod_path(&binding.pod));
            let error = match call::json::<Pod>(&self.client, request, self.timeout).await {
                Ok(pod) if pod.metadata.uid != binding.pod.metadata.uid => return Found::Deleted,
                Ok(pod) if pod.spec.node_name.is_empty() => return Found::Pending,
                Ok(pod) => return Found::Bound(Box::new(pod)),
                Err(error) if error.is_not_found() => return Found::Deleted,
                Err(error) => error,
            };
            tracing::debug!(pod = binding.pod.key(), "looking up a pod: {error}");
            let wait = backoff.failed(fastrand::f64());
            tokio::select! {
                () = self.stop.cancelled() => return Found::Unknown,
                () = tokio::time::sleep(error.retry_after().unwrap_or(wait)) => {}
            }
        }
    }
}

pub(crate) fn pod_path(pod: &Pod) -> String {
    PODS.object_path(&pod.metadata.namespace, &pod.metadata.name)
}
