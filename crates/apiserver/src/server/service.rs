//! From an HTTP request to its answer: authentication, authorization, limits, and the choice of the handler.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use berth_schema::resource::SERVICE_ACCOUNTS;
use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::authorize::{Attributes, Rules, is_allowed, refusal, rules_for};
use super::body::{self, Body, RequestBody, Room};
use super::identity::{AUTHENTICATED, MASTERS, SERVICE_ACCOUNT_PREFIX, Tokens, User};
use super::metrics::Metrics;
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
        is_allowed(user, what) || self.grants().allow(user, what)
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

    /// The user of a token; `None` if it is invalid, has expired, or its service account does not exist.
    pub fn authenticate_token(&self, token: &str) -> Option<Arc<User>> {
        let identity = self.tokens.authenticate(token)?;
        if let Some(account) = &identity.account {
            let accounts = &SERVICE_ACCOUNTS;
            let stored = self.store.get(accounts, &account.namespace, &account.name)?.value();
            if stored["metadata"]["uid"] != account.uid.as_str() {
                return None;
            }
        }
        Some(identity.user)
    }
}

/// The name that the field selector requires; empty if it requires none.
fn selected_name(query: &Query) -> &str {
    let mut requirements = query.get("fieldSelector").split(',');
    requirements
        .find_map(|requirement| requirement.strip_prefix("metadata.name="))
        .map_or("", |name| name.strip_prefix('=').unwrap_or(name))
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
    let mut response = reply.into_response();
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
    let user = authenticate(shared, &parts.headers)?;
    let user = impersonated(shared, user, &parts.headers)?;
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

fn unauthorized() -> Box<Status> {
    Status::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
}

fn authenticate(shared: &Shared, headers: &HeaderMap) -> Result<Arc<User>, Box<Status>> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(Arc::new(User::anonymous())) };
    let token = value.to_str().ok().and_then(|text| text.split_once(' '));
    match token {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            shared.authenticate_token(token.trim()).ok_or_else(unauthorized)
        }
        _ => Err(unauthorized()),
    }
}

/// The impersonated user of a request, if the user may impersonate it.
fn impersonated(shared: &Shared, user: Arc<User>, headers: &HeaderMap) -> Result<Arc<User>, Box<Status>> {
    let text = |value: &http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let groups: Vec<String> = headers.get_all("impersonate-group").iter().map(text).collect();
    let Some(name) = headers.get("impersonate-user").map(text) else {
        return if groups.is_empty() {
            Ok(user)
        } else {
            Err(Status::bad_request("requested groups [...] without impersonating a user"))
        };
    };
    let impersonate = Attributes { verb: "impersonate", ..Attributes::default() };
    let account = name.strip_prefix(SERVICE_ACCOUNT_PREFIX).and_then(|rest| rest.split_once(':'));
    let whom = match account {
        Some((namespace, name)) => Attributes { resource: "serviceaccounts", namespace, name, ..impersonate },
        None => Attributes { resource: "users", name: &name, ..impersonate },
    };
    let groups_taken = groups.iter().map(|name| Attributes { resource: "groups", name, ..impersonate });
    for what in std::iter::once(whom).chain(groups_taken) {
        if !shared.allows(&user, &what) {
            let why = refusal(&user, &what);
            let message = format!("{} \"{}\" is forbidden: {why}", what.resource, what.name);
            return Err(Status::new(StatusCode::FORBIDDEN, "Forbidden", message));
        }
    }
    Ok(Arc::new(User::impersonated(name, groups)))
}

fn authorize(shared: &Shared, user: &User, info: &RequestInfo, query: &Query) -> Result<(), Box<Status>> {
    if user.is_in(MASTERS) {
        return Ok(());
    }
    let what = Attributes {
        verb: info.verb.as_str(),
        group: info.resource.group,
        resource: info.resource.plural,
        subresource: info.subresource_name(),
        namespace: &info.namespace,
        // A user with permission for one object lists it with a field selector on its name.
        name: if info.name.is_empty() { selected_name(query) } else { &info.name },
        path: "",
    };
    if shared.allows(user, &what) {
        Ok(())
    } else {
        Err(Status::forbidden(info.resource, &info.name, &refusal(user, &what)))
    }
}
