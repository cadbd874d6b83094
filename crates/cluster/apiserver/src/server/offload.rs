//! Requests with much to parse, validate or patch run on their own threads: they must not keep the threads that
//! answer all other requests.

use std::sync::Arc;

use berth_schema::resource::POD_DISRUPTION_BUDGETS;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use crate::authz::RBAC_GROUP;
use crate::handlers::{self, Api, Reply};
use crate::request::{ApiRequest, Status, Verb};
use crate::store::{Filter, Store};

/// Requests with a body or a stored object above this size are heavy.
const HEAVY_BYTES: usize = 64 << 10;
/// Lists with selectors above this size are heavy.
const HEAVY_SELECTOR: usize = 1 << 10;
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

    /// Answers a request on these threads. The caller can give up waiting at any time, and the request then ends at its
    /// next wait.
    ///
    /// # Errors
    /// The request fails; the status gives the reason.
    pub async fn handle(&self, api: &Arc<Api>, request: ApiRequest) -> Result<Reply, Box<Status>> {
        let Some(runtime) = &self.runtime else { return handlers::handle(api, request).await };
        let permit = self.permits.clone().acquire_owned().await;
        let api = api.clone();
        let work = runtime.spawn(async move {
            let _permit = permit;
            handlers::handle(&api, request).await
        });
        AbortOnDropHandle::new(work).await.unwrap_or_else(|error| {
            tracing::error!(%error, "a handler panicked");
            Err(Status::internal("the request could not be completed"))
        })
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

/// Whether a request is much work: what it sends, changes or compares is large, a schema of a user is applied, or
/// permissions are compared with each other.
pub fn is_heavy(store: &Store, request: &ApiRequest) -> bool {
    let ApiRequest { info, query, body, .. } = request;
    let resource = info.resource;
    if !info.verb.is_mutating() {
        return query.get("labelSelector").len() + query.get("fieldSelector").len() > HEAVY_SELECTOR;
    }
    let stored = || {
        let stored = resource.stored().filter(|_| !info.name.is_empty());
        let object = stored.and_then(|stored| store.get(stored, &info.namespace, &info.name));
        object.map_or(0, |object| object.json().len())
    };
    let budgets = || {
        let (_, budgets) = store.list(&POD_DISRUPTION_BUDGETS, &Filter::in_namespace(&info.namespace));
        budgets.iter().map(|budget| budget.json().len()).sum::<usize>()
    };
    body.len() > HEAVY_BYTES
        || resource.custom.is_some()
        || matches!(resource.group, RBAC_GROUP | "authorization.k8s.io")
        || info.verb == Verb::DeleteCollection
        || stored() > HEAVY_BYTES
        || (info.subresource_name() == "eviction" && budgets() > HEAVY_BYTES)
}
