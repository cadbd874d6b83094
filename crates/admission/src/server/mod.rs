//! The webhook server: TLS and HTTP around the decisions, and nothing else.
//!
//! Whatever comes in is bounded in size and time. What is no question gets a proper HTTP error, and so does a question
//! that cannot be answered: then the API server goes by the webhook's `failurePolicy`.

mod certificate;
mod connection;
mod metrics;
mod service;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::admission::Admission;
pub use certificate::{CertificateError, CertificateSource};
use certificate::{Certificates, tls_config};
use connection::Listening;
use metrics::Metrics;
use service::Served;

/// How a webhook server is started.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where webhooks are served, over TLS.
    pub listen: SocketAddr,
    /// Where `/healthz`, `/readyz` and `/metrics` are served without TLS; nowhere without it.
    pub health_listen: Option<SocketAddr>,
    /// The certificate.
    pub certificate: CertificateSource,
    /// How often certificate files are looked at.
    pub reload_interval: Duration,
    /// Limits on what comes in.
    pub limits: Limits,
}

/// Limits on what comes in.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest body in bytes. A review has the object twice when it is changed.
    pub body_bytes: usize,
    /// How long the body of a request may take.
    pub body_timeout: Duration,
    /// How long a connection may take to its first request.
    pub first_request: Duration,
    /// How long a connection may be idle between requests.
    pub idle: Duration,
    /// Connections at a time; more wait to be accepted.
    pub connections: usize,
    /// How long open requests may take to end when the server stops.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body_bytes: 8 << 20,
            body_timeout: Duration::from_secs(10),
            first_request: Duration::from_secs(10),
            // Longer than clients keep idle connections (90 s), so that none is closed just when it is used again.
            idle: Duration::from_secs(120),
            connections: 1024,
            drain: Duration::from_secs(10),
        }
    }
}

impl ServerOptions {
    /// A server at an address, with a certificate.
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

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}; name another address or free this one")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// There is no certificate to serve with.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A file cannot be written.
    #[error("{path}: {source}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It broke down.
    #[error("the webhook server broke down: {0}")]
    Broken(String),
}

/// A webhook server that runs.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    health_address: Option<SocketAddr>,
    ca_pem: Option<String>,
    tasks: Vec<JoinHandle<()>>,
}

impl Running {
    /// Where webhooks are served.
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

    /// Waits until it has stopped.
    ///
    /// # Errors
    /// It broke down.
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
pub async fn start(
    admission: Arc<Admission>,
    options: ServerOptions,
    stop: CancellationToken,
) -> Result<Running, ServerError> {
    let metrics = Arc::new(Metrics::default());
    let certificates = Arc::new(Certificates::load(&options.certificate).await?);
    let tls = TlsAcceptor::from(Arc::new(tls_config(certificates.clone())?));
    let (listener, address) = listen(options.listen).await?;
    let served = Served { admission, metrics: metrics.clone(), limits: options.limits };
    let webhooks = Listening { served: served.clone(), tls: Some(tls), stop: stop.clone() };
    let mut tasks = Vec::new();
    let mut health_address = None;
    if let Some(wanted) = options.health_listen {
        let (listener, address) = listen(wanted).await?;
        health_address = Some(address);
        let health = Listening { served, tls: None, stop: stop.clone() };
        tasks.push(tokio::spawn(health.run(listener)));
    }
    tasks.push(tokio::spawn(webhooks.run(listener)));
    let ca_pem = certificates.ca_pem().map(str::to_owned);
    if let CertificateSource::Files { .. } = &options.certificate {
        let reload = certificates.keep_up(options.certificate.clone(), options.reload_interval, metrics);
        tasks.push(tokio::spawn(async move { _ = stop.run_until_cancelled(reload).await }));
    }
    Ok(Running { address, health_address, ca_pem, tasks })
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServerError> {
    let failed = |source| ServerError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}
