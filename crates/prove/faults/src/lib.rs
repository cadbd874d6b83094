//! A proxy between a client and its API server that injects faults; for tests.
//!
//! A rule selects a fault for each request. The proxy records the requests that it forwards to the server, so that a test
//! can count them. [`observe`] is the client of such tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod observe;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;

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
    /// Forwards the request and closes the connection without a response.
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
type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// A proxy. It runs until its runtime stops.
#[derive(Clone)]
pub struct Proxy {
    address: SocketAddr,
    rule: Arc<Mutex<Rule>>,
    /// Response streams break when this changes.
    cut: watch::Sender<u64>,
    forwarded: Arc<Mutex<Vec<ForwardedRequest>>>,
    n_faults: Arc<AtomicUsize>,
}

impl Proxy {
    /// Starts a proxy without faults.
    ///
    /// # Panics
    /// `upstream` is not a usable client configuration, or no port is free.
    pub async fn start(mut upstream: kube::Config) -> Proxy {
        // The tested client decides about retries, not the proxy.
        upstream.default_retry = false;
        upstream.read_timeout = None;
        let client = kube::Client::try_from(upstream).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy {
            address: listener.local_addr().unwrap(),
            rule: Arc::new(Mutex::new(Box::new(|_: &Parts| Fault::None))),
            cut: watch::channel(0).0,
            forwarded: Arc::default(),
            n_faults: Arc::default(),
        };
        let served = proxy.clone();
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let (proxy, client) = (served.clone(), client.clone());
                let service = service_fn(move |request| {
                    let (proxy, client) = (proxy.clone(), client.clone());
                    async move { proxy.answer(client, request).await }
                });
                tokio::spawn(async move {
                    // Broken connections are intended.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        proxy
    }

    /// The configuration of a client that uses the proxy.
    ///
    /// # Panics
    /// Never: the address is valid.
    pub fn config(&self) -> kube::Config {
        kube::Config::new(format!("http://{}", self.address).parse().unwrap())
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

    async fn answer(
        &self,
        client: kube::Client,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, std::io::Error> {
        let (mut parts, body) = request.into_parts();
        let fault = (self.rule.lock().unwrap())(&parts);
        self.n_faults.fetch_add(usize::from(fault != Fault::None), Ordering::Relaxed);
        match fault {
            Fault::Answer(code) => return Ok(status(code)),
            Fault::Hang => std::future::pending::<()>().await,
            Fault::Delay(delay) => tokio::time::sleep(delay).await,
            Fault::None | Fault::LoseAnswer | Fault::HangAfter => {}
        }
        let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        let path = parts.uri.path().to_owned();
        let method = parts.method.clone();
        parts.headers.remove(http::header::HOST);
        let request = Request::from_parts(parts, kube::client::Body::from(body));
        self.forwarded.lock().unwrap().push(ForwardedRequest {
            at: tokio::time::Instant::now(),
            method,
            path,
        });
        let response = client.send(request).await.map_err(std::io::Error::other)?;
        match fault {
            Fault::LoseAnswer => return Err(std::io::Error::other("the response is dropped")),
            Fault::HangAfter => std::future::pending::<()>().await,
            _ => {}
        }
        Ok(response.map(|body| self.cuttable(body)))
    }

    fn cuttable(&self, body: kube::client::Body) -> Body {
        let cut = self.cut.subscribe();
        let frames = futures::stream::unfold((body, cut), |(mut body, mut cut)| async move {
            tokio::select! {
                biased;
                _ = cut.changed() => Some((Err(std::io::Error::other("cut")), (body, cut))),
                frame = body.frame() => {
                    let frame: Result<Frame<Bytes>, _> = frame?.map_err(std::io::Error::other);
                    Some((frame, (body, cut)))
                }
            }
        });
        StreamBody::new(frames).boxed_unsync()
    }
}

/// An error response of an API server.
fn status(code: u16) -> Response<Body> {
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
