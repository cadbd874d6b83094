//! For tests of the components: an API server in process ([`TestServer`]), a proxy that injects faults between a client and a
//! server ([`Proxy`]), and a client that observes ([`observe`]).
//!
//! Requests pass from function to function: without sockets, TLS and threads, so that a test can run on paused time. Only
//! [`Proxy::listen`] opens a socket, for tests about connections.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod observe;
mod test_server;

pub use test_server::{NODES, PODS, TestServer};

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_client::connect::{Connection, ResponseBody, Transport};
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower::BoxError;

/// `Retry-After` of a response with the code 429.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What the proxy does to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Forwards the request and the response.
    None,
    /// Responds with this status code, without forwarding.
    Answer(u16),
    /// Never responds, without forwarding.
    Hang,
    /// Forwards the request and breaks the connection without a response.
    LoseAnswer,
    /// Forwards the request and never responds.
    HangAfter,
    /// Forwards the request after this delay.
    Delay(Duration),
}

/// A request that was forwarded to the server.
#[derive(Clone, Debug)]
pub struct ForwardedRequest {
    /// When the proxy forwarded it.
    pub at: tokio::time::Instant,
    pub method: Method,
    /// URL path without the query.
    pub path: String,
}

type Rule = Box<dyn FnMut(&Parts) -> Fault + Send>;

/// A proxy; clones are the same proxy.
#[derive(Clone)]
pub struct Proxy {
    /// The tested client decides about retries, not this one.
    upstream: kube::Client,
    rule: Arc<Mutex<Rule>>,
    /// Response streams break when this changes.
    cut: watch::Sender<u64>,
    forwarded: Arc<Mutex<Vec<ForwardedRequest>>>,
    n_faults: Arc<AtomicUsize>,
}

impl Proxy {
    /// A proxy without faults.
    pub fn new(upstream: kube::Client) -> Proxy {
        Proxy {
            upstream,
            rule: Arc::new(Mutex::new(Box::new(|_: &Parts| Fault::None))),
            cut: watch::channel(0).0,
            forwarded: Arc::default(),
            n_faults: Arc::default(),
        }
    }

    /// How a client uses the proxy.
    pub fn connection(&self) -> Connection {
        let proxy = self.clone();
        let transport: Transport = Arc::new(move |request| {
            let proxy = proxy.clone();
            Box::pin(async move { proxy.answer(request).await })
        });
        Connection::Transport(transport)
    }

    /// The same over HTTP connections, which break with lost responses and cuts; until the runtime stops.
    ///
    /// # Panics
    /// No port is free.
    pub async fn listen(&self) -> kube::Config {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let proxy = self.clone();
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let proxy = proxy.clone();
                let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                    let proxy = proxy.clone();
                    async move {
                        let broken = |error: BoxError| io::Error::other(error);
                        let answer = proxy.answer(request).await.map_err(broken)?;
                        io::Result::Ok(answer.map(|body| body.map_err(broken).boxed_unsync()))
                    }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                // Broken connections are intended.
                tokio::spawn(async { drop(connection.await) });
            }
        });
        kube::Config::new(url.parse().unwrap())
    }

    /// Sets the rule for all following requests.
    ///
    /// # Panics
    /// An earlier rule panicked.
    pub fn rule(&self, rule: impl FnMut(&Parts) -> Fault + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
    }

    /// Breaks all open responses, and with them all watches.
    pub fn cut(&self) {
        self.cut.send_modify(|n| *n += 1);
    }

    /// The number of requests with a fault.
    pub fn n_faults(&self) -> usize {
        self.n_faults.load(Ordering::Relaxed)
    }

    /// The requests that were forwarded to the server, in order.
    pub fn forwarded(&self) -> Vec<ForwardedRequest> {
        self.forwarded.lock().unwrap().clone()
    }

    /// When binding requests were forwarded.
    pub fn bindings(&self) -> Vec<tokio::time::Instant> {
        self.forwarded().iter().filter(|p| p.path.ends_with("/binding")).map(|p| p.at).collect()
    }

    async fn answer<B>(&self, request: Request<B>) -> Result<Response<ResponseBody>, BoxError>
    where
        B: hyper::body::Body<Error: Into<BoxError>>,
    {
        let (mut parts, body) = request.into_parts();
        let fault = (self.rule.lock().unwrap())(&parts);
        self.n_faults.fetch_add(usize::from(fault != Fault::None), Ordering::Relaxed);
        match fault {
            Fault::Answer(code) => return Ok(status(code)),
            Fault::Hang => std::future::pending::<()>().await,
            Fault::Delay(delay) => tokio::time::sleep(delay).await,
            Fault::None | Fault::LoseAnswer | Fault::HangAfter => {}
        }
        let body = body.collect().await.map_err(Into::into)?.to_bytes();
        let path = parts.uri.path().to_owned();
        let method = parts.method.clone();
        parts.headers.remove(http::header::HOST);
        self.forwarded.lock().unwrap().push(ForwardedRequest {
            at: tokio::time::Instant::now(),
            method,
            path,
        });
        let response = self.upstream.send(Request::from_parts(parts, Body::from(body))).await?;
        match fault {
            Fault::LoseAnswer => return Err("the response is dropped".into()),
            Fault::HangAfter => std::future::pending::<()>().await,
            _ => {}
        }
        Ok(response.map(|body| self.cuttable(body)))
    }

    fn cuttable(&self, body: Body) -> ResponseBody {
        let cut = self.cut.subscribe();
        let frames = futures::stream::unfold((body, cut), |(mut body, mut cut)| async move {
            tokio::select! {
                biased;
                _ = cut.changed() => Some((Err("cut".into()), (body, cut))),
                frame = body.frame() => {
                    let frame: Result<Frame<Bytes>, BoxError> = frame?.map_err(Into::into);
                    Some((frame, (body, cut)))
                }
            }
        });
        StreamBody::new(frames).boxed_unsync()
    }
}

/// An error response of an API server.
fn status(code: u16) -> Response<ResponseBody> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": if code == 410 { "Expired" } else { "Fault" }, "message": "injected fault"});
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    if code == 429 {
        headers.insert(http::header::RETRY_AFTER, http::HeaderValue::from(RETRY_AFTER.as_secs()));
    }
    response
}

/// Whether a request binds a pod.
pub fn is_binding(request: &Parts) -> bool {
    request.method == Method::POST && request.uri.path().ends_with("/binding")
}

/// Whether a request evicts a pod.
pub fn is_eviction(request: &Parts) -> bool {
    request.method == Method::POST && request.uri.path().ends_with("/eviction")
}

/// Whether a request is a watch that resumes from a resource version.
pub fn is_resumed_watch(request: &Parts) -> bool {
    request.uri.query().is_some_and(|query| query.contains("watch=1") && query.contains("resourceVersion="))
}
