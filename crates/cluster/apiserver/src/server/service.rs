//! From an HTTP request to its answer: authentication, authorization, limits, and the choice of the handler.

use std::cell::OnceCell;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use berth_rules::FieldSelector;
use berth_schema::resource::NAMESPACES;
use berth_serve::Connection;
use bytes::Bytes;
use futures::FutureExt as _;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version, header};
use hyper::body::Body as _;

use super::authenticate::authenticate;
use super::body::{self, RequestBody};
use super::offload::{is_heavy, is_heavy_selector, is_large, panicked};
use super::paths;
use super::sending::{Held, ResponseBody};
use super::state::State;
use super::throttle::too_many;
use super::websocket::WebSocket;
use crate::authz::Authorizer;
use crate::custom;
use crate::fairness::with_seat;
use crate::handlers::{self, Body, PROTOBUF_WATCH, Reply};
use crate::request::{
    ApiRequest, ApiResult, Attributes, MASTERS, MediaType, Query, Reason, RequestInfo, Route, Status,
    UnknownResource, User, Verb, accepts_gzip, refusal, route,
};

/// What is known of a request, and what it holds until its response has been sent.
#[derive(Default)]
struct Exchange {
    user: Option<Arc<User>>,
    info: Option<RequestInfo>,
    held: Held,
    has_read_body: bool,
}

/// Responses up to this size are sent even if too much memory is in use: errors must arrive.
const SMALL_RESPONSE: usize = 64 * 1024;

/// Answers a request. Never fails: every error becomes a `Status`.
pub async fn serve<B: RequestBody>(state: Arc<State>, mut request: Request<B>) -> Response<ResponseBody> {
    let begun = Instant::now();
    let head = request.method() == Method::HEAD;
    let compresses = !head && accepts_gzip(request.headers());
    let media_type = MediaType::preferred(request.headers());
    let connection = request.extensions().get::<Connection>().map(|connection| connection.0.clone());
    let websocket = WebSocket::requested(&mut request);
    let waits_to_send = request.headers().contains_key(header::EXPECT);
    let (parts, body) = request.into_parts();
    let is_http1 = parts.version < Version::HTTP_2;
    let mut body = std::pin::pin!(body);
    let mut exchange = Exchange::default();
    let answered = answer(&state, parts, &mut body, &mut exchange);
    let mut reply = match AssertUnwindSafe(answered).catch_unwind().await {
        Ok(Ok(reply)) => reply,
        Ok(Err(status)) => Reply::from(status).in_media_type(media_type),
        Err(_) => {
            tracing::error!(info = ?exchange.info, "a handler panicked");
            Reply::from(Status::internal("the request could not be completed"))
        }
    };
    let Exchange { user, info, held, has_read_body } = exchange;
    reply.warnings.splice(..0, info.as_ref().and_then(|info| info.resource.deprecation()));
    let mut response = reply.into_response(compresses);
    if head {
        *response.body_mut() = Body::Full(Bytes::new());
    }
    let user = user.unwrap_or_else(|| Arc::new(User::anonymous()));
    let mut memory = state.throttle.response_memory(&user);
    let n_bytes = response.body().held_bytes();
    if n_bytes <= SMALL_RESPONSE || info.as_ref().is_some_and(|info| info.verb.is_mutating()) {
        memory.grow(n_bytes);
    } else if !memory.try_grow(n_bytes) {
        response = Reply::from(too_many()).into_response(false);
    }
    state.metrics.answered(info.as_ref(), response.status().as_u16(), begun.elapsed());
    if is_http1 && !has_read_body && !body.is_end_stream() && (waits_to_send || !body::drain(&mut body).await)
    {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let time = state.limits.request;
    let is_watch = matches!(response.body(), Body::Stream(..));
    let response = response.map(|body| state.sending.track(body, held, memory, time, connection.clone()));
    let Some(websocket) = websocket.filter(|_| is_watch) else { return response };
    let (parts, events) = response.into_parts();
    let is_protobuf =
        parts.headers.get(header::CONTENT_TYPE).is_some_and(|ty| ty.as_bytes() == PROTOBUF_WATCH.as_bytes());
    let (code, headers) = websocket.send(events, is_protobuf, connection.clone().unwrap_or_default());
    let memory = state.throttle.response_memory(&user);
    let body = state.sending.track(Body::Full(Bytes::new()), Held::default(), memory, time, connection);
    let mut response = Response::new(body);
    (*response.status_mut(), *response.headers_mut()) = (code, headers);
    response
}

async fn answer<B: RequestBody>(
    state: &Arc<State>,
    parts: Parts,
    body: &mut Pin<&mut B>,
    exchange: &mut Exchange,
) -> ApiResult<Reply> {
    let user = authenticate(&state.api.authenticator, &state.api.authorizer, &parts.headers)?;
    exchange.user = Some(user.clone());
    let path = parts.uri.path();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let query = query?;
    let (routed, definitions) = {
        let definitions = OnceCell::new();
        let custom = |group: &str, version: &str, plural: &str| {
            custom::find(definitions.get_or_init(|| state.custom.get()), group, version, plural)
        };
        (route(&parts.method, path, &query, state.api.feature_gates, custom)?, definitions.into_inner())
    };
    exchange.held.definitions.clone_from(&definitions);
    match routed {
        Route::Path(segments) => {
            let path = format!("/{}", segments.join("/"));
            let what = Attributes { verb: "get", path: &path, ..Attributes::default() };
            if !state.api.authorizer.allows(&user, &what) {
                let message = format!("forbidden: {}", refusal(&user, &what));
                return Err(Status::new(Reason::Forbidden, message));
            }
            let is_probe =
                matches!(segments.first().map(String::as_str), Some("healthz" | "livez" | "readyz"));
            if !is_probe {
                exchange.held.seat = Some(Arc::new(state.throttle.seat(&user, None).await?));
            }
            let _counted = state.metrics.begin(false);
            paths::answer(state, &segments, &query, &parts.headers)
        }
        Route::Unknown(asked) => {
            let what = Attributes {
                verb: asked.verb.as_str(),
                group: &asked.group,
                resource: &asked.plural,
                subresource: &asked.subresource,
                namespace: &asked.namespace,
                name: &asked.name,
                ..Attributes::default()
            };
            let refused = |why: String| {
                let UnknownResource { plural, group, .. } = &asked;
                let resource = if group.is_empty() { plural.clone() } else { format!("{plural}.{group}") };
                let message = format!("{resource} is forbidden: {why}");
                Status::new(Reason::Forbidden, message)
            };
            if !user.is_in(MASTERS) {
                state.api.authorizer.check(&user, &what).map_err(refused)?;
            }
            let custom = custom::served(&definitions.unwrap_or_else(|| state.custom.get()));
            let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
            paths::no_such_path(&parts, &custom)
        }
        Route::Simulated(info, subresource) => {
            authorize(&state.api.authorizer, &user, &info, &subresource, &query)?;
            let plural = info.resource.plural;
            Err(Status::not_implemented(format!("{plural}/{subresource}: simulated pods run no processes")))
        }
        Route::Resource(info) => {
            exchange.info = Some(info.clone());
            authorize(&state.api.authorizer, &user, &info, info.subresource_name(), &query)?;
            if info.verb == Verb::Watch {
                let slot = state.throttle.watch(&user)?;
                let (reply, selector_bytes) = open_watch(state, &user, &info, query, parts.headers).await?;
                let selector = state.throttle.watch_selector(&user, selector_bytes)?;
                exchange.held.watch = Some((slot, selector, state.metrics.begin_watch(&info)));
                return Ok(reply);
            }
            let deadline = tokio::time::Instant::now() + state.limits.request;
            let work = async {
                let mut memory = state.throttle.request_memory(&user);
                let body = if info.verb.is_mutating() {
                    let read = body::read(body, &mut memory, state.limits.body).await?;
                    exchange.has_read_body = true;
                    read
                } else {
                    Bytes::new()
                };
                let seat = Arc::new(state.throttle.seat(&user, Some(&info)).await?);
                exchange.held.seat = Some(seat.clone());
                let counted = state.metrics.begin(info.verb.is_mutating());
                let request = ApiRequest {
                    user,
                    info,
                    query,
                    headers: parts.headers,
                    body,
                    deadline,
                    _definitions: definitions,
                };
                if !request.info.verb.is_mutating() {
                    return handle(state, request).await;
                }
                // A client that hangs up does not stop a change between two of its writes. The task holds what bounds the
                // number and the size of requests.
                let (state, held) = (state.clone(), (memory, counted));
                let change = async move {
                    let _held = held;
                    handle(&state, request).await
                };
                tokio::spawn(with_seat(Some(seat), change))
                    .await
                    .unwrap_or_else(|error| Err(panicked(&error)))
            };
            let answered = tokio::time::timeout_at(deadline, work).await;
            answered.unwrap_or_else(|_| Err(timed_out()))
        }
    }
}

/// Answers a request for objects. Heavy ones run on their own threads.
async fn handle(state: &State, request: ApiRequest) -> ApiResult<Reply> {
    match state.offload.as_ref().filter(|_| is_heavy(&state.api.store, &request)) {
        Some(offload) => {
            let (api, user) = (state.api.clone(), request.user.clone());
            let is_large = is_large(&api.store, &request);
            offload.run(&user, is_large, async move { handlers::handle(&api, request).await }).await
        }
        None => handlers::handle(&state.api, request).await,
    }
}

/// Opens a watch: its first objects are selected at once.
async fn open_watch(
    state: &State,
    user: &Arc<User>,
    info: &RequestInfo,
    query: Query,
    headers: HeaderMap,
) -> ApiResult<(Reply, usize)> {
    match state.offload.as_ref().filter(|_| is_heavy_selector(&query)) {
        Some(offload) => {
            let (api, info) = (state.api.clone(), info.clone());
            let opened =
                offload.run(user, false, async move { handlers::watch(&api, &info, &query, &headers) });
            let opened = tokio::time::timeout(state.limits.request, opened).await;
            opened.unwrap_or_else(|_| Err(timed_out()))
        }
        None => handlers::watch(&state.api, info, &query, &headers),
    }
}

fn timed_out() -> Box<Status> {
    let message = "Timeout: request did not complete within the allotted timeout";
    Status::new(Reason::Timeout, message)
}

fn authorize(
    authorizer: &Authorizer,
    user: &User,
    info: &RequestInfo,
    subresource: &str,
    query: &Query,
) -> ApiResult {
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
        subresource,
        // A namespace lies in itself: a role in it may grant reading it.
        namespace: if *info.resource == NAMESPACES { &info.name } else { &info.namespace },
        name: if info.name.is_empty() { named } else { &info.name },
        path: "",
        selected_node: selected(&["spec.nodeName", "nodeName"]),
    };
    authorizer.check(user, &what).map_err(|why| Status::forbidden(info.resource, &info.name, &why))
}
