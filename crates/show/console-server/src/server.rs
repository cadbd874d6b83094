//! The requests of browsers.

mod confirm;
mod lists;
mod login;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_console::{APPLIED, Response as Page, State};
use berth_serve::reloading_tls;
use berth_serve::{CertificateError, CertificateSource, Connection, ConnectionLimits, ListenError, Listener};
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::Incoming;
use maud::{DOCTYPE, html};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::access::{Authenticator, RandomnessError};
use crate::changes::{Changes, EvictionRetries, WriteFn};
use crate::checks::{Foreign, Hosts, check};
use crate::console::{Console, Question, Rendered};
use crate::events;
use lists::Lists;

const MAX_CONNECTIONS: usize = 512;
/// Pages that follow the cluster.
const MAX_FOLLOWERS: usize = 256;
/// Path and query of a request.
const MAX_URI_BYTES: usize = 64 << 10;
const MAX_FORM_BYTES: usize = 1 << 20;
/// How long a form may take to arrive, and an answer to be read.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);

/// Everything comes from the console itself, and nothing inline is executed.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    // With `no-referrer`, browsers send forms with the origin `null`.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Takes the token of a viewer.
const LOGIN: &str = "/login";
/// Browsers take a cookie of this prefix from HTTPS only.
const SECURE_COOKIE: &str = "__Host-berth-console";

const EVENT_STREAM: &str = "text/event-stream";

type Body = BoxBody<Bytes, Infallible>;

/// Where the console is served, and to whom.
#[derive(Clone)]
pub struct ServerOptions {
    /// The address; port 0 stands for a free one. Without a certificate it is a loopback address.
    pub address: SocketAddr,
    /// The certificate of HTTPS; none for plain HTTP.
    pub certificate: Option<CertificateSource>,
    /// Further names under which it is reached; one without a port stands for all ports.
    pub hosts: Vec<String>,
    pub authenticator: Authenticator,
    /// Whether the state changes, so that open pages follow it.
    pub is_live: bool,
    /// Carries out the changes that viewers confirm; none if nothing may be changed.
    pub write: Option<WriteFn>,
    /// How it tries evictions again.
    pub retries: EvictionRetries,
}

/// Why the console is not served.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Anyone on the network could read the token.
    #[error("the console is served without TLS on loopback addresses only, not on {0}")]
    NotLoopback(SocketAddr),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// There is no key for the forms that write.
    #[error(transparent)]
    Randomness(#[from] RandomnessError),
}

/// An address on which a console will be served.
pub struct Bound {
    pub options: ServerOptions,
    listener: Listener,
}

impl Bound {
    /// Listens on the address of the options: a caller learns whether it can be used before other work begins.
    pub async fn new(options: ServerOptions) -> Result<Bound, StartError> {
        if options.certificate.is_none() && !options.address.ip().is_loopback() {
            return Err(StartError::NotLoopback(options.address));
        }
        let listener = Listener::bind(options.address).await?;
        Ok(Bound { options, listener })
    }
}

/// Serves a console until `stop`; returns the address in use.
///
/// # Errors
/// The address cannot be used, or there is no certificate.
pub fn start(
    console: Arc<Console>,
    options: ServerOptions,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<SocketAddr, StartError>> {
    async move { start_at(console, Bound::new(options).await?, stop).await }.boxed()
}

/// The same at an address on which the process listens already.
pub fn start_at(
    console: Arc<Console>,
    bound: Bound,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<SocketAddr, StartError>> {
    // Boxed here: the body of an `async fn` is compiled in each crate that polls it.
    async move {
        let Bound { options, listener } = bound;
        let tls = match &options.certificate {
            Some(certificate) => Some(reloading_tls(certificate, Arc::default(), &stop).await?),
            None => None,
        };
        let is_secure = tls.is_some();
        let changes = options.write.clone().map(|write| Changes::new(write, options.retries));
        let changes = changes.transpose()?.map(Arc::new);
        if changes.is_some() {
            let allow = |state: &mut State| {
                state.allows_changes = true;
                true
            };
            console.update(allow).await;
        }
        let address = listener.address();
        let server = Arc::new(Server {
            console,
            hosts: Hosts::new(address, &options.hosts, is_secure),
            cookie: if is_secure {
                SECURE_COOKIE.to_owned()
            } else {
                format!("berth-console-{}", address.port())
            },
            is_secure,
            options,
            changes,
            lists: Lists::default(),
            followers: Arc::new(Semaphore::new(MAX_FOLLOWERS)),
            stop: stop.clone(),
        });
        let limits = ConnectionLimits {
            connections: MAX_CONNECTIONS,
            drain: Duration::from_secs(2),
            ..ConnectionLimits::default()
        };
        let serve = move |request| {
            let server = server.clone();
            async move { server.answer(request).await }
        };
        tokio::spawn(listener.run(tls, limits, stop, serve));
        Ok(address)
    }
    .boxed()
}

struct Server {
    console: Arc<Console>,
    hosts: Hosts,
    /// Cookies are shared by all ports of a host: without TLS, the name has the port.
    cookie: String,
    /// Whether it is served over HTTPS.
    is_secure: bool,
    options: ServerOptions,
    changes: Option<Arc<Changes>>,
    lists: Lists,
    followers: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Server {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        // For probes, which come to the address of a pod: it says nothing but that the server answers.
        if request.uri().path() == "/healthz" {
            return Response::new(Full::new(Bytes::from_static(b"ok")).boxed());
        }
        let connection = request.extensions().get::<Connection>().cloned();
        let mut response = match self.route(request).await {
            Ok(response) => response,
            Err(Refusal(status, message)) => {
                let mut response = self.refusal(status, &message);
                // A client that is refused keeps no connection.
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                response
            }
        }
        .map(|body| match body {
            Content::Whole(bytes) => Full::new(sent_in_time(bytes, connection)).boxed(),
            Content::Events(body) => body,
        });
        for (name, value) in HEADERS {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    async fn route(&self, request: Request<Incoming>) -> Result<Response<Content>, Refusal> {
        check(&request, &self.hosts, if self.is_secure { "https" } else { "http" }).map_err(|foreign| {
            match foreign {
                Foreign::Host => Refusal(
                    StatusCode::MISDIRECTED_REQUEST,
                    "This address is not one of the console. Open the URL that it printed.".to_owned(),
                ),
                Foreign::Site => {
                    Refusal(StatusCode::FORBIDDEN, "Pages of other sites cannot use the console.".to_owned())
                }
            }
        })?;
        let (parts, body) = request.into_parts();
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        if path.len() + query.len() > MAX_URI_BYTES {
            return Err(Refusal(
                StatusCode::URI_TOO_LONG,
                format!("The URL is longer than {MAX_URI_BYTES} bytes."),
            ));
        }
        let is_form = match parts.method {
            Method::GET | Method::HEAD => false,
            Method::POST => true,
            _ => {
                let mut response = self.refusal(StatusCode::METHOD_NOT_ALLOWED, "Only GET, HEAD and POST.");
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
                return Ok(response);
            }
        };
        let is_login =
            is_form && path == LOGIN && matches!(self.options.authenticator, Authenticator::Delegated(_));
        if !is_login && let Some(redirect) = self.authenticate(&parts.headers, path, query).await? {
            return Ok(redirect);
        }
        let question = Question { path: path.to_owned(), query: query.to_owned() };
        if is_form {
            let is_urlencoded = parts
                .headers
                .get(header::CONTENT_TYPE)
                .is_some_and(|value| value.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
            if !is_urlencoded {
                let message = "A form has the type application/x-www-form-urlencoded.".to_owned();
                return Err(Refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
            }
            let form = read_form(body).await?;
            if is_login {
                return self.login(&form).await;
            }
            if let Some(changes) = self.changes_of(path) {
                return self.change(changes, &parts.headers, question, form).await;
            }
            return Ok(page(self.console.submit(question, form).await));
        }
        // The path is also that of a page.
        if parts.headers.get(header::ACCEPT).is_some_and(|accept| accept == EVENT_STREAM) {
            return self.follow();
        }
        let rendered = match self.changes.is_some() && path == APPLIED {
            true => self.applied(&parts.headers, question).await?,
            false => self.console.page(question).await,
        };
        let tag = parts.headers.get(header::IF_NONE_MATCH);
        if rendered.status == 200 && tag.is_some_and(|tag| *tag == entity_tag(&rendered)) {
            return Ok(with_status(StatusCode::NOT_MODIFIED, Content::Whole(Bytes::new())));
        }
        Ok(page(rendered))
    }

    /// The version of the state by server-sent events; 204 ends them in the browser.
    fn follow(&self) -> Result<Response<Content>, Refusal> {
        if !self.options.is_live {
            return Ok(with_status(StatusCode::NO_CONTENT, Content::Whole(Bytes::new())));
        }
        let Ok(slot) = self.followers.clone().try_acquire_owned() else {
            let message =
                "Too many open pages follow the cluster; reload this one to see changes.".to_owned();
            return Err(Refusal(StatusCode::SERVICE_UNAVAILABLE, message));
        };
        let versions = events::versions(self.console.versions(), slot);
        let stop = self.stop.clone();
        let until_stop = futures::StreamExt::take_until(versions, async move { stop.cancelled().await });
        let mut response = Response::new(Content::Events(BodyExt::boxed(StreamBody::new(until_stop))));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
        Ok(response)
    }

    /// A page about a refusal; it takes a token where one helps.
    fn refusal(&self, status: StatusCode, message: &str) -> Response<Content> {
        let title = status.canonical_reason().unwrap_or("Error");
        let takes_token = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
            && matches!(self.options.authenticator, Authenticator::Delegated(_));
        let text = html! {
            (DOCTYPE)
            html lang="en" {
                head { meta charset="utf-8"; meta name="color-scheme" content="light dark"; title { (title) " - Berth" } }
                body { main {
                    h1 { (title) }
                    p { (message) }
                    @if takes_token {
                        form method="post" action=(LOGIN) {
                            label { "Token " input type="password" name="token" autocomplete="off" required; }
                            button { "Show the console" }
                        }
                    }
                } }
            }
        };
        page(Page::html(status.as_u16(), text.into_string()).into())
    }
}

enum Content {
    Whole(Bytes),
    Events(Body),
}

/// A status and a message for people.
struct Refusal(StatusCode, String);

async fn read_form(body: Incoming) -> Result<String, Refusal> {
    let read = tokio::time::timeout(TRANSFER_TIMEOUT, Limited::new(body, MAX_FORM_BYTES).collect()).await;
    let Ok(read) = read else {
        return Err(Refusal(StatusCode::REQUEST_TIMEOUT, "The form took too long to arrive.".to_owned()));
    };
    let too_large = |_| {
        let message = format!("The form is larger than {MAX_FORM_BYTES} bytes, or its transfer broke off.");
        Refusal(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    let bytes = read.map_err(too_large)?.to_bytes();
    String::from_utf8(bytes.into())
        .map_err(|_| Refusal(StatusCode::BAD_REQUEST, "The form is not UTF-8.".to_owned()))
}

/// A client that has not read the bytes in time is disconnected: it would keep them in memory.
fn sent_in_time(bytes: Bytes, connection: Option<Connection>) -> Bytes {
    struct Sent {
        bytes: Bytes,
        _guard: DropGuard,
    }
    impl AsRef<[u8]> for Sent {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    let Some(Connection(connection)) = connection else { return bytes };
    let sent = CancellationToken::new();
    let guard = sent.clone().drop_guard();
    tokio::spawn(async move {
        if tokio::time::timeout(TRANSFER_TIMEOUT, sent.cancelled()).await.is_err() {
            connection.cancel();
        }
    });
    Bytes::from_owner(Sent { bytes, _guard: guard })
}

fn page(rendered: Rendered) -> Response<Content> {
    let tag = entity_tag(&rendered);
    let status = StatusCode::from_u16(rendered.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = with_status(status, Content::Whole(rendered.body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(rendered.content_type));
    response.headers_mut().extend(HeaderValue::try_from(tag).ok().map(|tag| (header::ETAG, tag)));
    response
}

/// The text of the header `ETag`.
fn entity_tag(rendered: &Rendered) -> String {
    format!("\"{:016x}\"", rendered.tag)
}

fn with_status(status: StatusCode, content: Content) -> Response<Content> {
    let mut response = Response::new(content);
    *response.status_mut() = status;
    response
}
