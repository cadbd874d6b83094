//! Serving of a component: its health, its metrics and its own pages, over HTTPS for those who may read them, and over
//! plain HTTP on loopback.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use berth_serve::health::{self, Health, Readiness};
use berth_serve::{
    CertificateError, CertificateSource, ClientAuthorities, ClientChain, ConnectionLimits, ListenError,
    Listener, reloading_tls,
};
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::delegated::{DelegatedAuthorizer, Refusal, follow_client_authorities};

#[derive(Clone, Debug, Default)]
pub struct ServingOptions {
    /// Plain HTTP, on a loopback address; port 0 stands for a free one.
    pub http: Option<SocketAddr>,
    pub https: Option<SecureServingOptions>,
}

#[derive(Clone, Debug)]
pub struct SecureServingOptions {
    /// The address; port 0 stands for a free one.
    pub address: SocketAddr,
    pub certificate: CertificateSource,
    /// The paths that need no permission; one that ends with `*` stands for all paths that begin like it.
    pub always_allowed_paths: Vec<String>,
    /// PEM file with the authorities of client certificates; none: those that the cluster publishes.
    pub client_ca_file: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Anyone on the network could read what is served.
    #[error(
        "plain HTTP is served on loopback addresses only, not on {0}: serve HTTPS there with --bind-address and \
         --secure-port"
    )]
    NotLoopback(SocketAddr),
}

/// A page of a component; `None` for a path that it does not serve.
pub type StatusPages = Arc<dyn Fn(&str) -> Option<BoxFuture<'static, Response<Full<Bytes>>>> + Send + Sync>;

pub struct Content<S> {
    pub registry: Arc<Registry>,
    /// Its state. The component is alive while it holds the sender.
    pub state: watch::Receiver<S>,
    /// Its own pages, besides health and metrics.
    pub pages: Option<StatusPages>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    pub http: Option<SocketAddr>,
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

/// Serves a component until `stop`. Over HTTPS, the API server of `client` decides who may read.
///
/// # Errors
/// An address cannot be used, plain HTTP is requested on another address than loopback, or there is no certificate.
pub async fn serve<S: Readiness>(
    client: kube::Client,
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
    if let Some(https) = &options.https {
        let SecureServingOptions { address, certificate, always_allowed_paths, client_ca_file } = https;
        let authorities = Arc::new(ClientAuthorities::default());
        let tls = reloading_tls(certificate, authorities.clone(), &stop).await?;
        let followed = authorities.clone();
        let follow = match client_ca_file.clone() {
            Some(path) => {
                authorities.read_file(&path).await?;
                async move { followed.follow_file(&path).await }.boxed()
            }
            None => follow_client_authorities(client.clone(), followed).boxed(),
        };
        tokio::spawn(stop.clone().run_until_cancelled_owned(follow));
        let authorizer = Arc::new(DelegatedAuthorizer::new(client, always_allowed_paths.clone()));
        let listener = Listener::bind(*address).await?;
        addresses.https = Some(listener.address());
        let serve = move |request: Request<Incoming>| {
            let (content, authorizer, authorities) =
                (content.clone(), authorizer.clone(), authorities.clone());
            async move {
                match authorize(&authorizer, &authorities, &request).await {
                    Ok(()) => respond(content, request).await,
                    Err((status, message)) => health::text(status, message),
                }
            }
        };
        tokio::spawn(listener.run(Some(tls), ConnectionLimits::default(), stop, serve));
    }
    Ok(addresses)
}

async fn authorize<B>(
    authorizer: &DelegatedAuthorizer,
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
    let verb = request.method().as_str().to_ascii_lowercase();
    authorizer.authorize(identity, token, &verb, request.uri().path()).await
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
