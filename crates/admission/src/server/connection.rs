//! Connections: accepted, limited, and ended gracefully.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::service::{Port, Served, serve};

const MAX_STREAMS: u32 = 1000;
const HEADER_BYTES: u32 = 32 * 1024;

/// One listening address.
#[derive(Clone)]
pub(super) struct Listening {
    pub(super) served: Served,
    /// Webhooks are served with it, health without.
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) stop: CancellationToken,
}

impl Listening {
    /// Accepts connections until told to stop, then waits for those that are open.
    pub(super) async fn run(self, listener: TcpListener) {
        let limits = self.served.limits;
        let slots = Arc::new(Semaphore::new(limits.connections));
        let connections = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                accepted = async {
                    let slot = slots.clone().acquire_owned().await;
                    (listener.accept().await, slot)
                } => accepted,
                () = self.stop.cancelled() => break,
            };
            match accepted {
                (Ok((stream, _)), Ok(slot)) => {
                    let listening = self.clone();
                    connections.spawn(async move {
                        listening.connection(stream).await;
                        drop(slot);
                    });
                }
                (Err(error), _) => {
                    // Out of file descriptors, most likely: those in use come back.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                (_, Err(_)) => break,
            }
        }
        drop(listener);
        connections.close();
        if tokio::time::timeout(limits.drain, connections.wait()).await.is_err() {
            tracing::warn!("not all requests ended within {} s", limits.drain.as_secs());
        }
    }

    async fn connection(self, stream: TcpStream) {
        // Answers are small and wanted at once.
        let _ = stream.set_nodelay(true);
        let deadline = tokio::time::Instant::now() + self.served.limits.first_request;
        match &self.tls {
            None => self.http(stream, Port::Health, deadline).await,
            Some(tls) => match tokio::time::timeout_at(deadline, tls.accept(stream)).await {
                Ok(Ok(stream)) => self.http(stream, Port::Webhooks, deadline).await,
                Ok(Err(error)) => tracing::debug!(%error, "no TLS came about"),
                Err(_) => tracing::debug!("a client did not finish its TLS handshake"),
            },
        }
    }

    async fn http<S>(&self, stream: S, port: Port, deadline: tokio::time::Instant)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let begun = Arc::new(AtomicBool::new(false));
        let service = service_fn(|request| {
            begun.store(true, Ordering::Relaxed);
            serve(self.served.clone(), port, request)
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.served.limits.idle)
            .max_buf_size(HEADER_BYTES as usize * 2)
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(HEADER_BYTES)
            .keep_alive_interval(Duration::from_secs(60))
            .keep_alive_timeout(Duration::from_secs(30));
        let connection = builder.serve_connection(TokioIo::new(stream), service);
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
                () = self.stop.cancelled(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = tokio::time::sleep_until(deadline), if !checked => {
                    checked = true;
                    // Whoever connects and says nothing must not keep others out.
                    if !begun.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        }
    }
}
