//! Binding: telling the API server where a pod goes, and finding out whether it took notice.
//!
//! A request to bind names the pod's uid, so that no pod of the same name is bound in its place. When it is not
//! answered with success, the pod is looked up before anything else is done: a binding that went through although
//! its answer was lost is none to repeat. As long as it is uncertain whether an earlier request may still be carried
//! out, only the same node is tried again.
//!
//! A fixed number of workers send requests, one at a time each, over as many connections.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_api::object::Pod;
use berth_client::Backoff;
use berth_client::call::{self, CallError};
use berth_client::lease::Leadership;
use http::Method;
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::queue::PodId;
use crate::scheduler::Ended;

/// Requests for one pod before it goes back to the queue.
const MAX_ATTEMPTS: u32 = 5;
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// How a binding ended.
#[derive(Debug)]
pub(crate) enum BindEnd {
    /// The pod is bound to the node.
    Bound,
    /// The pod is bound to another node, by somebody else.
    Elsewhere(Box<Pod>),
    /// The pod is not there any more.
    Gone,
    /// Nothing was sent: the node is gone, or this process does not lead any more.
    NotSent,
    /// The pod is not bound.
    Unbound(CallError),
}

/// What a looked up pod turns out to be.
enum Seen {
    Gone,
    On(Box<Pod>),
    Nowhere,
    /// The server did not say.
    Unknown,
}

/// A pod to bind.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) id: PodId,
    pub(crate) pod: Arc<Pod>,
    pub(crate) node: Arc<str>,
    /// Set when the node has gone: then nothing is sent to it any more.
    pub(crate) abandoned: Arc<AtomicBool>,
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
pub(crate) struct Bindings {
    waiting: Mutex<VecDeque<Binding>>,
    /// One permit for each.
    n_waiting: Semaphore,
}

impl Bindings {
    pub(crate) fn new() -> Arc<Bindings> {
        Arc::new(Bindings { waiting: Mutex::default(), n_waiting: Semaphore::new(0) })
    }

    pub(crate) fn push(&self, binding: Binding) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(binding);
        self.n_waiting.add_permits(1);
    }

    /// The next one; none when they are closed.
    async fn next(&self) -> Option<Binding> {
        self.n_waiting.acquire().await.ok()?.forget();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Workers take no more. Returns what is left.
    pub(crate) fn close(&self) -> VecDeque<Binding> {
        self.n_waiting.close();
        std::mem::take(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Starts `n` workers in `tasks`; they end when the bindings are closed.
pub(crate) fn start_workers(
    n: usize,
    binder: &Binder,
    bindings: &Arc<Bindings>,
    ended: &mpsc::UnboundedSender<Ended>,
    tasks: &mut JoinSet<()>,
) {
    for _ in 0..n {
        let (binder, bindings, ended) = (binder.clone(), bindings.clone(), ended.clone());
        tasks.spawn(async move {
            while let Some(binding) = bindings.next().await {
                let end = binder.bind(&binding).await;
                // Nobody takes it when the scheduler has ended.
                let _ = ended.send(Ended::Binding { binding, end });
            }
        });
    }
}

/// Binds pods, one at a time.
#[derive(Clone)]
pub(crate) struct Binder {
    pub(crate) client: kube::Client,
    pub(crate) leadership: Leadership,
    pub(crate) timeout: Duration,
    pub(crate) metrics: Arc<Metrics>,
    /// Ends waiting for a server that does not answer.
    pub(crate) stop: CancellationToken,
}

impl Binder {
    /// Binds a pod.
    async fn bind(&self, binding: &Binding) -> BindEnd {
        let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        let mut is_sent = false;
        loop {
            // The last moment: a leader whose lease may have been taken must not send anything.
            if !self.leadership.leads() || (!is_sent && binding.abandoned.load(Ordering::Relaxed)) {
                return self.stop_short(binding, is_sent).await;
            }
            let Err(error) = self.send(binding).await else { return BindEnd::Bound };
            is_sent = true;
            let is_busy = error.code() == Some(429);
            if !is_busy {
                match self.look_up(binding).await {
                    Seen::Gone => return BindEnd::Gone,
                    Seen::On(pod) if *pod.spec.node_name == *binding.node => return BindEnd::Bound,
                    Seen::On(pod) => return BindEnd::Elsewhere(pod),
                    Seen::Unknown => return BindEnd::Unbound(error),
                    Seen::Nowhere if error.is_refusal() => return BindEnd::Unbound(error),
                    Seen::Nowhere if binding.abandoned.load(Ordering::Relaxed) => {
                        return BindEnd::Unbound(error);
                    }
                    Seen::Nowhere => {}
                }
            }
            let wait = backoff.failed(fastrand::f64());
            if backoff.failures() >= MAX_ATTEMPTS {
                return BindEnd::Unbound(error);
            }
            self.metrics.bind_retries.inc();
            tracing::debug!(pod = binding.pod.key(), node = %binding.node, "binding is tried again: {error}");
            tokio::time::sleep(error.retry_after().unwrap_or(wait)).await;
        }
    }

    /// Nothing more may be sent; what was sent may have been carried out.
    async fn stop_short(&self, binding: &Binding, is_sent: bool) -> BindEnd {
        if !is_sent {
            return BindEnd::NotSent;
        }
        match self.look_up(binding).await {
            Seen::Gone => BindEnd::Gone,
            Seen::On(pod) if *pod.spec.node_name == *binding.node => BindEnd::Bound,
            Seen::On(pod) => BindEnd::Elsewhere(pod),
            Seen::Nowhere | Seen::Unknown => BindEnd::NotSent,
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
            },
            target: Target { api_version: "v1", kind: "Node", name: &binding.node },
        };
        // Texts under names that are texts: this is always JSON.
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let path = format!("{}/binding", pod_path(&binding.pod));
        let request = call::with_body(Method::POST, &path, "application/json", body);
        call::send(&self.client, request, self.timeout, call::MAX_OBJECT_BYTES).await.map(|_| ())
    }

    /// Asks until there is an answer, or nobody waits for one any more.
    async fn look_up(&self, binding: &Binding) -> Seen {
        let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        loop {
            self.metrics.bind_lookups.inc();
            let request = call::get(&pod_path(&binding.pod));
            let error = match call::json::<Pod>(&self.client, request, self.timeout).await {
                Ok(pod) if pod.metadata.uid != binding.pod.metadata.uid => return Seen::Gone,
                Ok(pod) if pod.spec.node_name.is_empty() => return Seen::Nowhere,
                Ok(pod) => return Seen::On(Box::new(pod)),
                Err(error) if error.is_not_found() => return Seen::Gone,
                Err(error) => error,
            };
            tracing::debug!(pod = binding.pod.key(), "looking up a pod: {error}");
            let wait = backoff.failed(fastrand::f64());
            tokio::select! {
                () = self.stop.cancelled() => return Seen::Unknown,
                () = tokio::time::sleep(error.retry_after().unwrap_or(wait)) => {}
            }
        }
    }
}

/// Path of a pod.
pub(crate) fn pod_path(pod: &Pod) -> String {
    path_of(&pod.metadata.namespace, &pod.metadata.name)
}

/// Path of a pod by namespace and name.
pub(crate) fn path_of(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}
