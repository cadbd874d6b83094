//! Requests with much to parse, validate or patch run on their own threads: they must not keep the threads that
//! answer all other requests.

use std::sync::Arc;

use berth_api::resource::PLACEMENT_POLICIES;
use berth_schema::resource::{
    LIMIT_RANGES, POD_DISRUPTION_BUDGETS, PODS, RESOURCE_QUOTAS, Resource, custom_collection,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use super::throttle::too_many;
use crate::authz::RBAC_GROUP;
use crate::fairness::{Queue, with_seat};
use crate::handlers::media_type;
use crate::request::{ApiRequest, ApiResult, MASTERS, MediaType, Query, Status, User, Verb};
use crate::store::{Filter, Store};

/// Requests with a body or a stored object above this size are heavy, and writes beside more than this of what they have to
/// read besides.
const HEAVY_BYTES: usize = 64 << 10;
/// Lists, watches and deletions with selectors above this size are heavy.
const HEAVY_SELECTOR: usize = 1 << 10;
/// Lists of collections with more objects are heavy when they are not sent as they are stored, in JSON.
const HEAVY_LIST: usize = 100;
/// The shortest operation of a JSON patch that copies the whole object into itself.
const COPY_BYTES: usize = r#"{"op":"copy","from":"","path":"/a"},"#.len();
/// Heavy requests that are worked on at once: some for each thread, as they also wait for the disk. More requests wait.
const PER_THREAD: usize = 2;
const AT_ONCE: std::ops::RangeInclusive<usize> = 4..=8;
/// Large requests that are in memory at once, also those that wait for webhooks: a parsed body takes some twenty times its size.
const LARGE_AT_ONCE: usize = 16;

/// The threads for heavy requests: half of the cores.
pub struct Offload {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    /// Users take turns, and one has half of the requests that are worked on at most.
    turns: Arc<Queue>,
    large: Arc<Queue>,
}

impl Offload {
    pub fn start() -> std::io::Result<Offload> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let n_threads = (cores / 2).max(1);
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(n_threads).thread_name("heavy-requests").enable_all();
        let at_once = (PER_THREAD * n_threads).clamp(*AT_ONCE.start(), *AT_ONCE.end());
        Ok(Offload {
            runtime: Some(builder.build()?),
            turns: Queue::new(at_once),
            large: Queue::new(LARGE_AT_ONCE),
        })
    }

    /// Works on a request of a user on these threads, when it is the user's turn; administrators and components need none. The caller
    /// can give up waiting at any time, and the request then ends at its next wait.
    ///
    /// # Errors
    /// The request fails; the status gives the reason.
    pub async fn run<T: Send + 'static>(
        &self,
        user: &Arc<User>,
        is_large: bool,
        work: impl Future<Output = ApiResult<T>> + Send + 'static,
    ) -> ApiResult<T> {
        let Some(runtime) = &self.runtime else { return work.await };
        // Components of the server make requests on behalf of those that have a turn: they would wait for each other.
        let turn = async |queue: &Arc<Queue>, is_needed: bool| match is_needed && !user.is_in(MASTERS) {
            false => Ok(None),
            true => queue.ask(user).ok_or_else(too_many)?.await.map(Some).map_err(|_| too_many()),
        };
        let large = turn(&self.large, is_large).await?;
        let turn = turn(&self.turns, true).await?;
        // With the seats that the request has here.
        let work = with_seat(turn.map(Arc::new), work);
        let work = runtime.spawn(async move {
            let _large = large;
            work.await
        });
        AbortOnDropHandle::new(work).await.unwrap_or_else(|error| Err(panicked(&error)))
    }

    /// Starts a task of the server that may be much work.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
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

pub fn panicked(error: &JoinError) -> Box<Status> {
    tracing::error!(%error, "a handler panicked");
    Status::internal("the request could not be completed")
}

/// Whether a list, a watch or a deletion of a collection compares objects with a large selector.
pub fn is_heavy_selector(query: &Query) -> bool {
    query.get("labelSelector").len() + query.get("fieldSelector").len() > HEAVY_SELECTOR
}

/// Whether what a request sends or changes is large.
pub fn is_large(store: &Store, request: &ApiRequest) -> bool {
    let ApiRequest { info, body, .. } = request;
    let stored = || {
        let stored = info.resource.stored().filter(|_| !info.name.is_empty());
        let object = stored.and_then(|stored| store.get(stored, &info.namespace, &info.name));
        object.map_or(0, |object| object.text().len())
    };
    // What the operations of a JSON patch can make of the object.
    let grown = || match media_type(request) {
        "application/json-patch+json" => stored() << (body.len() / COPY_BYTES).min(16),
        _ => stored(),
    };
    info.verb.is_mutating() && (body.len() > HEAVY_BYTES || grown() > HEAVY_BYTES)
}

/// Whether a request is much work, whatever its length: it is large, compares or has to read much, a schema of a user is applied, or
/// permissions are compared with each other.
pub fn is_heavy(store: &Store, request: &ApiRequest) -> bool {
    let ApiRequest { info, query, .. } = request;
    let resource = info.resource;
    if !info.verb.is_mutating() {
        let is_converted = || {
            let stored = resource.stored().filter(|_| info.verb == Verb::List);
            MediaType::preferred(&request.headers) != MediaType::Json
                && stored.is_some_and(|stored| store.count(stored) > HEAVY_LIST)
        };
        return is_heavy_selector(query) || is_converted();
    }
    let beside = |resource: &'static Resource| {
        if store.count(resource) == 0 {
            return 0;
        }
        let (_, others) = store.list(resource, &Filter::in_namespace(&info.namespace));
        others.iter().map(|other| other.text().len()).sum::<usize>()
    };
    let policies = || custom_collection(&PLACEMENT_POLICIES.group_resource());
    let has_to_read: Vec<&'static Resource> = match info.subresource_name() {
        "eviction" => vec![&POD_DISRUPTION_BUDGETS],
        "" if *resource == PODS => [&RESOURCE_QUOTAS, &LIMIT_RANGES].into_iter().chain(policies()).collect(),
        "" if !info.namespace.is_empty() => vec![&RESOURCE_QUOTAS, &LIMIT_RANGES],
        _ => Vec::new(),
    };
    is_large(store, request)
        || resource.custom.is_some()
        || matches!(resource.group, RBAC_GROUP | "authorization.k8s.io")
        || info.verb == Verb::DeleteCollection
        || has_to_read.into_iter().map(beside).sum::<usize>() > HEAVY_BYTES
}
