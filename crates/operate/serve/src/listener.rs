//! Connections: TLS, HTTP/1.1 and HTTP/2, and the limits of each.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client_certificate::ClientChain;
use crate::metered::Metered;
use crate::parts::{SOCKETS, TLS};

/// How long a connection may be idle between requests, or take for the headers of a later one. Longer than clients keep
/// idle connections (90 s), so that the server does not close one that a client is about to use.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
const MAX_STREAMS: u32 = 1000;
const HEADER_BYTES: u32 = 64 * 1024;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Answer = Pin<Box<dyn Future<Output = Response<UnsyncBoxBody<Bytes, BoxError>>> + Send>>;
/// What answers requests. Without a type parameter: HTTP is compiled once, not once for each server.
type Handler = Arc<dyn Fn(Request<Incoming>) -> Answer + Send + Sync>;
type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<I: AsyncRead + AsyncWrite + Unpin + Send> Stream for I {}

/// Among the extensions of a request: ends the connection on which it came.
#[derive(Clone, Debug)]
pub struct Connection(pub CancellationToken);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Open connections; further ones wait to be accepted.
    pub connections: usize,
    /// How long a client may take from connecting to the end of its first request's headers.
    pub first_request: Duration,
    /// How long open requests may take to end at shutdown.
    pub drain: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        ConnectionLimits {
            connections: 1024,
            first_request: Duration::from_secs(10),
            drain: Duration::from_secs(10),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}; choose another address, or port 0 for a free one")]
pub struct ListenError {
    pub address: SocketAddr,
    pub source: std::io::Error,
}

pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Listens on an address; port 0 stands for a free one.
    pub async fn bind(address: SocketAddr) -> Result<Listener, ListenError> {
        let failed = |source| ListenError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Listener { listener, address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until `stop`, then waits for the open ones. Without `tls`, HTTP is served in plain text.
    pub fn run<S, F, B>(
        self,
        tls: Option<TlsAcceptor>,
        limits: ConnectionLimits,
        stop: CancellationToken,
        serve: S,
    ) -> Running
    where
        S: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let handler = move |request| -> Answer {
            let answer = serve(request);
            Box::pin(async { answer.await.map(|body| body.map_err(Into::into).boxed_unsync()) })
        };
        self.accept(tls, limits, stop, Arc::new(handler))
    }

    fn accept(
        self,
        tls: Option<TlsAcceptor>,
        limits: ConnectionLimits,
        stop: CancellationToken,
        handler: Handler,
    ) -> Running {
        // Boxed here: the body of an `async fn` is compiled in each crate that polls it.
        Box::pin(async move {
            let slots = Arc::new(Semaphore::new(limits.connections));
            let connections = TaskTracker::new();
            loop {
                let accept = async { (slots.clone().acquire_owned().await, self.listener.accept().await) };
                match stop.run_until_cancelled(accept).await {
                    Some((Ok(slot), Ok((stream, _)))) => {
                        let (tls, handler, stop) = (tls.clone(), handler.clone(), stop.clone());
                        connections.spawn(async move {
                            let deadline = Instant::now() + limits.first_request;
                            connection(stream, tls, deadline, stop, handler).await;
                            drop(slot);
                        });
                    }
                    Some((_, Err(error))) => {
                        // Most likely no file descriptor is left; connections that end give theirs back.
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    Some((Err(_), _)) | None => break,
                }
            }
            drop(self.listener);
            connections.close();
            if tokio::time::timeout(limits.drain, connections.wait()).await.is_err() {
                tracing::warn!("not all requests ended within {} s", limits.drain.as_secs());
            }
        })
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    deadline: Instant,
    stop: CancellationToken,
    handler: Handler,
) {
    // Answers and watch events are small and must not wait for more data.
    let _ = stream.set_nodelay(true);
    let stream = Metered::new(stream, &SOCKETS);
    match tls {
        None => http(Box::new(stream), None, deadline, stop, handler).await,
        Some(tls) => match tokio::time::timeout_at(deadline, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let chain = stream.get_ref().1.peer_certificates();
                let chain =
                    chain.map(|chain| ClientChain(chain.iter().map(|c| c.clone().into_owned()).collect()));
                http(Box::new(Metered::new(stream, &TLS)), chain, deadline, stop, handler).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "the TLS handshake failed"),
            Err(_) => tracing::debug!("a client did not finish its TLS handshake"),
        },
    }
}

async fn http(
    stream: Box<dyn Stream>,
    chain: Option<ClientChain>,
    deadline: Instant,
    stop: CancellationToken,
    handler: Handler,
) {
    let begun = AtomicBool::new(false);
    let aborted = CancellationToken::new();
    let service = service_fn(|mut request: Request<Incoming>| {
        begun.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(Connection(aborted.clone()));
        if let Some(chain) = &chain {
            request.extensions_mut().insert(chain.clone());
        }
        let answer = handler(request);
        async { Ok::<_, Infallible>(answer.await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .max_buf_size(HEADER_BYTES as usize * 4)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(HEADER_BYTES)
        .keep_alive_interval(Duration::from_secs(60))
        .keep_alive_timeout(Duration::from_secs(30));
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let (mut stopping, mut checked) = (false, false);
    loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(error, "a connection ended");
                }
                return;
            }
            () = aborted.cancelled() => return,
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            () = tokio::time::sleep_until(deadline), if !checked => {
                checked = true;
                // A client that connects and sends nothing must not occupy a slot.
                if !begun.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
    }
}
