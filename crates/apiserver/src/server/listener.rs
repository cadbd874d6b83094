//! Connections: TLS, HTTP/1.1 and HTTP/2, and the limits that hold for each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use super::service::{Shared, serve};

/// How long a connection may be idle between requests, or take for the headers of a later one. Longer than clients keep
/// idle connections (90 s), so that they are not closed just when one is used again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// How long open requests may take to end at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_STREAMS: u32 = 1000;
const HEADER_BYTES: usize = 64 * 1024;

/// Accepts connections until the server stops, then waits for those that are open.
pub async fn run(listener: TcpListener, tls: TlsAcceptor, shared: Arc<Shared>) {
    let slots = Arc::new(Semaphore::new(shared.limits.connections));
    let connections = TaskTracker::new();
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let (tls, shared) = (tls.clone(), shared.clone());
                connections.spawn(async move {
                    connection(stream, tls, shared).await;
                    drop(slot);
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: those in use come back.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    connections.close();
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await;
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, shared: Arc<Shared>) {
    // Events and answers are small and wanted at once.
    let _ = stream.set_nodelay(true);
    let begun = Arc::new(AtomicBool::new(false));
    let deadline = tokio::time::Instant::now() + shared.limits.first_request;
    let Ok(Ok(stream)) = tokio::time::timeout_at(deadline, tls.accept(stream)).await else { return };
    let service = {
        let (begun, shared) = (begun.clone(), shared.clone());
        service_fn(move |request| {
            begun.store(true, Ordering::Relaxed);
            serve(shared.clone(), request)
        })
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .max_buf_size(HEADER_BYTES * 4)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(HEADER_BYTES as u32)
        .keep_alive_interval(Duration::from_secs(60))
        .keep_alive_timeout(Duration::from_secs(30));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let (mut stopping, mut checked) = (false, false);
    loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(error, "connection ended");
                }
                return;
            }
            () = shared.stop.cancelled(), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            () = tokio::time::sleep_until(deadline), if !checked => {
                checked = true;
                if !begun.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
    }
}
