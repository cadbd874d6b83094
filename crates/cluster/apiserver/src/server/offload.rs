//! Requests with much to parse, validate or patch run on threads of their own: they must not keep the threads that
//! answer all other requests.

use std::sync::Arc;

use http::StatusCode;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use super::reply::Reply;
use super::route::Verb;
use super::service::{ApiRequest, Shared};
use super::status::Status;
use crate::handlers;

/// Requests with a body or a stored object above this size are heavy.
const HEAVY_BYTES: usize = 64 << 10;
/// Heavy requests that are worked on at once. A parsed body takes some twenty times its size; more requests wait.
const AT_ONCE: usize = 8;

/// The threads for heavy requests: half of the cores.
pub struct Offload {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    permits: Arc<Semaphore>,
}

impl Offload {
    /// Starts the threads.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub fn start() -> std::io::Result<Offload> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads((cores / 2).max(1)).thread_name("heavy-requests").enable_all();
        Ok(Offload { runtime: Some(builder.build()?), permits: Arc::new(Semaphore::new(AT_ONCE)) })
    }
}

impl Drop for Offload {
    fn drop(&mut self) {
        // A runtime must not wait for its threads inside another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Answers a request. Heavy ones run on their own threads; the caller can give up waiting at any time, and the request
/// then ends at its next wait.
///
/// # Errors
/// The request fails; the status gives the reason.
pub async fn handle(shared: &Arc<Shared>, request: ApiRequest) -> Result<Reply, Box<Status>> {
    let offload = shared.offload.as_ref().filter(|_| is_heavy(shared, &request));
    let Some(Offload { runtime: Some(runtime), permits }) = offload else {
        return handlers::handle(shared, request).await;
    };
    let permit = permits.clone().acquire_owned().await;
    let of_task = shared.clone();
    let work = runtime.spawn(async move {
        let _permit = permit;
        handlers::handle(&of_task, request).await
    });
    AbortOnDropHandle::new(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a handler panicked");
        Err(Status::internal("the request could not be completed"))
    })
}

/// Whether the body is large, or the object that a patch changes, or a schema of a user is applied.
fn is_heavy(shared: &Shared, request: &ApiRequest) -> bool {
    let info = &request.info;
    request.body.len() > HEAVY_BYTES
        || info.resource.custom.is_some() && info.verb.is_mutating()
        || matches!(info.verb, Verb::Patch | Verb::Update)
            && info.resource.stored().is_some_and(|resource| {
                let current = shared.store.get(resource, &info.namespace, &info.name);
                current.is_some_and(|object| object.json().len() > HEAVY_BYTES)
            })
}

/// The request did not complete in time.
pub fn timed_out() -> Box<Status> {
    let message = "Timeout: request did not complete within the allotted timeout";
    Status::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
}
