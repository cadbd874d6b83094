//! A proxy between a client and its API server that does to requests what a bad day does; for tests.
//!
//! A rule says for each request how it fares; what is passed on to the server is kept in a list, so that a test can
//! count what was asked of it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

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

/// What is done to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is answered by the server.
    None,
    /// The server is not asked; this is the answer.
    Answer(u16),
    /// The server is not asked, and there is no answer.
    Hang,
    /// The server carries it out, and the answer is lost with the connection.
    LoseAnswer,
    /// The server carries it out, and there is no answer.
    HangAfter,
    /// The server is asked so much later.
    Delay(Duration),
}

/// A request that was passed on to the server.
#[derive(Clone, Debug)]
pub struct Passed {
    /// When.
    pub at: tokio::time::Instant,
    /// Its method.
    pub method: Method,
    /// Its path, without the query.
    pub path: String,
}

type Rule = Box<dyn FnMut(&Parts) -> Fault + Send>;
type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// A proxy that runs as long as its runtime.
#[derive(Clone)]
pub struct Proxy {
    address: SocketAddr,
    rule: Arc<Mutex<Rule>>,
    /// Streams that pass through break whenever this changes.
    cut: watch::Sender<u64>,
    passed: Arc<Mutex<Vec<Passed>>>,
    n_faults: Arc<AtomicUsize>,
}

impl Proxy {
    /// A proxy that does nothing yet.
    ///
    /// # Panics
    /// There is no client to be made of `upstream`, or no free port.
    pub async fn start(mut upstream: kube::Config) -> Proxy {
        // What is sent again is the tested client's to decide.
        upstream.default_retry = false;
        upstream.read_timeout = None;
        let client = kube::Client::try_from(upstream).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy {
            address: listener.local_addr().unwrap(),
            rule: Arc::new(Mutex::new(Box::new(|_: &Parts| Fault::None))),
            cut: watch::channel(0).0,
            passed: Arc::default(),
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
                    // A connection that ends badly is what this is for.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        proxy
    }

    /// For clients that are to go through it.
    ///
    /// # Panics
    /// Never: the address is one.
    pub fn config(&self) -> kube::Config {
        kube::Config::new(format!("http://{}", self.address).parse().unwrap())
    }

    /// From now on, requests fare like this.
    ///
    /// # Panics
    /// A rule before panicked.
    pub fn rule(&self, rule: impl FnMut(&Parts) -> Fault + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
    }

    /// Breaks all answers that are still coming, and with them all watches.
    pub fn cut(&self) {
        self.cut.send_modify(|n| *n += 1);
    }

    /// To how many requests something was done.
    pub fn n_faults(&self) -> usize {
        self.n_faults.load(Ordering::Relaxed)
    }

    /// What was passed on to the server, in order.
    pub fn passed(&self) -> Vec<Passed> {
        self.passed.lock().unwrap().clone()
    }

    /// When requests to bind were passed on.
    pub fn bindings(&self) -> Vec<tokio::time::Instant> {
        self.passed().iter().filter(|p| p.path.ends_with("/binding")).map(|p| p.at).collect()
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
        self.passed.lock().unwrap().push(Passed { at: tokio::time::Instant::now(), method, path });
        let response = client.send(request).await.map_err(std::io::Error::other)?;
        match fault {
            Fault::LoseAnswer => return Err(std::io::Error::other("the answer is lost")),
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

/// An error as an API server tells it.
fn status(code: u16) -> Response<Body> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": if code == 410 { "Expired" } else { "Fault" }, "message": "it is one of those days"});
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    if code == 429 {
        headers.insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
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

/// Whether a request is a watch that goes on from a version.
pub fn is_resumed_watch(request: &Parts) -> bool {
    request.uri.query().is_some_and(|query| query.contains("watch=1") && query.contains("resourceVersion="))
}
