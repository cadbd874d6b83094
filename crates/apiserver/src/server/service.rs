//! From an HTTP request to its answer: authentication, authorization, limits, and the choice of the handler.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use berth_api::rules::FieldSelector;
use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::accept::accepts_gzip;
use super::authenticate::unauthorized;
use super::authorize::{Attributes, Rules, is_allowed, refusal, rules_for};
use super::body::{self, Body, RequestBody, Room};
use super::identity::{AUTHENTICATED, MASTERS, Tokens, User};
use super::metrics::Metrics;
use super::node_authorizer;
use super::offload::{self, Offload};
use super::query::Query;
use super::rbac::{Grants, Roles};
use super::reply::Reply;
use super::route::{RequestInfo, Route, Verb, route};
use super::status::Status;
use crate::handlers;
use crate::options::{Limits, ServerOptions};
use crate::store::Store;

/// State shared by all requests.
pub struct Shared {
    /// Objects.
    pub store: Store,
    /// Identities.
    pub tokens: Tokens,
    /// Metrics.
    pub metrics: Metrics,
    /// Admission of writes.
    pub admission: handlers::Admission,
    /// Roles and their bindings.
    roles: Roles,
    /// Whether the extensions to Kubernetes' affinity are on.
    pub extensions: bool,
    /// The server's address for clients.
    pub url: String,
    /// Ends watches.
    pub stop: CancellationToken,
    /// Request limits.
    pub limits: Limits,
    slots: Semaphore,
    watch_slots: Arc<Semaphore>,
    room: Room,
    /// Threads for heavy requests; without them, all requests run where they arrive.
    pub(super) offload: Option<Offload>,
}

impl Shared {
    /// Creates the state shared by a server's requests.
    pub fn new(store: Store, tokens: Tokens, url: String, options: &ServerOptions) -> Shared {
        let limits = options.limits.clone();
        let roles = Roles::new(&store);
        let admission = handlers::Admission::new(&store, options.admission.clone());
        Shared {
            store,
            tokens,
            metrics: Metrics::default(),
            admission,
            roles,
            extensions: options.extensions,
            url,
            stop: CancellationToken::new(),
            slots: Semaphore::new(limits.in_flight),
            watch_slots: Arc::new(Semaphore::new(limits.watches)),
            room: Room::new(limits.body_bytes_held),
            offload: None,
            limits,
        }
    }

    /// Whether a user may do something.
    pub fn allows(&self, user: &User, what: &Attributes<'_>) -> bool {
        is_allowed(user, what) || self.check_node(user, what).is_ok() || self.grants().allow(user, what)
    }

    /// Checks a user by the Node authorizer.
    fn check_node(&self, user: &User, what: &Attributes<'_>) -> Result<(), String> {
        match user.node_name() {
            Some(node) if !node.is_empty() => node_authorizer::check(&self.store, node, what),
            _ => Err(String::new()),
        }
    }

    /// Grants of roles and their bindings.
    pub fn grants(&self) -> Arc<Grants> {
        self.roles.grants(&self.store)
    }

    /// The permissions of a user in a namespace.
    pub fn rules_of(&self, user: &User, namespace: &str) -> Rules {
        rules_for(user, &self.grants(), namespace)
    }

    /// Reserves one of the limited number of watches.
    ///
    /// # Errors
    /// There are too many watches.
    pub fn watch_slot(&self) -> Result<OwnedSemaphorePermit, Box<Status>> {
        self.watch_slots.clone().try_acquire_owned().map_err(|_| too_many())
    }
}

/// An authorized request with its body.
pub struct ApiRequest {
    /// The user.
    pub user: Arc<User>,
    /// The target of the path.
    pub info: RequestInfo,
    /// Query parameters.
    pub query: Query,
    /// Headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// Answers a request. Never fails: every error becomes a `Status`.
pub async fn serve<B: RequestBody>(shared: Arc<Shared>, request: Request<B>) -> Response<Body> {
    let begun = Instant::now();
    let head = request.method() == Method::HEAD;
    let compresses = !head && accepts_gzip(request.headers());
    let mut info = None;
    let answered = AssertUnwindSafe(answer(&shared, request, &mut info)).catch_unwind().await;
    let reply = match answered {
        Ok(Ok(reply)) => reply,
        Ok(Err(status)) => Reply::from(status),
        Err(_) => {
            tracing::error!(?info, "a handler panicked");
            Reply::from(Status::internal("the request could not be completed"))
        }
    };
    shared.metrics.answered(info.as_ref(), reply.code.as_u16(), begun.elapsed());
    let mut response = reply.into_response(compresses);
    if head {
        *response.body_mut() = Body::Full(Bytes::new());
    }
    response
}

async fn answer(
    shared: &Arc<Shared>,
    request: Request<impl RequestBody>,
    info_of_request: &mut Option<RequestInfo>,
) -> Result<Reply, Box<Status>> {
    let (parts, body) = request.into_parts();
    // Authentication comes first: an unauthenticated client must not learn which paths exist.
    let user = shared.authenticate(&parts.headers)?;
    let path = parts.uri.path();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    if !user.is_in(AUTHENTICATED) {
        let public = Attributes { verb: "get", path, ..Attributes::default() };
        if parts.method != Method::GET || !is_allowed(&user, &public) {
            return Err(unauthorized());
        }
    }
    let query = query?;
    match route(&parts.method, path, &query)? {
        Route::Path(segments) => {
            let path = format!("/{}", segments.join("/"));
            let what = Attributes { verb: "get", path: &path, ..Attributes::default() };
            if !shared.allows(&user, &what) {
                let message = format!("forbidden: {}", refusal(&user, &what));
                return Err(Status::new(StatusCode::FORBIDDEN, "Forbidden", message));
            }
            let _counted = shared.metrics.begin(false);
            handlers::paths::answer(shared, &segments, &query, &parts.headers)
        }
        Route::Resource(info) => {
            *info_of_request = Some(info.clone());
            authorize(shared, &user, &info, &query)?;
            if info.verb == Verb::Watch {
                return handlers::watch::watch(shared, &info, &query, &parts.headers);
            }
            let mutating = !matches!(info.verb, Verb::Get | Verb::List);
            let work = async {
                let (body, _held) = if mutating {
                    body::read(body, &shared.room, shared.limits.body).await?
                } else {
                    (Bytes::new(), None)
                };
                let turn = tokio::time::timeout(shared.limits.queue, shared.slots.acquire()).await;
                let Ok(Ok(_slot)) = turn else { return Err(too_many()) };
                let _counted = shared.metrics.begin(mutating);
                let request = ApiRequest { user, info, query, headers: parts.headers, body };
                offload::handle(shared, request).await
            };
            let answered = tokio::time::timeout(shared.limits.request, work).await;
            answered.unwrap_or_else(|_| Err(offload::timed_out()))
        }
    }
}

fn too_many() -> Box<Status> {
    Status::too_many_requests("Too many requests, please try again later.", 1)
}

fn authorize(shared: &Shared, user: &User, info: &RequestInfo, query: &Query) -> Result<(), Box<Status>> {
    if user.is_in(MASTERS) {
        return Ok(());
    }
    // A user with permission for one object lists it with a field selector on its name.
    let is_read = matches!(info.verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
    let selector = Some(query.get("fieldSelector")).filter(|_| is_read).and_then(|text| text.parse().ok());
    let FieldSelector { requirements } = selector.unwrap_or_default();
    let selected = |names: &[&str]| {
        let found = requirements.iter().find(|r| r.equal && names.contains(&r.field.as_str()));
        found.map_or("", |requirement| &requirement.value)
    };
    let named = if info.verb == Verb::DeleteCollection { "" } else { selected(&["metadata.name"]) };
    let what = Attributes {
        verb: info.verb.as_str(),
        group: info.resource.group,
        resource: info.resource.plural,
        subresource: info.subresource_name(),
        namespace: &info.namespace,
        name: if info.name.is_empty() { named } else { &info.name },
        path: "",
        selected_node: selected(&["spec.nodeName", "nodeName"]),
    };
    if shared.allows(user, &what) {
        return Ok(());
    }
    let mut why = refusal(user, &what);
    if let Err(reason) = shared.check_node(user, &what)
        && !reason.is_empty()
    {
        why = format!("{why}: {reason}");
    }
    Err(Status::forbidden(info.resource, &info.name, &why))
}
