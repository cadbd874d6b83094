//! `/healthz`, `/livez`, `/readyz` and `/metrics` of a part that follows a cluster.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What a part shows of itself.
pub trait Shown: Send + Sync + 'static {
    /// What has not been listed yet; it is ready when nothing is left.
    fn waits_for(&self) -> &[&'static str];
}

/// The address cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}; choose another address, or port 0 for a free one")]
pub struct ListenError {
    /// The address.
    pub address: SocketAddr,
    /// What is wrong with it.
    pub source: std::io::Error,
}

struct Served<S> {
    registry: Arc<Registry>,
    shown: watch::Receiver<S>,
}

impl<S> Clone for Served<S> {
    fn clone(&self) -> Self {
        Served { registry: self.registry.clone(), shown: self.shown.clone() }
    }
}

/// Serves until `stop`; returns the address in use. The part counts as alive while it holds the other end of `shown`.
///
/// # Errors
/// The address cannot be used.
pub async fn serve<S: Shown>(
    address: SocketAddr,
    registry: Arc<Registry>,
    shown: watch::Receiver<S>,
    stop: CancellationToken,
) -> Result<SocketAddr, ListenError> {
    let failed = |source| ListenError { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let router = Router::new()
        .route("/healthz", get(alive::<S>))
        .route("/livez", get(alive::<S>))
        .route("/readyz", get(ready::<S>))
        .route("/metrics", get(metrics::<S>))
        .with_state(Served { registry, shown });
    tokio::spawn(async move {
        let served = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await;
        if let Err(error) = served {
            tracing::warn!("serving metrics ended: {error}");
        }
    });
    Ok(address)
}

async fn alive<S: Shown>(State(served): State<Served<S>>) -> impl IntoResponse {
    match served.shown.has_changed() {
        Ok(_) => (StatusCode::OK, "ok"),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "it has ended"),
    }
}

async fn ready<S: Shown>(State(served): State<Served<S>>) -> impl IntoResponse {
    let waits_for = served.shown.borrow().waits_for().to_vec();
    if waits_for.is_empty() {
        (StatusCode::OK, "ok".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("not listed yet: {}", waits_for.join(", ")))
    }
}

async fn metrics<S: Shown>(State(served): State<Served<S>>) -> impl IntoResponse {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &served.registry) {
        Ok(()) => {
            let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, content_type)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
