//! From an HTTP request to its answer: authentication, authorization, limits, and the choice of the handler.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use berth_api::rules::FieldSelector;
use berth_schema::resource::NAMESPACES;
use berth_serve::Connection;
use bytes::Bytes;
use futures::FutureExt as _;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use hyper::body::Body as _;
use tokio_util::sync::CancellationToken;

use super::accept::accepts_gzip;
use super::authenticate::unauthorized;
use super::authorize::{Attributes, Rules, is_allowed, refusal, rules_for};
use super::body::{self, Body, MAX_BODY_BYTES, RequestBody};
use super::budget::{Budget, Share};
use super::fairness::{Fairness, Level, Seat};
use super::identity::{AUTHENTICATED, MASTERS, Tokens, User};
use super::metrics::Metrics;
use super::node_authorizer;
use super::offload::{self, Offload};
use super::query::Query;
use super::rbac::{Grants, Roles};
use super::reply::Reply;
use super::route::{RequestInfo, Route, Verb, route};
use super::sending::{ResponseBody, Sending};
use super::status::Status;
use crate::custom::CustomResources;
use crate::handlers;
use crate::options::{Limits, ServerOptions};
use crate::quota::QuotaLocks;
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
    /// What CustomResourceDefinitions define.
    pub custom: CustomResources,
    /// Roles and their bindings.
    roles: Roles,
    /// Which namespaces' quotas are being charged.
    pub quotas: QuotaLocks,
    /// Whether the extensions to Kubernetes' affinity are on.
    pub extensions: bool,
    /// The server's address for clients.
    pub url: String,
    /// Ends watches.
    pub stop: CancellationToken,
    /// Request limits.
    pub limits: Limits,
    fairness: Fairness,
    watches: Arc<Budget>,
    request_bytes: Arc<Budget>,
    response_bytes: Arc<Budget>,
    /// Responses on their way.
    pub(super) sending: Sending,
    /// Threads for heavy requests; without them, all requests run where they arrive.
    pub(super) offload: Option<Offload>,
}

impl Shared {
    /// Creates the state shared by a server's requests.
    pub fn new(store: Store, tokens: Tokens, url: String, options: &ServerOptions) -> Shared {
        let limits = options.limits.clone();
        let roles = Roles::new(&store);
        let custom = CustomResources::new(&store);
        let admission = handlers::Admission::new(&store, options.admission.clone());
        Shared {
            store,
            tokens,
            metrics: Metrics::new(options.admission.as_deref()),
            admission,
            custom,
            roles,
            quotas: QuotaLocks::default(),
            extensions: options.extensions,
            url,
            stop: CancellationToken::new(),
            fairness: Fairness::new(limits.in_flight),
            watches: Budget::new(limits.watches, limits.watches.div_ceil(2)),
            request_bytes: Budget::new(
                limits.body_bytes_held.max(MAX_BODY_BYTES),
                (limits.body_bytes_held / 4).max(MAX_BODY_BYTES),
            ),
            response_bytes: Budget::new(limits.response_bytes_held, limits.response_bytes_held / 2),
            sending: Sending::default(),
            offload: None,
            limits,
        }
    }

    /// Waits for the turn of a user's request.
    async fn seat(&self, user: &Arc<User>, info: Option<&RequestInfo>) -> Result<Seat, Box<Status>> {
        let level = Level::of(user, info);
        self.fairness.seat(level, user, self.limits.queue).await.ok_or_else(too_many)
    }

    /// The priority levels with their seats in use.
    pub fn seats(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.fairness.executing()
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
    /// There are too many watches, of the user or of all.
    pub fn watch_slot(&self, user: &Arc<User>) -> Result<Share, Box<Status>> {
        let mut slot = self.watches.share(user);
        if slot.try_grow(1) { Ok(slot) } else { Err(too_many()) }
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

/// What is known of a request, and what it holds until its response has been sent.
#[derive(Default)]
struct Exchange {
    user: Option<Arc<User>>,
    info: Option<RequestInfo>,
    seat: Option<Seat>,
    has_read_body: bool,
}

/// Responses up to this size are sent even if too much memory is in use: errors must arrive.
const SMALL_RESPONSE: usize = 64 * 1024;

/// Answers a request. Never fails: every error becomes a `Status`.
pub async fn serve<B: RequestBody>(shared: Arc<Shared>, request: Request<B>) -> Response<ResponseBody> {
    let begun = Instant::now();
    let head = request.method() == Method::HEAD;
    let compresses = !head && accepts_gzip(request.headers());
    let connection = request.extensions().get::<Connection>().map(|connection| connection.0.clone());
    let waits_to_send = request.headers().contains_key(header::EXPECT);
    let (parts, body) = request.into_parts();
    let is_http1 = parts.version < Version::HTTP_2;
    let mut body = std::pin::pin!(body);
    let mut exchange = Exchange::default();
    let answered = answer(&shared, parts, &mut body, &mut exchange);
    let reply = match AssertUnwindSafe(answered).catch_unwind().await {
        Ok(Ok(reply)) => reply,
        Ok(Err(status)) => Reply::from(status),
        Err(_) => {
            tracing::error!(info = ?exchange.info, "a handler panicked");
            Reply::from(Status::internal("the request could not be completed"))
        }
    };
    let Exchange { user, info, seat, has_read_body } = exchange;
    let mut response = reply.into_response(compresses);
    if head {
        *response.body_mut() = Body::Full(Bytes::new());
    }
    let mut memory = shared.response_bytes.share(&user.unwrap_or_else(|| Arc::new(User::anonymous())));
    let held = response.body().held_bytes();
    if held <= SMALL_RESPONSE || info.as_ref().is_some_and(|info| info.verb.is_mutating()) {
        memory.grow(held);
    } else if !memory.try_grow(held) {
        response = Reply::from(too_many()).into_response(false);
    }
    shared.metrics.answered(info.as_ref(), response.status().as_u16(), begun.elapsed());
    if is_http1 && !has_read_body && !body.is_end_stream() && (waits_to_send || !body::drain(&mut body).await)
    {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let time = shared.limits.request;
    response.map(|body| shared.sending.track(body, seat, memory, time, connection))
}

async fn answer<B: RequestBody>(
    shared: &Arc<Shared>,
    parts: Parts,
    body: &mut Pin<&mut B>,
    exchange: &mut Exchange,
) -> Result<Reply, Box<Status>> {
    // Authentication comes first: an unauthenticated client must not learn which paths exist.
    let user = shared.authenticate(&parts.headers)?;
    exchange.user = Some(user.clone());
    let path = parts.uri.path();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    if !user.is_in(AUTHENTICATED) {
        let public = Attributes { verb: "get", path, ..Attributes::default() };
        if parts.method != Method::GET || !is_allowed(&user, &public) {
            return Err(unauthorized());
        }
    }
    let query = query?;
    let custom =
        |group: &str, version: &str, plural: &str| shared.custom.find(&shared.store, group, version, plural);
    match route(&parts.method, path, &query, custom)? {
        Route::Path(segments) => {
            let path = format!("/{}", segments.join("/"));
            let what = Attributes { verb: "get", path: &path, ..Attributes::default() };
            if !shared.allows(&user, &what) {
                let message = format!("forbidden: {}", refusal(&user, &what));
                return Err(Status::new(StatusCode::FORBIDDEN, "Forbidden", message));
            }
            let is_probe =
                matches!(segments.first().map(String::as_str), Some("healthz" | "livez" | "readyz"));
            if !is_probe {
                exchange.seat = Some(shared.seat(&user, None).await?);
            }
            let _counted = shared.metrics.begin(false);
            handlers::paths::answer(shared, &segments, &query, &parts.headers)
        }
        Route::Resource(info) => {
            exchange.info = Some(info.clone());
            authorize(shared, &user, &info, &query)?;
            if info.verb == Verb::Watch {
                return handlers::watch::watch(shared, &user, &info, &query, &parts.headers);
            }
            let work = async {
                let mut memory = shared.request_bytes.share(&user);
                let body = if info.verb.is_mutating() {
                    let read = body::read(body, &mut memory, shared.limits.body).await?;
                    exchange.has_read_body = true;
                    read
                } else {
                    Bytes::new()
                };
                exchange.seat = Some(shared.seat(&user, Some(&info)).await?);
                let _counted = shared.metrics.begin(info.verb.is_mutating());
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
        // A namespace lies in itself: a role in it may grant reading it.
        namespace: if *info.resource == NAMESPACES { &info.name } else { &info.namespace },
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
