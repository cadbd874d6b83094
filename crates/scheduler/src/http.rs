//! `/healthz`, `/livez`, `/readyz` and `/metrics`.

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

use crate::Snapshot;
use crate::options::SchedulerError;

#[derive(Clone)]
struct Served {
    registry: Arc<Registry>,
    snapshot: watch::Receiver<Snapshot>,
}

/// Serves until `stop`; returns the address in use.
pub(crate) async fn serve(
    address: SocketAddr,
    registry: Arc<Registry>,
    snapshot: watch::Receiver<Snapshot>,
    stop: CancellationToken,
) -> Result<SocketAddr, SchedulerError> {
    let failed = |source| SchedulerError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let router = Router::new()
        .route("/healthz", get(alive))
        .route("/livez", get(alive))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(Served { registry, snapshot });
    tokio::spawn(async move {
        let served = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await;
        if let Err(error) = served {
            tracing::warn!("serving metrics ended: {error}");
        }
    });
    Ok(address)
}

async fn alive(State(served): State<Served>) -> impl IntoResponse {
    // The scheduler's task holds the other end for as long as it runs.
    match served.snapshot.has_changed() {
        Ok(_) => (StatusCode::OK, "ok"),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the scheduler has ended"),
    }
}

async fn ready(State(served): State<Served>) -> impl IntoResponse {
    let waits_for = served.snapshot.borrow().waits_for.clone();
    if waits_for.is_empty() {
        (StatusCode::OK, "ok".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("not listed yet: {}", waits_for.join(", ")))
    }
}

async fn metrics(State(served): State<Served>) -> impl IntoResponse {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &served.registry) {
        Ok(()) => {
            let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, content_type)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
