//! The simulated network: requests, and the frames of their responses, take their time from host to host, in order within a
//! response and in any order otherwise. `plan` says which of them are lost, late, or answered in place of the server.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_testkit::check::bindings::Attempt;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode, response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::json;
use tokio::sync::mpsc;

use crate::host::HostId;
use crate::plan::{Fate, Faults, Kind, Token};
use crate::platform;

pub type ServerResponse = Response<UnsyncBoxBody<Bytes, std::convert::Infallible>>;
/// Answers the requests of a host that serves.
pub type Serve = Arc<dyn Fn(Request<Full<Bytes>>) -> BoxFuture<'static, ServerResponse> + Send + Sync>;

/// A part of a response.
enum Part {
    Head(Box<response::Parts>),
    Frame(Bytes),
    End,
    Broken(&'static str),
}

/// A request on its way, and the way back.
struct Call {
    client: HostId,
    server: HostId,
    parts: mpsc::UnboundedSender<Part>,
    fate: Fate,
    /// When the last part arrives: parts do not overtake each other.
    last_at: Mutex<Duration>,
}

/// A request that arrived at a server. Dropped without an end, the connection breaks.
pub struct Arrived {
    network: Network,
    call: Arc<Call>,
    request: Option<Request<Full<Bytes>>>,
    ended: bool,
}

#[allow(clippy::large_enum_variant, reason = "few requests are on their way at a time")]
enum Delivery {
    Request(Arrived),
    Part(Arc<Call>, Part),
}

impl Delivery {
    fn link(&self) -> (HostId, HostId) {
        let call = match self {
            Delivery::Request(arrived) => &arrived.call,
            Delivery::Part(call, _) => call,
        };
        (call.client, call.server)
    }
}

/// A write that a server answered with success.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// When the server had made it.
    pub at: Duration,
    pub client: HostId,
    pub method: Method,
    /// The path without the query.
    pub path: String,
}

/// The binding that a request is to make, whatever its outcome.
fn attempt_of(request: &Request<Bytes>) -> Option<Attempt> {
    let path = request.uri().path().strip_prefix("/api/v1/namespaces/")?.strip_suffix("/binding")?;
    let body: serde_json::Value = serde_json::from_slice(request.body()).ok()?;
    let node = body["target"]["name"].as_str()?.to_owned();
    Some(Attempt { at: platform::now(), pod: path.replace("/pods/", "/"), node })
}

#[derive(Default)]
struct State {
    /// By time of arrival, and in the order of sending.
    queue: BTreeMap<(Duration, u64), Delivery>,
    n_sent: u64,
    inboxes: BTreeMap<HostId, mpsc::UnboundedSender<Arrived>>,
    /// Until when no message passes, by client.
    partitions: BTreeMap<HostId, Duration>,
    held: VecDeque<Delivery>,
    /// Calls that never get an answer.
    lost: Vec<Arc<Call>>,
    faults: Faults,
    accepted: Vec<Accepted>,
    attempts: Vec<Attempt>,
    n_requests: u64,
}

/// The network; clones are the same network.
#[derive(Clone)]
pub struct Network(Arc<Mutex<State>>);

impl Network {
    pub fn new(faults: Faults) -> Network {
        Network(Arc::new(Mutex::new(State { faults, ..State::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the next message arrives.
    pub fn next_arrival(&self) -> Option<Duration> {
        self.lock().queue.keys().next().map(|(at, _)| *at)
    }

    /// Cuts a client off from its servers until a time.
    pub fn cut(&self, client: HostId, until: Duration) {
        self.lock().partitions.insert(client, until);
    }

    /// Delivers all messages that are due.
    pub fn deliver(&self) {
        let now = platform::now();
        let mut due = Vec::new();
        {
            let mut state = self.lock();
            state.partitions.retain(|_, until| *until > now);
            let held = std::mem::take(&mut state.held);
            due.extend(held);
            while let Some(entry) = state.queue.first_entry().filter(|entry| entry.key().0 <= now) {
                due.push(entry.remove());
            }
        }
        for delivery in due {
            let mut state = self.lock();
            if state.partitions.contains_key(&delivery.link().0) {
                state.held.push_back(delivery);
                continue;
            }
            match delivery {
                Delivery::Request(arrived) => {
                    let inbox = state.inboxes.get(&arrived.call.server).cloned();
                    drop(state);
                    // Without a server the connection is refused: dropping the request says so.
                    if let Some(inbox) = inbox {
                        let _ = inbox.send(arrived);
                    }
                }
                Delivery::Part(call, part) => {
                    drop(state);
                    let _ = call.parts.send(part);
                }
            }
        }
    }

    /// The transport of a client to a server, which adds a token to requests that have none.
    pub fn transport(
        &self,
        client: HostId,
        server: HostId,
        token: Option<String>,
    ) -> berth_client::connect::Transport {
        let network = self.clone();
        Arc::new(move |request| {
            let (network, token) = (network.clone(), token.clone());
            Box::pin(async move {
                let (mut parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                if let (Some(token), false) = (&token, parts.headers.contains_key(AUTHORIZATION)) {
                    parts.headers.insert(AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}"))?);
                }
                let response = network.send(client, server, Request::from_parts(parts, body)).await?;
                Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
            })
        })
    }

    /// Sends a request, and waits for the head of its response.
    async fn send(
        &self,
        client: HostId,
        server: HostId,
        request: Request<Bytes>,
    ) -> io::Result<Response<UnsyncBoxBody<Bytes, io::Error>>> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        {
            let mut state = self.lock();
            state.n_requests += 1;
            state.attempts.extend(attempt_of(&request));
            let fate = state.faults.fate(client, &request);
            let call = Arc::new(Call {
                client,
                server,
                parts: sender,
                last_at: Mutex::default(),
                fate: fate.clone(),
            });
            let arrived = Arrived {
                network: self.clone(),
                call: call.clone(),
                request: Some(request.map(Full::new)),
                ended: false,
            };
            let at = platform::now() + state.faults.latency(client) + fate.delay;
            match fate.kind {
                Some(Kind::Answer(code)) => {
                    let mut arrived = arrived;
                    arrived.ended = true;
                    state.put(at, Delivery::Part(call.clone(), head(code)));
                    state.put(at, Delivery::Part(call.clone(), Part::Frame(status(code))));
                    state.put(at, Delivery::Part(call, Part::End));
                }
                Some(Kind::Refuse) => {
                    let mut arrived = arrived;
                    arrived.ended = true;
                    state.put(at, Delivery::Part(call, Part::Broken("connection refused")));
                }
                Some(Kind::LoseRequest) => {
                    // The client waits until its own timeout.
                    let mut arrived = arrived;
                    arrived.ended = true;
                    state.lost.push(call);
                }
                _ => state.put(at, Delivery::Request(arrived)),
            }
        }
        match receiver.recv().await {
            Some(Part::Head(parts)) => {
                let frames = futures::stream::unfold(receiver, |mut receiver| async move {
                    match receiver.recv().await {
                        Some(Part::Frame(bytes)) => Some((Ok(Frame::data(bytes)), receiver)),
                        Some(Part::End) => None,
                        Some(Part::Broken(why)) => Some((Err(io::Error::other(why)), receiver)),
                        Some(Part::Head(_)) | None => {
                            Some((Err(io::Error::other("connection reset")), receiver))
                        }
                    }
                });
                Ok(Response::from_parts(*parts, StreamBody::new(frames).boxed_unsync()))
            }
            Some(Part::Broken(why)) => Err(io::Error::other(why)),
            _ => Err(io::Error::other("connection reset")),
        }
    }

    /// Serves the requests to a host until its runtime ends.
    pub async fn serve(self, host: HostId, serve: Serve) {
        let (sender, mut inbox) = mpsc::unbounded_channel();
        self.lock().inboxes.insert(host, sender);
        while let Some(arrived) = inbox.recv().await {
            tokio::spawn(arrived.answer(serve.clone()));
        }
    }

    /// The writes that servers answered with success.
    pub fn accepted(&self) -> Vec<Accepted> {
        self.lock().accepted.clone()
    }

    /// The bindings that schedulers sent.
    pub fn attempts(&self) -> Vec<Attempt> {
        self.lock().attempts.clone()
    }

    /// How often each fault occurred, and the number of requests.
    pub fn counts(&self) -> (BTreeMap<&'static str, u64>, u64) {
        let state = self.lock();
        (state.faults.counts.clone(), state.n_requests)
    }

    /// The number of writes that the host sent that may be killed.
    pub fn n_writes(&self) -> u64 {
        self.lock().faults.n_writes
    }

    /// The host that is killed by what it sent last.
    pub fn take_killed(&self) -> Option<HostId> {
        self.lock().faults.take_killed()
    }

    /// Counts a fault that the network did not make.
    pub fn count(&self, fault: &'static str) {
        *self.lock().faults.counts.entry(fault).or_default() += 1;
    }

    /// Ends all faults.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.faults.end();
        state.partitions.clear();
    }
}

impl State {
    fn put(&mut self, at: Duration, delivery: Delivery) {
        self.n_sent += 1;
        self.queue.insert((at, self.n_sent), delivery);
    }
}

impl Arrived {
    async fn answer(mut self, serve: Serve) {
        let Some(mut request) = self.request.take() else { return };
        if let Some(Kind::Continue(_)) = self.call.fate.kind {
            without_continue(&mut request);
        }
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let call = self.call.clone();
        let respond = async {
            let is_write = method != Method::GET;
            let (before, after) = if is_write { call.fate.disk } else { Default::default() };
            if !before.is_zero() {
                tokio::time::sleep(before).await;
            }
            let response = serve(request).await;
            if is_write && response.status().is_success() {
                let accepted = Accepted { at: platform::now(), client: call.client, method, path };
                self.network.lock().accepted.push(accepted);
            }
            if !after.is_zero() {
                tokio::time::sleep(after).await;
            }
            response
        };
        let hangs_up = async {
            match call.fate.kind {
                Some(Kind::HangUp(after)) => tokio::time::sleep(after).await,
                _ => std::future::pending().await,
            }
        };
        let response = tokio::select! {
            biased;
            // The client has given up.
            () = call.parts.closed() => return self.ended = true,
            () = hangs_up => return self.end(Part::Broken("connection reset")),
            response = respond => response,
        };
        match call.fate.kind {
            Some(Kind::LoseAnswer) => return self.end(Part::Broken("connection reset")),
            Some(Kind::AnswerAfter(code)) => {
                self.send(head(code));
                self.send(Part::Frame(status(code)));
                return self.end(Part::End);
            }
            Some(Kind::HangAnswer) => {
                call.parts.closed().await;
                return self.ended = true;
            }
            _ => {}
        }
        let (parts, mut body) = response.into_parts();
        self.send(Part::Head(Box::new(parts)));
        if let Some(Kind::Continue(token)) = call.fate.kind {
            let page = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            self.send(Part::Frame(with_continue(&page, token)));
            return self.end(Part::End);
        }
        let mut n_frames = 0;
        loop {
            let frame = tokio::select! {
                biased;
                () = call.parts.closed() => return self.ended = true,
                frame = body.frame() => frame,
            };
            let Some(Ok(frame)) = frame else { return self.end(Part::End) };
            let Ok(data) = frame.into_data() else { continue };
            n_frames += 1;
            match call.fate.kind {
                Some(Kind::Truncate(n)) if n_frames >= n => {
                    self.send(Part::Frame(data.slice(..data.len() / 2)));
                    return self.end(Part::Broken("connection reset"));
                }
                Some(Kind::Stall(n)) if n_frames >= n => {
                    call.parts.closed().await;
                    return self.ended = true;
                }
                Some(Kind::Expire(n)) if n_frames >= n => {
                    let error = json!({"type": "ERROR", "object": status_value(410)});
                    self.send(Part::Frame(Bytes::from(format!("{error}\n"))));
                    return self.end(Part::End);
                }
                Some(Kind::Repeat(n)) if n_frames % n == 0 => {
                    self.send(Part::Frame(data.clone()));
                    let start = data[..data.len().saturating_sub(1)].iter().rposition(|b| *b == b'\n');
                    self.send(Part::Frame(data.slice(start.map_or(0, |i| i + 1)..)));
                }
                _ => self.send(Part::Frame(data)),
            }
        }
    }

    fn end(mut self, part: Part) {
        self.send(part);
        self.ended = true;
    }

    fn send(&self, part: Part) {
        let mut state = self.network.lock();
        let mut last_at = self.call.last_at.lock().unwrap_or_else(PoisonError::into_inner);
        *last_at = (*last_at).max(platform::now() + state.faults.latency(self.call.client));
        state.put(*last_at, Delivery::Part(self.call.clone(), part));
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        if !self.ended {
            self.send(Part::Broken("connection reset"));
        }
    }
}

/// Asks for a list from its start.
fn without_continue(request: &mut Request<Full<Bytes>>) {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let kept: Vec<&str> = query.split('&').filter(|part| !part.starts_with("continue=")).collect();
    if let Ok(uri) = format!("{path}?{}", kept.join("&")).parse() {
        *request.uri_mut() = uri;
    }
}

/// A page of a list with a token for a further one.
fn with_continue(page: &Bytes, token: Token) -> Bytes {
    let Ok(mut list) = serde_json::from_slice::<serde_json::Value>(page) else { return page.clone() };
    if !list["items"].is_array() {
        return page.clone();
    }
    list["metadata"]["continue"] = match token {
        Token::Same => "more".into(),
        Token::Next => format!("more-{}", platform::now().as_nanos()).into(),
    };
    Bytes::from(list.to_string())
}

fn status_value(code: u16) -> serde_json::Value {
    let (reason, message) = match code {
        403 => ("Forbidden", "the permission was taken away"),
        409 => ("Conflict", "the object has been modified; please apply your changes to the latest version"),
        410 => ("Expired", "too old resource version"),
        429 => ("TooManyRequests", "too many requests, please try again later"),
        _ => ("InternalError", "injected fault"),
    };
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": message})
}

fn status(code: u16) -> Bytes {
    Bytes::from(status_value(code).to_string())
}

fn head(code: u16) -> Part {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if code == 429 {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    Part::Head(Box::new(response.into_parts().0))
}
