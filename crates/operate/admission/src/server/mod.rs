//! The webhook server: TLS and HTTP around the decisions, and nothing else.
//!
//! The server limits the size and time of requests. It answers an invalid request, or one that it cannot decide, with
//! an HTTP error: then the API server applies the webhook's `failurePolicy`.

mod metrics;
mod service;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_serve::{
    CertificateError, CertificateSource, Certificates, ConnectionLimits, ListenError, Listener, tls_acceptor,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::admission::AdmissionController;
use metrics::Metrics;
use service::Server;

#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where webhooks are served, over TLS.
    pub listen: SocketAddr,
    /// Where `/healthz`, `/readyz` and `/metrics` are served without TLS; nowhere without it.
    pub health_listen: Option<SocketAddr>,
    pub certificate: CertificateSource,
    /// Interval of the check for changed certificate files.
    pub reload_interval: Duration,
    pub limits: Limits,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest body in bytes. The review of an update holds the object twice.
    pub body_bytes: usize,
    /// How long the body of a request may take.
    pub body_timeout: Duration,
    pub connections: ConnectionLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body_bytes: 8 << 20,
            body_timeout: Duration::from_secs(10),
            connections: ConnectionLimits::default(),
        }
    }
}

impl ServerOptions {
    pub fn new(listen: SocketAddr, certificate: CertificateSource) -> ServerOptions {
        ServerOptions {
            listen,
            health_listen: None,
            certificate,
            reload_interval: Duration::from_secs(2),
            limits: Limits::default(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// There is no certificate to serve with.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("{path}: {source}", path = path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("the webhook server broke down: {0}")]
    Broken(String),
}

#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    health_address: Option<SocketAddr>,
    ca_pem: Option<String>,
    tasks: Vec<JoinHandle<()>>,
}

impl Running {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where health and metrics are served without TLS.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.health_address
    }

    /// The certificate (PEM) that signed the server's own; none if the certificate was given.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    pub async fn stopped(self) -> Result<(), ServerError> {
        for task in self.tasks {
            task.await.map_err(|error| ServerError::Broken(error.to_string()))?;
        }
        Ok(())
    }
}

/// Starts a server. It runs until `stop`, then lets open requests end.
///
/// # Errors
/// An address is taken, or there is no certificate.
pub fn start(
    admission: Arc<AdmissionController>,
    options: ServerOptions,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<Running, ServerError>> {
    // Boxed here: the body of an `async fn` is compiled in each crate that polls it.
    async move {
        let certificates = Arc::new(Certificates::load(&options.certificate).await?);
        let tls = tls_acceptor(certificates.clone()).map_err(CertificateError::from)?;
        let webhooks = Listener::bind(options.listen).await?;
        let address = webhooks.address();
        let limits = options.limits;
        let metrics = Arc::new(Metrics::new(admission.quota_metrics()));
        let server = Arc::new(Server { admission, metrics: metrics.clone(), limits });
        let mut tasks = Vec::new();
        let mut health_address = None;
        if let Some(address) = options.health_listen {
            let health = Listener::bind(address).await?;
            health_address = Some(health.address());
            let server = server.clone();
            let serve = move |request| server.clone().health(request);
            tasks.push(tokio::spawn(health.run(None, limits.connections, stop.clone(), serve)));
        }
        let serve = move |request| server.clone().webhook(request);
        tasks.push(tokio::spawn(webhooks.run(Some(tls), limits.connections, stop.clone(), serve)));
        let ca_pem = certificates.ca_pem().map(str::to_owned);
        if let CertificateSource::Files { .. } = &options.certificate {
            let report = move |is_good| metrics.certificate_reloaded(is_good);
            let reload = certificates.reload_changes(options.certificate, options.reload_interval, report);
            tasks.push(tokio::spawn(async move { _ = stop.run_until_cancelled(reload).await }));
        }
        Ok(Running { address, health_address, ca_pem, tasks })
    }
    .boxed()
}
