//! HTTP connections to an API server. Requests that write share one over HTTP/2, if the server speaks it: many small requests
//! in flight take few packets. Each list or watch has its own over HTTP/1.1, so that nothing waits behind a long answer.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper_rustls::{DefaultServerNameResolver, FixedServerNameResolver, HttpsConnector, ResolveServerName};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Builder, Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _};
use tower::util::BoxService;
use tower::{BoxError, ServiceBuilder, ServiceExt as _, service_fn};

use crate::server_certificate;

/// A shared connection on which nothing arrives for this long is probed, and closed if there is no answer in time: together
/// less than the renew deadline of a lease, so that a leader whose server is gone finds another one behind the same address.
const PROBE_INTERVAL: Duration = Duration::from_secs(3);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

type HttpClient = Client<TimeoutConnector<HttpsConnector<HttpConnector>>, Body>;
pub(crate) type HttpService = BoxService<Request<Body>, Response<Incoming>, BoxError>;

/// Sends requests as a configuration says: address, credentials, headers, TLS and timeouts.
///
/// # Errors
/// Certificates or credentials cannot be used, or the configuration names a proxy.
pub(crate) fn http_service(config: &kube::Config) -> Result<HttpService, kube::Error> {
    if config.proxy_url.is_some() {
        let why = "proxies are not supported: remove proxy-url from the kubeconfig, and HTTPS_PROXY from the environment";
        return Err(kube::Error::Service(why.into()));
    }
    let (reads, writes) = (http_client(config, &[])?, http_client(config, &[b"h2", b"http/1.1"])?);
    let send = move |request: Request<Body>| -> ResponseFuture {
        if request.method() == Method::GET { reads.request(request) } else { writes.request(request) }
    };
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(service_fn(send));
    Ok(service.map_err(BoxError::from).boxed())
}

/// A pool of connections with the first of these protocols that the server speaks; HTTP/1.1 if there are none.
fn http_client(config: &kube::Config, protocols: &[&[u8]]) -> Result<HttpClient, kube::Error> {
    let mut tls = config.rustls_client_config()?;
    if let (Some(listed), false) = (&config.root_cert, config.accept_invalid_certs) {
        server_certificate::trust(&mut tls, listed).map_err(|e| kube::Error::Service(Box::new(e)))?;
    }
    tls.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let name: Arc<dyn ResolveServerName + Send + Sync> = match config.tls_server_name.clone() {
        None => Arc::new(DefaultServerNameResolver::default()),
        Some(name) => {
            let name = name.try_into().map_err(|e| kube::Error::Service(Box::new(e)))?;
            Arc::new(FixedServerNameResolver::new(name))
        }
    };
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    let mut connector = TimeoutConnector::new(HttpsConnector::new(http, tls, false, name));
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_write_timeout(config.write_timeout);
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PROBE_INTERVAL)
        .http2_keep_alive_timeout(PROBE_TIMEOUT);
    Ok(builder.build(connector))
}

#[cfg(test)]
mod tests {
    use berth_serve::authority::{Authority, LONG};
    use berth_serve::{Certificates, ConnectionLimits, Listener, tls_acceptor};
    use bytes::Bytes;
    use futures::future::join_all;
    use http_body_util::Full;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{call, connect};

    /// The protocol of each of these requests, which are sent at once to a server that tells.
    async fn protocols(with_tls: bool, method: Method, n: usize) -> Vec<String> {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let scheme = if with_tls { "https" } else { "http" };
        let mut config = kube::Config::new(format!("{scheme}://{}", listener.address()).parse().unwrap());
        config.accept_invalid_certs = true;
        let tls = with_tls.then(|| {
            let authority = Authority::new("test", LONG).unwrap();
            let certificate = authority.sign("test", &["127.0.0.1".to_owned()], LONG).unwrap();
            tls_acceptor(Arc::new(Certificates::signed(certificate, authority.pem).unwrap())).unwrap()
        });
        let answer = |request: Request<Incoming>| async move {
            Response::new(Full::new(Bytes::from(format!("{:?}", request.version()))))
        };
        let stop = CancellationToken::new();
        tokio::spawn(listener.run(tls, ConnectionLimits::default(), stop.clone(), answer));
        let client = connect::client(config).unwrap();
        let answers = join_all((0..n).map(|_| {
            let request = call::with_body(method.clone(), "/", "text/plain", b"body".to_vec());
            call::send(&client, request, Duration::from_secs(30), 100)
        }));
        let _stop = stop.drop_guard();
        answers.await.into_iter().map(|answer| String::from_utf8(answer.unwrap().to_vec()).unwrap()).collect()
    }

    #[tokio::test]
    async fn writes_share_a_connection_if_the_server_speaks_http2_and_reads_do_not() {
        // More than a server answers at a time on one connection.
        assert_eq!(protocols(true, Method::POST, 1500).await, vec!["HTTP/2.0"; 1500]);
        assert_eq!(protocols(true, Method::GET, 2).await, ["HTTP/1.1"; 2]);
        assert_eq!(protocols(false, Method::POST, 2).await, ["HTTP/1.1"; 2]);
    }

    #[test]
    fn a_proxy_is_refused_without_its_credentials() {
        let mut config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
        config.proxy_url = Some("http://user:secret@127.0.0.1:2".parse().unwrap());
        let error = connect::client(config).map(drop).unwrap_err().to_string();
        assert!(error.contains("proxy-url") && !error.contains("secret"), "{error}");
    }
}
