//! Serving of a component: its health, its metrics and its own pages, over HTTPS for those who may read them, and over
//! plain HTTP on loopback.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::certificate::{CertificateError, CertificateSource, Certificates};
use crate::client_certificate::{ClientAuthorities, ClientChain, ClientIdentity};
use crate::health::{self, Health, Readiness};
use crate::listener::{ConnectionLimits, ListenError, Listener};
use crate::tls::tls_acceptor_for_clients;

/// How often the files of a certificate are read again.
const RELOAD_INTERVAL: Duration = Duration::from_secs(2);

/// Where a component serves.
#[derive(Clone, Debug, Default)]
pub struct ServingOptions {
    /// Plain HTTP, on a loopback address; port 0 stands for a free one.
    pub http: Option<SocketAddr>,
    /// HTTPS.
    pub https: Option<SecureServingOptions>,
}

/// Serving over HTTPS.
#[derive(Clone, Debug)]
pub struct SecureServingOptions {
    /// The address; port 0 stands for a free one.
    pub address: SocketAddr,
    /// The certificate.
    pub certificate: CertificateSource,
    /// The paths that need no permission; one that ends with `*` stands for all paths that begin like it.
    pub always_allowed_paths: Vec<String>,
    /// PEM file with the authorities of client certificates; none: [`Content::client_authorities`] are kept current by
    /// the component.
    pub client_ca_file: Option<PathBuf>,
}

impl ServingOptions {
    /// Whether the component is to look for the authorities of client certificates.
    pub fn lacks_client_authorities(&self) -> bool {
        self.https.as_ref().is_some_and(|https| https.client_ca_file.is_none())
    }

    /// The paths that need no permission over HTTPS.
    pub fn always_allowed_paths(&self) -> Vec<String> {
        self.https.as_ref().map(|https| https.always_allowed_paths.clone()).unwrap_or_default()
    }
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be used.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// There is no certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Anyone on the network could read what is served.
    #[error(
        "plain HTTP is served on loopback addresses only, not on {0}: serve HTTPS there with --bind-address and \
         --secure-port"
    )]
    NotLoopback(SocketAddr),
}

/// A boxed future.
pub type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// A page of a component; `None` for a path that it does not serve.
pub type Pages = Arc<dyn Fn(&str) -> Option<Pending<Response<Full<Bytes>>>> + Send + Sync>;
/// Whether a client may send a request: the name and the groups of its certificate, or its token, the HTTP method in lower
/// case, and the path. A refusal is a status and a message.
pub type Authorizer = Arc<
    dyn Fn(Option<(String, Vec<String>)>, Option<String>, String, String) -> Pending<Result<(), Refusal>>
        + Send
        + Sync,
>;
type Refusal = (StatusCode, String);

/// What a component serves.
pub struct Content<S> {
    /// Its metrics.
    pub registry: Arc<Registry>,
    /// Its state. The component is alive while it holds the sender.
    pub state: watch::Receiver<S>,
    /// Its own pages, besides health and metrics.
    pub pages: Option<Pages>,
    /// Who may read over HTTPS.
    pub authorizer: Authorizer,
    /// Who signs certificates of clients.
    pub client_authorities: Arc<ClientAuthorities>,
}

/// The addresses in use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    /// Of plain HTTP.
    pub http: Option<SocketAddr>,
    /// Of HTTPS.
    pub https: Option<SocketAddr>,
}

impl<S: Readiness> Health for Content<S> {
    fn is_alive(&self) -> bool {
        self.state.has_changed().is_ok()
    }

    fn waits_for(&self) -> Vec<&'static str> {
        self.state.borrow().waits_for().to_vec()
    }

    fn metrics(&self) -> Result<String, std::fmt::Error> {
        health::encode(&self.registry)
    }
}

/// Serves a component until `stop`.
///
/// # Errors
/// An address cannot be used, plain HTTP is requested on another address than loopback, or there is no certificate.
pub async fn serve<S: Readiness>(
    options: &ServingOptions,
    content: Content<S>,
    stop: CancellationToken,
) -> Result<Addresses, ServeError> {
    let content = Arc::new(content);
    let mut addresses = Addresses::default();
    if let Some(address) = options.http {
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        let listener = Listener::bind(address).await?;
        addresses.http = Some(listener.address());
        let content = content.clone();
        let serve = move |request: Request<Incoming>| respond(content.clone(), request);
        tokio::spawn(listener.run(None, ConnectionLimits::default(), stop.clone(), serve));
    }
    if let Some(SecureServingOptions { address, certificate, client_ca_file, .. }) = &options.https {
        let authorities = content.client_authorities.clone();
        let tls = reloading_tls(certificate, authorities.clone(), &stop).await?;
        if let Some(path) = client_ca_file.clone() {
            authorities.read_file(&path).await?;
            let stopped = stop.clone();
            let follow = async move { authorities.follow_file(&path, RELOAD_INTERVAL).await };
            tokio::spawn(async move { stopped.run_until_cancelled(follow).await });
        }
        let listener = Listener::bind(*address).await?;
        addresses.https = Some(listener.address());
        let serve = move |request: Request<Incoming>| {
            let content = content.clone();
            async move {
                match authorize(&content.authorizer, &content.client_authorities, &request).await {
                    Ok(()) => respond(content, request).await,
                    Err((status, message)) => health::text(status, message),
                }
            }
        };
        tokio::spawn(listener.run(Some(tls), ConnectionLimits::default(), stop, serve));
    }
    Ok(addresses)
}

/// TLS with a certificate whose files are read again when they change, until `stop`.
///
/// # Errors
/// There is no certificate.
pub async fn reloading_tls(
    certificate: &CertificateSource,
    authorities: Arc<ClientAuthorities>,
    stop: &CancellationToken,
) -> Result<TlsAcceptor, CertificateError> {
    let certificates = Arc::new(Certificates::load(certificate).await?);
    let tls = tls_acceptor_for_clients(certificates.clone(), authorities)?;
    let reload = certificates.reload_changes(certificate.clone(), RELOAD_INTERVAL, |_| {});
    let stopped = stop.clone();
    tokio::spawn(async move { stopped.run_until_cancelled(reload).await });
    Ok(tls)
}

async fn authorize<B>(
    authorizer: &Authorizer,
    authorities: &ClientAuthorities,
    request: &Request<B>,
) -> Result<(), Refusal> {
    let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = header.and_then(|header| header.split_once(' '));
    let token = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let token = token.map(|(_, token)| token.trim().to_owned()).filter(|token| !token.is_empty());
    let chain = request.extensions().get::<ClientChain>();
    let identity = chain.and_then(|chain| authorities.identify(chain));
    if chain.is_some() && identity.is_none() && token.is_none() {
        return Err((StatusCode::UNAUTHORIZED, "Unauthorized".to_owned()));
    }
    let named = identity.map(|ClientIdentity { common_name, organizations }| (common_name, organizations));
    let verb = request.method().as_str().to_ascii_lowercase();
    authorizer(named, token, verb, request.uri().path().to_owned()).await
}

async fn respond<S: Readiness>(
    content: Arc<Content<S>>,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    if let Some(answer) = health::answer(&*content, &request) {
        return answer;
    }
    let page = content.pages.as_ref().and_then(|pages| pages(request.uri().path()));
    match page {
        Some(_) if !matches!(*request.method(), Method::GET | Method::HEAD) => {
            health::method_not_allowed("GET, HEAD", "only GET and HEAD")
        }
        Some(page) => page.await,
        None => health::not_found(health::PATHS),
    }
}
